"""Caches on disk what was read from many files, so that a start with hundreds of them reads just one.

It is only a hint: an entry counts while its file is unchanged, and an unreadable cache is ignored.
"""

import hashlib
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from teamwright import __version__
from teamwright.core.errors import SettingsError
from teamwright.library.agents.places import Sighting, Signature
from teamwright.osfiles.private import make_dirs, replace_file
from teamwright.osfiles.reading import read_plain

FORMAT = 2
MOST_BYTES = 8_000_000

Found = TypeVar("Found")
Key = tuple[int, str]  # index of the place, path


class CachedFile(Struct, Generic[Found], frozen=True):
    version: str
    entries: tuple[tuple[int, str, Signature, Found], ...]


def _version() -> str:
    return f"{__version__}/{FORMAT}"


def index_file(folder: Path, name: str, places: object) -> Path:
    """One file per set of places, because an entry refers to a place by its index."""
    return folder / f"{name}-{hashlib.sha256(repr(places).encode(errors='replace')).hexdigest()[:24]}.json"


def load_index(file: Path, kind: type[CachedFile[Found]]) -> dict[Key, tuple[Signature, Found]]:
    try:
        data = read_plain(file, MOST_BYTES, follow=False)
        stored = msgspec.json.decode(data, type=kind) if data else None
    except (SettingsError, msgspec.DecodeError, RecursionError):
        return {}
    if stored is None or stored.version != _version():
        return {}
    return {(n, path): (signature, found) for n, path, signature, found in stored.entries}


def reread(
    listing: Sequence[tuple[Sequence[Sighting], object]],
    before: Mapping[Key, tuple[Signature, Found]],
    unsure: Container[Key],
    look: Callable[[Key, Signature], Found],
) -> dict[Key, tuple[Signature, Found]]:
    """The current contents: as before for unchanged files, and as `look` reads those that changed or may have."""
    found: dict[Key, tuple[Signature, Found]] = {}
    for n, (sightings, _) in enumerate(listing):
        for path, signature in sightings:
            key = (n, path)
            known = before.get(key)
            if known is None or known[0] != signature or key in unsure:
                outcome = look(key, signature)
                known = (signature, known[1] if known and known[1] == outcome else outcome)
            found[key] = known
    return found


def save_index(file: Path, known: Mapping[Key, tuple[Signature, Found]]) -> None:
    """Replaces the index. A full disk or a name that is not valid text costs only the index."""
    with suppress(OSError, UnicodeEncodeError):
        data = msgspec.json.encode(CachedFile(_version(), tuple((*key, *entry) for key, entry in known.items())))
        make_dirs(file.parent)
        replace_file(file, data, synced=False)
