"""Finds the name that a rule guards among the names of one file (hard links)."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from teamwright.core.permissions.patterns import PathPattern

_MOST_ENTRIES = 5_000


def guarded_name(path: str, guarded: Sequence[PathPattern]) -> str:
    """A guarded name of the same file, which has several: one that a rule spells out, or one in the directories
    around it. Empty if there is none there."""
    try:
        own = os.lstat(path)
        folders = [*(one.start for one in guarded if one.literal), *map(str, Path(path).parents)]
        for name, inode in _entries(folders):
            is_guarded = inode == own.st_ino and any(one.covers(name, wide=True) for one in guarded)
            if is_guarded and os.path.samestat(os.lstat(name), own):
                return name
    except (OSError, ValueError):
        return ""
    return ""


def _entries(places: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Each of these files, and the entries of each of these directories, with their inodes."""
    seen = 0
    for place in dict.fromkeys(map(Path, places)):
        with suppress(OSError):
            if not place.is_dir():
                yield str(place), place.lstat().st_ino
                continue
            with os.scandir(place) as found:
                for entry in found:
                    seen += 1
                    if seen > _MOST_ENTRIES:
                        return
                    yield entry.path, entry.inode()
