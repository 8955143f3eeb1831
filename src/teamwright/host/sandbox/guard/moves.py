"""Opens, moves and writes names in directories that a hostile program may be changing: no link is ever followed."""

import os
import shutil
import stat
import time
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from errno import EACCES
from pathlib import Path

from teamwright.osfiles.trees import remove_tree

_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OURS = 0o700
_MOST_NAME = 200  # bytes; file systems take 255, some fewer


@contextmanager
def parent_of(path: str, *, make: bool = False, change: bool = True) -> Generator[tuple[int, str]]:
    """The directory above a resolved path, held open, and the last name. OSError if a link stands on the way.

    One of our own that a program has shut by its mode is opened for that time; to `change` it, it must be ours in full.
    """
    *folders, last = [part for part in path.split("/") if part]
    with ExitStack() as shut:
        handle = os.open("/", _DIRECTORY)
        try:
            for name in folders:
                inner = _enter(handle, name, shut, make=make)
                os.close(handle)
                handle = inner
            if change and not os.access(_place(handle), os.R_OK | os.W_OK | os.X_OK):
                _unlock(handle, shut)
            yield handle, last
        finally:
            os.close(handle)


def _enter(handle: int, name: str, shut: ExitStack, *, make: bool) -> int:
    for again in (True, False):
        try:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=handle)
            return os.open(name, _DIRECTORY, dir_fd=handle)
        except PermissionError:
            if not again:
                raise
            _unlock(handle, shut)
    raise AssertionError("the second time it returns or raises")


def _unlock(handle: int, shut: ExitStack) -> None:
    """Until `shut` closes. Raises PermissionError where it is not ours to open."""
    found = os.fstat(handle)
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid != os.geteuid() or mode & _OURS == _OURS or not os.path.exists(_place(handle)):
        raise PermissionError(EACCES, os.strerror(EACCES))
    held = os.dup(handle)
    shut.callback(os.close, held)
    os.chmod(_place(held), mode | _OURS)
    shut.callback(os.chmod, _place(held), mode)


def _place(handle: int) -> str:
    return f"/proc/self/fd/{handle}"


def look(path: str) -> os.stat_result | None:
    """The name itself; None if it is not there, or not by this way any more."""
    try:
        os.lstat(path)  # most often it is not there, and this is one call
    except PermissionError:
        pass  # a directory on the way was shut
    except OSError:
        return None
    try:
        with parent_of(path, change=False) as (above, name):
            try:
                return os.stat(name, dir_fd=above, follow_symlinks=False)
            except PermissionError:
                pass
        with parent_of(path) as (above, name):
            return os.stat(name, dir_fd=above, follow_symlinks=False)
    except OSError:
        return None


_FRESH = 50_000_000  # nanoseconds that the clock of files may be behind

Look = tuple[str, int, int]  # a name, its inode, its time of change


def settled_looks(paths: Iterable[str]) -> tuple[Look, ...]:
    """To be compared later. None if one has changed just now, and may change once more at the same time."""
    try:
        looks = tuple((path, found.st_ino, found.st_ctime_ns) for path in paths for found in (os.lstat(path),))
    except OSError:
        return ()
    newest = max((changed for _, _, changed in looks), default=0)
    return looks if time.time_ns() - newest > _FRESH else ()


def is_unchanged(looks: Iterable[Look]) -> bool:
    """Names with their inodes and times of change. It is asked of many before and after every command: no more is
    compared than tells."""
    lstat = os.lstat
    try:
        for path, inode, changed in looks:
            found = lstat(path)
            if found.st_ctime_ns != changed or found.st_ino != inode:
                return False
    except OSError:
        return False
    return True


def names_in(directory: str) -> list[str]:
    """What is in it, in order; nothing where it cannot be known."""
    try:
        return sorted(os.listdir(directory))
    except PermissionError:
        pass
    except OSError:
        return []
    try:
        with parent_of(f"{directory}/.") as (handle, _):
            return sorted(os.listdir(_place(handle)))
    except OSError:
        return []


def move_away(path: str, quarantine: str) -> str:
    """Out of its place at once, into the quarantine if that can be done; where it is now. Raises OSError."""
    with parent_of(path) as (above, name):
        aside = _beside(name, "undone")
        os.rename(name, aside, src_dir_fd=above, dst_dir_fd=above)
        left = os.path.join(os.path.dirname(path), aside)
        try:
            os.makedirs(quarantine, mode=0o700, exist_ok=True)
            place = os.path.join(quarantine, aside)
            os.rename(aside, place, src_dir_fd=above)
        except OSError:
            return _carry(left, quarantine, aside)
        return place


def _beside(name: str, kind: str) -> str:
    """A fresh name that tells where it comes from; a long one is cut, since the longest would become too long."""
    return f"{os.fsdecode(os.fsencode(name)[:_MOST_NAME])}.{kind}-{os.urandom(6).hex()}"


def _carry(left: str, quarantine: str, name: str) -> str:
    """Another disk: copied, then removed. If it cannot be copied it stays beside its place, where nobody obeys it."""
    place = os.path.join(quarantine, name)
    try:
        found = os.lstat(left)
        if stat.S_ISDIR(found.st_mode):
            shutil.copytree(left, place, symlinks=True)
            remove_tree(Path(left))
        elif stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode):
            shutil.copy2(left, place, follow_symlinks=False)
            os.unlink(left)
        else:
            return left
    except (OSError, shutil.Error, RecursionError):  # the last: it is deeper than a copy can be
        return left
    return place


def put_file(path: str, data: bytes, mode: int) -> None:
    """Write a whole file under this name, in one step."""
    with parent_of(path, make=True) as (above, name):
        new = _beside(name, "new")
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=above)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(handle, rest) :]
            os.fchmod(handle, stat.S_IMODE(mode))
            os.rename(new, name, src_dir_fd=above, dst_dir_fd=above)
        except OSError:
            with suppress(OSError):
                os.unlink(new, dir_fd=above)
            raise
        finally:
            os.close(handle)


def put_link(path: str, says: str) -> None:
    with parent_of(path, make=True) as (above, name):
        os.symlink(says, name, dir_fd=above)


def put_directory(path: str, mode: int) -> None:
    with parent_of(path, make=True) as (above, name):
        os.mkdir(name, stat.S_IMODE(mode), dir_fd=above)
