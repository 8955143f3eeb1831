"""Checks in one pass whether anything that an earlier result was based on has changed."""

import os
from collections.abc import Iterable

from msgspec import Struct

FRESH = 50_000_000  # nanoseconds; what changed this recently may change again without a new timestamp

_Look = tuple[str, int, int]  # path, inode, ctime; zeros if nothing is there


class Looks(Struct, frozen=True):
    """`ways`: directories that are only passed through or mounted, by inode; changes inside them do not matter.

    Uses ctime, which only the kernel sets, because programs can set modification times.
    """

    names: tuple[_Look, ...]
    ways: tuple[tuple[str, int], ...]

    def hold(self) -> bool:
        return all(_look_at(path)[1] == inode for path, inode in self.ways) and all(
            _look_at(look[0]) == look for look in self.names
        )


def look_at(names: Iterable[str], passed: Iterable[str], began: int) -> Looks | None:
    """Paths must contain no links. None if a name has changed since shortly before `began`, the start of the search:
    then it is unclear what the result was based on."""
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
