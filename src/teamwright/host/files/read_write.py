"""Reads whole files up to a limit, and replaces them so that no crash or full disk leaves half a file."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from teamwright.core.data.event import Seen
from teamwright.core.errors import ToolError
from teamwright.host.files.paths import open_directory, open_entry, open_judged, refusal

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CANNOT_REPLACE = (errno.EACCES, errno.EPERM, errno.EROFS)  # for the directory; the file itself may still be writable
_MOST_RESTORED = 64 * 1024 * 1024


def read_whole(path: Path, most: int) -> tuple[bytes, os.stat_result]:
    """All bytes of a resolved regular file, and its state when it was opened."""
    handle = open_judged(path)
    with open(handle, "rb") as file:  # noqa: PTH123
        found = os.fstat(handle)
        if found.st_size > most:
            raise ToolError(f"{path} has {found.st_size:,} bytes; at most {most:,} can be handled here. Use Bash.")
        try:
            content = file.read(most + 1)
        except OSError as error:
            raise refusal(path, error) from None
    if len(content) > most:
        raise ToolError(f"{path} grew past {most:,} bytes while it was read. Use Bash.")
    return content, found


def look(path: Path) -> os.stat_result | None:
    """The current state of the regular file at this resolved path; None if nothing is there."""
    try:
        handle = open_judged(path)
    except FileNotFoundError:
        return None
    try:
        return os.fstat(handle)
    finally:
        os.close(handle)


def seen_of(path: Path, found: os.stat_result) -> Seen:
    return Seen(str(path), found.st_mtime_ns, found.st_size)


def write_whole(path: Path, content: bytes, *, basis: os.stat_result | None) -> Seen:
    """Writes the file. `basis` is the state on which the caller decided; None: the file did not exist.

    Makes missing directories. Writes nothing if the file no longer matches `basis`.
    """
    folder = open_directory(path.parent, create=True)
    try:
        from teamwright.host.git.worktrees.ignored import note_written  # noqa: PLC0415  # nothing of it before a first write

        note_written(path)
        if basis is not None and not os.access(path.name, os.W_OK, dir_fd=folder):
            raise ToolError(f"{path} is write-protected. If it must be changed, make it writable first.")
        if basis is not None and basis.st_nlink > 1:  # a new file would separate it from its other hard links
            return _write_in_place(folder, path, content, basis)
        try:
            return _replace(folder, path, content, basis)
        except PermissionError:
            if basis is None:
                raise
            return _write_in_place(folder, path, content, basis)
    except OSError as error:
        raise _failure(path, error) from None
    finally:
        os.close(folder)


def _failure(path: Path, error: OSError) -> ToolError:
    if error.errno in _FULL:
        why = os.strerror(error.errno or 0).lower()
        return ToolError(f"{path} was not changed: {why}. Free some space, then try again.")
    return refusal(path, error)


def _replace(folder: int, path: Path, content: bytes, basis: os.stat_result | None) -> Seen:
    """Writes a new file next to it, then renames it over the old one."""
    temporary = f".teamwright-{os.urandom(6).hex()}.tmp"
    handle = _create(folder, temporary, 0o666 if basis is None else 0o600)
    try:
        with open(handle, "wb", buffering=0):  # noqa: PTH123
            _write_all(handle, content)
            if basis is not None:
                _dress(folder, path, handle, basis)
            os.fsync(handle)
            done = os.fstat(handle)
            _take_name(folder, temporary, path, basis)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    _sync_directory(folder)
    return seen_of(path, done)


def _create(folder: int, name: str, mode: int) -> int:
    try:
        return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode, dir_fd=folder)
    except OSError as error:
        if error.errno in _CANNOT_REPLACE:
            raise PermissionError(error.errno, error.strerror) from None
        raise


def _dress(folder: int, path: Path, handle: int, basis: os.stat_result) -> None:
    """Copies the old file's owner, extended attributes (including ACLs) and mode."""
    mine = os.fstat(handle)
    if (mine.st_uid, mine.st_gid) != (basis.st_uid, basis.st_gid):
        os.fchown(handle, basis.st_uid, basis.st_gid)  # if not permitted, the caller writes in place instead
    if hasattr(os, "listxattr"):
        old = open_entry(folder, path, os.O_RDONLY)
        try:
            for name in os.listxattr(old):
                with suppress(OSError):
                    os.setxattr(handle, name, os.getxattr(old, name))
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EACCES):
                raise
        finally:
            os.close(old)
    os.fchmod(handle, stat.S_IMODE(basis.st_mode))


def _take_name(folder: int, temporary: str, path: Path, basis: os.stat_result | None) -> None:
    if basis is not None:
        _require_same(path, os.stat(path.name, dir_fd=folder, follow_symlinks=False), basis)
        os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        return
    try:  # unlike a rename, a link never overwrites a file that somebody just created
        os.link(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    except FileExistsError:
        raise ToolError(f"{path} was made by somebody else just now. Read it first, then decide.") from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
            raise
        os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)  # no hard links on this file system
        return
    os.unlink(temporary, dir_fd=folder)


def _write_in_place(folder: int, path: Path, content: bytes, basis: os.stat_result) -> Seen:
    handle = open_entry(folder, path, os.O_RDWR)
    with open(handle, "r+b", buffering=0) as file:  # noqa: PTH123
        _require_same(path, os.fstat(handle), basis)
        old = file.read(basis.st_size) if basis.st_size <= _MOST_RESTORED else None
        try:
            if content and hasattr(os, "posix_fallocate"):  # reserve first: a full disk must not cost the content
                os.posix_fallocate(handle, 0, len(content))
            os.lseek(handle, 0, os.SEEK_SET)
            _write_all(handle, content)
        except OSError:
            if old is not None:
                os.lseek(handle, 0, os.SEEK_SET)
                _write_all(handle, old)
            os.ftruncate(handle, basis.st_size)
            raise
        os.ftruncate(handle, len(content))
        os.fsync(handle)
        return seen_of(path, os.fstat(handle))


def _write_all(handle: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _require_same(path: Path, now: os.stat_result, basis: os.stat_result) -> None:
    if _mark(now) != _mark(basis):
        raise ToolError(f"{path} was changed by somebody else just now; nothing was written. Read it again first.")


def _mark(found: os.stat_result) -> tuple[int, int, int, int]:
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)


def _sync_directory(folder: int) -> None:
    """Makes the new name survive a power cut, where the file system supports it."""
    with suppress(OSError):
        readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(readable)
        finally:
            os.close(readable)
