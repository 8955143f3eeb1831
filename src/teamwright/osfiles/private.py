"""Private files: readable only by their owner whatever the umask; small ones are replaced atomically."""

import errno
import os
from contextlib import suppress
from pathlib import Path

from teamwright.core.errors import DiskError, StoreError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # EFBIG: the file size limit


def make_dir(path: Path) -> Path:
    """Creates the directory and missing parents with mode 0700; existing ones stay unchanged."""
    try:
        make_dirs(path)
    except FileExistsError as error:
        raise StoreError(f"{error.filename} is in the way: a directory is needed there. Move that file away.") from None
    except OSError as error:
        raise fault("make", path, error) from error
    return path


def make_dirs(path: Path) -> None:
    """The core of `make_dir`, for callers that report an OSError in their own words."""
    if path.is_dir():
        return
    make_dirs(path.parent)
    path.mkdir(0o700, exist_ok=True)
    path.chmod(0o700)  # the umask may have cleared bits


def open_file(path: Path, flags: int) -> int:
    """A descriptor, not inherited by children, for a file with mode 0600; a symlink in its place is refused."""
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise fault("open", path, error) from error
    return _privately(fd)


def _privately(fd: int) -> int:
    if os.fstat(fd).st_mode & 0o777 != 0o600:
        os.fchmod(fd, 0o600)
    return fd


def create_file(path: Path, flags: int) -> int:
    """Like `open_file`, but creates the file and its directory. With O_EXCL it raises FileExistsError."""
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise
    except FileNotFoundError:
        make_dir(path.parent)
        return open_file(path, flags | os.O_CREAT)
    except OSError as error:
        raise fault("open", path, error) from error
    return _privately(fd)


def write_file(path: Path, data: bytes, *, synced: bool = True) -> None:
    """Replaces a small file. Readers see the old or the new one, even after a crash; if synced, also after a power
    cut."""
    make_dir(path.parent)
    try:
        replace_file(path, data, synced=synced)
        if synced:
            sync_dir(path.parent)
    except OSError as error:
        raise fault("write", path, error) from error


def replace_file(path: Path, data: bytes, *, synced: bool = True) -> None:
    """The core of `write_file`, for callers that report an OSError in their own words."""
    draft = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            write_all(_privately(fd), data)
            if synced:
                os.fsync(fd)
        finally:
            os.close(fd)
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def write_all(fd: int, data: bytes) -> None:
    """Writes everything; one system call unless the kernel takes less."""
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, data[written:])


def sync_dir(path: Path) -> None:
    """Makes new names in the directory survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_file(path: Path) -> None:
    """Removes a file if it exists. Raises DiskError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise fault("remove", path, error) from error


def fault(verb: str, path: Path, error: OSError) -> DiskError:
    """The error for a person: what happened, to what, what to do now."""
    if error.errno in _FULL:
        return DiskError(f"The disk is full: cannot {verb} {path} ({error.strerror}). Free some space and resume.")
    return DiskError(f"Cannot {verb} {path}: {error.strerror}. Check the disk and the permissions of that path.")
