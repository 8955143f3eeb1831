"""Fingerprint of a directory tree, which tells later whether anybody has written in it.

Names, inodes, modes, sizes and times of everything in it are hashed. A file written in the same tick of the file
system's clock as the fingerprint could be written once more and show no new time, so its content is hashed as well.
"""

import hashlib
import os
import stat
from pathlib import Path

from msgspec import Struct

from teamwright.core.errors import SettingsError
from teamwright.host.git.travel.trees.index_file import file_clock, tick_after
from teamwright.osfiles.reading import read_whole

_MOST_RECENT = 1 << 20  # bytes of one file whose content is hashed


class Seal(Struct, frozen=True):
    taken: int  # by the file system's clock, in nanoseconds
    digest: bytes


def seal(top: Path) -> Seal | None:
    """None if the tree cannot be read, or a large file in it was written just now."""
    now = file_clock()
    digest = _digest(top, now)
    return None if digest is None else Seal(now, digest)


def is_intact(seal: Seal, top: Path) -> bool:
    return _digest(top, seal.taken) == seal.digest


def _digest(top: Path, taken: int) -> bytes | None:
    found, folders = hashlib.blake2b(digest_size=16), [os.fspath(top)]
    try:
        found.update(_facts(".", os.lstat(top)))
        while folders:
            with os.scandir(folders.pop()) as entries:
                listed = sorted(entries, key=_name)
            for entry in listed:
                status = entry.stat(follow_symlinks=False)
                found.update(_facts(entry.name, status))
                if stat.S_ISDIR(status.st_mode):
                    folders.append(entry.path)
                elif stat.S_ISREG(status.st_mode) and tick_after(status.st_ctime_ns) > taken:
                    found.update(read_whole(entry.path, _MOST_RECENT, follow=False) or b"")
    except (OSError, SettingsError):
        return None
    return found.digest()


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _facts(name: str, status: os.stat_result) -> bytes:
    """Everything that a change of the entry changes; not when it was last read."""
    numbers = (status.st_ino, status.st_mode, status.st_nlink, status.st_uid, status.st_gid, status.st_size)
    return b"%b\0%b\0" % (os.fsencode(name), repr((*numbers, status.st_mtime_ns, status.st_ctime_ns)).encode())
