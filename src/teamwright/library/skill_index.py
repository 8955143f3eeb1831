"""The heads of skills as they were read the last time, kept on disk: a start with hundreds of them reads one file.

Only a hint: an entry counts as long as its file is unchanged, and a file that cannot be used is as good as none.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from teamwright import __version__
from teamwright.core.errors import SettingsError
from teamwright.library.agent_places import Signature
from teamwright.library.jsonfile import read_plain
from teamwright.library.skill_file import Shelf, SkillOutcome

FORMAT = 1
MOST_BYTES = 8_000_000

Key = tuple[int, str]  # number of the shelf, path
Known = tuple[Signature, SkillOutcome]


class _Stored(Struct, frozen=True):
    version: str
    entries: tuple[tuple[int, str, Signature, SkillOutcome], ...]


def _version() -> str:
    return f"{__version__}/{FORMAT}"


def index_file(folder: Path, shelves: Sequence[Shelf]) -> Path:
    """One for each set of shelves: what they are decides what an entry means."""
    said = [(s.kind, s.place.source, str(s.place.folder), s.place.namespace, str(s.place.within)) for s in shelves]
    return folder / f"skills-{hashlib.sha256(repr(said).encode(errors='replace')).hexdigest()[:24]}.json"


def load_index(file: Path) -> dict[Key, Known]:
    try:
        data = read_plain(file, MOST_BYTES, follow=False)
        stored = msgspec.json.decode(data, type=_Stored) if data else None
    except (SettingsError, msgspec.DecodeError, RecursionError):
        return {}
    if stored is None or stored.version != _version():
        return {}
    return {(n, path): (signature, outcome) for n, path, signature, outcome in stored.entries}


def save_index(file: Path, known: Mapping[Key, Known]) -> None:
    """Replaced as a whole; a disk that is full or a name that is no text costs the index, nothing else."""
    fresh = file.with_name(f".{file.name}-{os.urandom(6).hex()}")
    with suppress(OSError, UnicodeEncodeError):
        stored = _Stored(_version(), tuple((*key, *entry) for key, entry in known.items()))
        data = msgspec.json.encode(stored)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(data)
            fresh.replace(file)
        except OSError:
            fresh.unlink(missing_ok=True)
