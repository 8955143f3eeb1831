"""Keeps copies of protected names while a program that could change them runs, and restores them afterwards.

Only for a tier that allows directories as a whole. Two programs in one directory share the first one's copies, because
the second's might already be tampered with.
"""

import os
import stat
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache

from msgspec import Struct

from teamwright.core.sandbox.policy import Access, Policy
from teamwright.host.sandbox.ground.expand import is_inside
from teamwright.host.sandbox.guard.moves import (
    is_unchanged,
    look,
    move_away,
    names_in,
    parent_of,
    put_directory,
    put_file,
    put_link,
)

MOST_FILE, MOST_TOGETHER = 256 << 10, 8 << 20  # bytes that are copied; larger files are known by inode and times
MOST_NAMES = 20_000  # below one protected name, shallowest first

_Stamp = tuple[int, ...]


class _Copy(Struct, frozen=True):
    """A name as it was. `data` is the content of a file or link, None if too large to keep."""

    mode: int
    stamp: _Stamp
    data: bytes | None = None


class _Baseline(Struct):
    """`looks`: each name with inode and ctime, including directories; empty if something changed so recently that
    another change might get the same time."""

    copies: dict[str, _Copy]
    looks: tuple[tuple[str, int, int], ...]
    users: int = 0

    @property
    def is_untouched(self) -> bool:
        """Has nothing changed since? The kernel sets ctime, and nobody can set it back."""
        return bool(self.looks) and is_unchanged(self.looks)


_baselines: dict[str, _Baseline] = {}  # by protected path; shared by the programs of one process
_last: dict[str, _Baseline] = {}  # from earlier programs, while nothing has changed since
_FRESH = 50_000_000  # nanoseconds
_MOST_KEPT = 64
_contents: dict[str, tuple[_Stamp, bytes]] = {}  # contents read earlier, by stamp


class Copies:
    def __init__(self, policy: Policy, quarantine: str) -> None:
        self._spared, self._quarantine = policy.spared, quarantine
        self._paths = policy.kept
        self._anchors = list(_anchors(policy))
        room = [MOST_TOGETHER]
        for path in self._paths:
            if path not in _baselines:
                known = _last.pop(path, None)
                _baselines[path] = known if known and known.is_untouched else _read(path, self._spared, room)
            _baselines[path].users += 1

    def restore(self, spared: tuple[str, ...]) -> tuple[list[str], list[str]]:
        """What was restored, and what could not be. `spared`: what belonged to others at any time meanwhile."""
        undone: list[str] = []
        changed: list[str] = []
        for path, handle, found in self._anchors:
            try:
                if self._bring_back(path, handle, found):
                    undone.append(path)
            except OSError:
                changed.append(path)
            finally:
                os.close(handle)
        for path in self._paths:
            baseline = _baselines[path]
            if not baseline.is_untouched:
                theirs = tuple(one for one in spared if is_inside(one, path))
                self._compare(path, baseline.copies, theirs, undone, changed)
            baseline.users -= 1
            if not baseline.users:
                del _baselines[path]
                if len(_last) >= _MOST_KEPT:
                    _last.clear()
                _last[path] = baseline
        return undone, changed

    def _bring_back(self, path: str, handle: int, was: _Stamp) -> bool:
        """Restores a directory that was moved aside: we hold it open, so we can find it wherever it is now."""
        now = _lstat(path)  # parent directories were handled before
        if now is not None and (now.st_dev, now.st_ino) == was:
            return False
        now = look(path)
        where = os.readlink(f"/proc/self/fd/{handle}")
        if os.fstat(handle).st_nlink == 0 or where.endswith(" (deleted)"):  # its copied content is made anew …
            if now is None or stat.S_ISDIR(now.st_mode):
                return False
            move_away(path, self._quarantine)  # … in a real directory, not wherever this leads
            return True
        if now is not None:
            move_away(path, self._quarantine)
        with parent_of(where) as (above, name), parent_of(path) as (target, last):
            os.rename(name, last, src_dir_fd=above, dst_dir_fd=target)
        return True

    def _compare(
        self, top: str, copies: dict[str, _Copy], theirs: tuple[str, ...], undone: list[str], changed: list[str]
    ) -> None:
        now = dict(_walk(top, theirs))
        if len(now) >= MOST_NAMES > len(copies):  # among so many names, the ones that matter could not be found
            try:
                self._replace(top, copies, theirs, changed)
                undone.append(top)
            except OSError:
                changed.append(top)
            return
        for path in sorted(now.keys() - copies.keys()):
            if look(path) is not None and not _touches(path, theirs):  # it may have gone with its parent directory
                self._act(path, None, undone, changed)
        for path, copy in copies.items():  # parents come first
            found = now.get(path)
            if found is None and _touches(path, theirs):
                continue
            if found is not None and (_stamp(found) == copy.stamp or self._same(path, found, copy)):
                continue
            self._act(path, copy, undone, changed)

    def _replace(self, top: str, copies: dict[str, _Copy], theirs: tuple[str, ...], changed: list[str]) -> None:
        """Moves everything away and makes it anew; brings back files too large to copy, and parts that belong to
        others."""
        place = move_away(top, self._quarantine)
        for path, copy in copies.items():  # parents come first
            _make(path, copy if copy.data is not None or stat.S_ISDIR(copy.mode) else None)
        large = [path for path, copy in copies.items() if copy.data is None and not stat.S_ISDIR(copy.mode)]
        for path in (*theirs, *large):
            try:
                with (
                    parent_of(place + path.removeprefix(top)) as (above, name),
                    parent_of(path, make=True) as (to, last),
                ):
                    os.rename(name, last, src_dir_fd=above, dst_dir_fd=to)
            except OSError:
                changed.append(path)

    def _same(self, path: str, found: os.stat_result, copy: _Copy) -> bool:
        if found.st_mode != copy.mode:
            return False
        return stat.S_ISDIR(copy.mode) or (copy.data is not None and _data(path, found, [MOST_FILE]) == copy.data)

    def _act(self, path: str, copy: _Copy | None, undone: list[str], changed: list[str]) -> None:
        try:
            if copy is not None and copy.data is None and not stat.S_ISDIR(copy.mode):
                changed.append(path)  # too large to have been kept
                return
            now = look(path)
            if now is not None and copy is not None and stat.S_ISDIR(copy.mode) and stat.S_ISDIR(now.st_mode):
                with parent_of(path) as (above, name):
                    os.chmod(name, stat.S_IMODE(copy.mode), dir_fd=above)
            else:
                if now is not None:
                    move_away(path, self._quarantine)
                _make(path, copy)
            undone.append(path)
        except OSError:
            changed.append(path)


