"""Compares the files of a small tree with a git index, without running git.

After most calls nothing has changed, and starting git takes longer than finding that out. Cases it cannot decide are
left to git: other index formats, files missing from the index (they may be ignored), and files written so recently that
their timestamp does not reveal another write.
"""

import hashlib
import os
import stat
import struct
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

_COARSE = 5  # Linux's CLOCK_REALTIME_COARSE, the source of file timestamps
_MOST = 96 << 10  # bytes of the index, about 1,000 files; beyond that git is faster
_VERSION_2 = b"DIRC\0\0\0\2"
_STAT = struct.Struct(">10I")  # ctime and its ns, mtime and its ns, device, inode, mode, owner, group, size
_LARGE = 1 << 20  # bytes of a file; for larger ones git decides whether it was only touched
_LENGTH = 0x0FFF  # mask for a path's length; other bits in an entry's flags are special
_32 = 0xFFFFFFFF
_SECOND = 10**9  # in nanoseconds
_TICK = 2 * _SECOND  # the coarsest timestamp step of a file system
_LINK = 0o160000  # a submodule, whose files do not concern us


Stamp = tuple[int, int, int, int, int]
"""ctime, mtime, inode, mode and size of a file. Leaves out the device, which may change when the machine restarts."""


class IndexEntry(Struct, frozen=True):
    path: bytes
    stamp: Stamp
    id: bytes
    at: int  # its offset in the file

    @property
    def is_link(self) -> bool:
        """Is it a submodule? Its files are no business of ours."""
        return self.mode == _LINK

    @property
    def mode(self) -> int:
        return self.stamp[3]

    @property
    def size(self) -> int:
        return self.stamp[4]


class IndexFile(Struct, frozen=True):
    data: bytes
    width: int  # bytes of an object id
    entries: tuple[IndexEntry, ...]

    def with_facts(self, found: Sequence[os.stat_result]) -> bytes:
        """The same index for other files with the same contents."""
        data = bytearray(self.data[: -self.width])
        for entry, file in zip(self.entries, found, strict=True):
            times = (*divmod(file.st_ctime_ns, _SECOND), *divmod(file.st_mtime_ns, _SECOND))
            facts = (*times, file.st_dev, file.st_ino, entry.mode, file.st_uid, file.st_gid, file.st_size)
            _STAT.pack_into(data, entry.at, *(fact & _32 for fact in facts))
        return bytes(data) + (hashlib.sha256 if self.width == 32 else hashlib.sha1)(data).digest()


def file_clock() -> int:
    """The timestamp that the kernel would give a file now, in nanoseconds, or slightly earlier."""
    return time.clock_gettime_ns(_COARSE) if sys.platform == "linux" else time.time_ns() - _SECOND


def find_changed(
    known: Mapping[bytes, Stamp], top: Path, looked: int, later: Mapping[bytes, int] | None = None
) -> list[str] | None:
    """Paths below `top` that may differ from what is known; None if git has to be asked.

    `looked`: a `file_clock` value from before the last look, after which `known` was brought up to date; `later`: the
    same for files that were read since.
    """
    later = later or {}
    gone, changed = set(known), list[bytes]()
    try:
        for path, found in _files_below(os.fsencode(top), b""):
            gone.discard(path)
            change = is_changed(known.get(path), found, later.get(path, looked))
            if change is None:
                return None
            if change:
                changed.append(path)
    except (OSError, RecursionError):
        return None
    return [os.fsdecode(path) for path in (*changed, *gone)]


def is_changed(was: Stamp | None, found: os.stat_result, looked: int) -> bool | None:
    """Whether a file may be another than it was; None if only git can tell.

    What was written in the same tick as the last look may have been written once more since, and show no new time.
    """
    if was is None:
        return None
    written = found.st_mtime_ns
    same = was == (found.st_ctime_ns, written, found.st_ino & _32, _mode(found.st_mode), found.st_size & _32)
    if same and (written <= looked - _TICK or tick_after(written) <= looked):
        return False
    return True if found.st_size <= _LARGE else None


def stamp_of(found: os.stat_result) -> Stamp:
    size, inode = found.st_size & _32, found.st_ino & _32
    return found.st_ctime_ns, found.st_mtime_ns, inode, _mode(found.st_mode), size


def tick_after(time: int) -> int:
    """When a file that is written would get another time than this. Some file systems know whole seconds only."""
    return time + (1 if time % _SECOND else _TICK)


@cache
def _mode(kind: int) -> int:
    """A file mode as stored in an index entry."""
    return (0o100755 if kind & 0o100 else 0o100644) if stat.S_ISREG(kind) else stat.S_IFMT(kind)


def _files_below(top: bytes, folder: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    """All files and links, except git's own directory. Raises OSError."""
    with os.scandir(os.path.join(top, folder) if folder else top) as entries:
        for entry in entries:
            path = folder + entry.name
            if not entry.is_dir(follow_symlinks=False):
                yield path, entry.stat(follow_symlinks=False)
            elif path != b".git":
                yield from _files_below(top, path + b"/")


def read_index(index: Path, width: int) -> IndexFile | None:
    """None if it is too large, or has entries with special flags. Raises OSError or ValueError."""
    with index.open("rb") as file:
        data = file.read(_MOST + 1)
    if not width or len(data) > _MOST or data[:8] != _VERSION_2:
        return None
    found, at = list[IndexEntry](), 12
    for _ in range(int.from_bytes(data[8:12], "big")):
        begin = at + _STAT.size + width + 2
        end = data.index(0, begin)
        if int.from_bytes(data[begin - 2 : begin], "big") & ~_LENGTH:
            return None
        changed, changed_ns, written, written_ns, _, inode, mode, _, _, size = _STAT.unpack_from(data, at)
        stamp = (changed * _SECOND + changed_ns, written * _SECOND + written_ns, inode, mode, size)
        found.append(IndexEntry(data[begin:end], stamp, data[at + _STAT.size : at + _STAT.size + width], at))
        at += (end - at + 8) // 8 * 8
    return IndexFile(data, width, tuple(found))
