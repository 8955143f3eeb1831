"""Opens, moves and writes names in directories that a hostile program may be changing, without ever following a
link."""

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
    """The directory above a resolved path, held open, and the last component. OSError if a link is on the way.

    A directory of ours that a program closed by its mode is opened meanwhile; with `change` we need full access to it.
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
    """Opens the directory until `shut` closes. Raises PermissionError if it is not ours."""
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
    """The state of the name itself; None if it is gone, or no longer reachable this way."""
    try:
        os.lstat(path)  # usually it does not exist, and this takes one call
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


_FRESH = 50_000_000  # nanoseconds by which file timestamps may lag

Look = tuple[str, int, int]  # name, inode, ctime


def settled_looks(paths: Iterable[str]) -> tuple[Look, ...]:
    """Looks to compare with later. Empty if one changed so recently that another change might get the same time."""
    try:
        looks = tuple((path, found.st_ino, found.st_ctime_ns) for path in paths for found in (os.lstat(path),))
    except OSError:
        return ()
    newest = max((changed for _, _, changed in looks), default=0)
    return looks if time.time_ns() - newest > _FRESH else ()


def is_unchanged(looks: Iterable[Look]) -> bool:
    """Are inodes and ctimes the same? Called for many names before and after every command, so it compares nothing
    else."""
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
    """The sorted content of a directory; empty if it cannot be read."""
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
    """Moves it out of its place at once, if possible into the quarantine. Returns its new path. Raises OSError."""
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
    """A fresh name that tells its origin; cut if it would become too long."""
    return f"{os.fsdecode(os.fsencode(name)[:_MOST_NAME])}.{kind}-{os.urandom(6).hex()}"


def _carry(left: str, quarantine: str, name: str) -> str:
    """Copies to another disk, then removes. If copying fails, it stays beside its old place, where nothing obeys it."""
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
    except (OSError, shutil.Error, RecursionError):  # RecursionError: too deep to copy
        return left
    return place


def put_file(path: str, data: bytes, mode: int) -> None:
    """Writes a whole file under this name, atomically."""
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