def _touches(path: str, theirs: tuple[str, ...]) -> bool:
    """Is it part of what others own, or a directory created or removed for that?"""
    return any(is_inside(path, one) or is_inside(one, path) for one in theirs)


def _make(path: str, copy: _Copy | None) -> None:
    if copy is None:
        return
    if stat.S_ISDIR(copy.mode):
        put_directory(path, copy.mode)
    elif stat.S_ISLNK(copy.mode):
        put_link(path, os.fsdecode(copy.data or b""))
    else:
        put_file(path, copy.data or b"", copy.mode)


def _anchors(policy: Policy) -> Iterator[tuple[str, int, _Stamp]]:
    """Directories on the way to protected names, held open; parents come first."""
    for path in _on_the_way(policy.kept, policy.access, policy.watched):
        with suppress(OSError):
            handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)
            held = os.fstat(handle)
            yield path, handle, (held.st_dev, held.st_ino)


@lru_cache(maxsize=32)
def _on_the_way(
    kept: tuple[str, ...], access: tuple[tuple[str, Access], ...], watched: tuple[str, ...]
) -> tuple[str, ...]:
    writable = [path for path, may in access if may == "write" and path not in watched]
    found: set[str] = set()
    for path in kept:
        top = max((top for top in writable if is_inside(path, top)), key=len, default="/")
        place = path
        while place not in (top, "/"):
            found.add(place)
            place = os.path.dirname(place)
    return tuple(sorted(found))


def _stamp(found: os.stat_result) -> _Stamp:
    """A stamp without times for directories, because repairs inside change those."""
    return (found.st_mode, found.st_dev) if stat.S_ISDIR(found.st_mode) else _whole_stamp(found)


def _whole_stamp(found: os.stat_result) -> _Stamp:
    return (found.st_mode, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _read(top: str, spared: tuple[str, ...], room: list[int]) -> _Baseline:
    names = dict(_walk(top, spared))
    newest = max((found.st_ctime_ns for found in names.values()), default=0)
    settled = time.time_ns() - newest > _FRESH and not any(is_inside(one, top) for one in spared)
    looks = tuple((path, found.st_ino, found.st_ctime_ns) for path, found in names.items()) if settled else ()
    return _Baseline(dict(_tree(names, room)), looks)


def _tree(names: dict[str, os.stat_result], room: list[int]) -> Iterator[tuple[str, _Copy]]:
    data = dict[str, bytes | None]()
    for path in sorted(names, key=lambda name: names[name].st_size):  # small first: settings and hooks
        data[path] = None if stat.S_ISDIR(names[path].st_mode) else _data(path, names[path], room)
    for path, found in names.items():
        yield path, _Copy(found.st_mode, _stamp(found), data[path])


def _data(path: str, found: os.stat_result, room: list[int]) -> bytes | None:
    try:
        if stat.S_ISLNK(found.st_mode):
            return os.fsencode(os.readlink(path))
        if not stat.S_ISREG(found.st_mode) or found.st_size > min(MOST_FILE, room[0]):
            return None
        room[0] -= found.st_size
        stamp, known = _stamp(found), _contents.get(path)
        if known is None or known[0] != stamp:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(handle, "rb") as file:
                known = (stamp, file.read(MOST_FILE + 1))
            if len(_contents) > 4 * MOST_NAMES:
                _contents.clear()
            _contents[path] = known
        return known[1]
    except OSError:
        return None


def _walk(top: str, spared: tuple[str, ...]) -> Iterator[tuple[str, os.stat_result]]:
    """Walks breadth-first, so that the limit omits the deepest names."""
    waiting, seen = deque([top]), 0
    while waiting and seen < MOST_NAMES:
        path = waiting.popleft()
        if path in spared:
            continue
        found = look(path) if path == top else _lstat(path)
        if found is None:
            continue
        seen += 1
        yield path, found
        if stat.S_ISDIR(found.st_mode):
            waiting.extend(os.path.join(path, name) for name in names_in(path))


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except PermissionError:
        return look(path)
    except OSError:
        return None
