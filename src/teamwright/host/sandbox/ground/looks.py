"""Tells in one round of looks whether anything has changed that an earlier finding was made of."""

import os
from collections.abc import Iterable

from msgspec import Struct

FRESH = 50_000_000  # nanoseconds: what changed just now may change once more without another time of change

_Look = tuple[str, int, int]  # a path, its inode and its time of change; zeros where nothing is there


class Looks(Struct, frozen=True):
    """`ways`: what is only passed through or mounted, by inode; whatever changes in it does not matter.

    A program can set times of modification; those of change are the kernel's own.
    """

    names: tuple[_Look, ...]
    ways: tuple[tuple[str, int], ...]

    def hold(self) -> bool:
        return all(_look_at(path)[1] == inode for path, inode in self.ways) and all(
            _look_at(look[0]) == look for look in self.names
        )


def look_at(names: Iterable[str], passed: Iterable[str], began: int) -> Looks | None:
    """Paths without a link on the way. None if a name has changed since shortly before `began`, when the finding was
    begun: then nobody knows what it was made of."""
    looks = tuple(map(_look_at, dict.fromkeys(names)))
    if began - max((changed for _, _, changed in looks), default=0) < FRESH:
        return None
    known = {path for path, _, _ in looks}
    ways = {up for path in (*known, *passed) for up in (path, *_above(path))} - known
    return Looks(looks, tuple((path, _look_at(path)[1]) for path in sorted(ways)))


def _above(path: str) -> Iterable[str]:
    while (path := os.path.dirname(path)) != "/":
        yield path


def _look_at(path: str) -> _Look:
    try:
        found = os.lstat(path)
    except OSError:
        return path, 0, 0
    return path, found.st_ino, found.st_ctime_ns
