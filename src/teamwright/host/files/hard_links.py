"""Finds the name that a rule guards among the names of one file (hard links)."""

import os
import stat
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

from teamwright.core.permissions.patterns import PathPattern

_MOST_ENTRIES = 5_000  # of one directory
_FRESH = 200_000_000  # nanoseconds; what changed this recently may change again without a new timestamp


def guarded_name(path: str, guarded: Sequence[PathPattern]) -> str:
    """A guarded name of the same file, which has several: one that a rule spells out, or one in the directories
    around it. Empty if there is none there."""
    try:
        own = os.lstat(path)
        for place in dict.fromkeys((*(one.start for one in guarded if one.literal), *map(str, Path(path).parents))):
            for name in _names_in(place).get(own.st_ino, ()):
                if any(one.covers(name, wide=True) for one in guarded) and os.path.samestat(os.lstat(name), own):
                    return name
    except (OSError, ValueError):
        return ""
    return ""


def _names_in(place: str) -> Mapping[int, Sequence[str]]:
    """This file, or the entries of this directory, by their inodes."""
    try:
        found = os.stat(place)  # noqa: PTH116
        if not stat.S_ISDIR(found.st_mode):
            return {os.lstat(place).st_ino: [place]}
        fresh = time.time_ns() - found.st_ctime_ns < _FRESH
        return (_listed.__wrapped__ if fresh else _listed)(place, found.st_ctime_ns)
    except OSError:
        return {}


@lru_cache(maxsize=64)
def _listed(directory: str, _changed: int) -> dict[int, list[str]]:
    names = dict[int, list[str]]()
    with os.scandir(directory) as found:
        for entry in islice(found, _MOST_ENTRIES):
            names.setdefault(entry.inode(), []).append(entry.path)
    return names
