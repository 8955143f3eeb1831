"""Paths as the kernel sees them: resolved once, then opened exactly as judged, never through a link."""

import errno
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from teamwright.core.errors import ToolError
from teamwright.core.text import shown

_OPENAT2 = 437  # the same on all architectures except alpha
_AT_FDCWD = -100
_NO_LINKS = 0x04 | 0x02  # RESOLVE_NO_SYMLINKS, RESOLVE_NO_MAGICLINKS
_SAFE = os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK | os.O_NOFOLLOW  # opening a FIFO or device never blocks
_DIRECTORY = os.O_CLOEXEC | os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)  # O_PATH needs no read permission

_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO (named pipe)"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a symbolic link"),
)


def is_linked(path: str) -> bool:
    """Does the file have more than one hard link? Writing it then changes the others too."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink > 1


def resolve(path: str, cwd: Path) -> Path:
    """The real path: `~` expanded, relative to `cwd`, links and `..` followed as far as they exist."""
    if not path:
        raise ToolError("The path is empty. Give the path of a file or directory.")
    if "\0" in path:
        raise ToolError("The path contains a NUL byte, which no path can. Give the path without it.")
    try:
        real = os.path.realpath(cwd / os.path.expanduser(path))  # noqa: PTH111  # Path's raises for an unknown user
        real.encode()  # a link may lead to a name that is not UTF-8, which neither model nor transcript can write
    except UnicodeEncodeError:
        raise ToolError(
            "The path contains, or leads to, characters that are not valid text. Use another one."
        ) from None
    except (OSError, RecursionError) as error:  # a link was replaced meanwhile, or there are too many
        raise _unresolved(path, error) from None
    try:
        os.stat(real)  # noqa: PTH116  # only the kernel knows whether links go round in circles
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENAMETOOLONG):
            raise _unresolved(path, error) from None
    return Path(real)


def _unresolved(path: str, error: OSError | RecursionError) -> ToolError:
    name = shown(path)
    match getattr(error, "errno", errno.ELOOP):
        case errno.EACCES | errno.EPERM:
            words = "leads through a link that this user may not follow (permission denied). Use another path."
        case errno.ELOOP:
            words = "leads through too many symbolic links, or through some that form a loop. Use another path."
        case errno.ENAMETOOLONG:
            words = "is, or leads to, a path that is longer than the system takes. Use a shorter one."
        case _:
            why = getattr(error, "strerror", None) or str(error)
            words = f"could not be resolved ({why}): something on the way may have just been replaced. Try it again."
    return ToolError(f"{name} {words}")


def is_directory(path: Path) -> bool:
    """Also False if it cannot be told: `Path.is_dir` raises if part of the path is inaccessible or too long."""
    return os.path.isdir(path)  # noqa: PTH112


def beneath(path: Path, roots: Iterable[Path]) -> bool:
    """Is the resolved path one of the resolved roots, or below one?"""
    return any(path.is_relative_to(root) for root in roots)


def kind_of(mode: int) -> str:
    """The kind of a directory entry that is not a regular file; empty for regular files."""
    return next((words for is_kind, words in _KINDS if is_kind(mode)), "")


def open_judged(path: Path, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """Opens exactly this resolved path, which must be a regular file.

    Raises FileNotFoundError if nothing is there (and `flags` do not create it), ToolError for all other problems.
    """
    folder = open_directory(path.parent)
    try:
        return open_entry(folder, path, flags, mode)
    finally:
        os.close(folder)


def open_entry(folder: int, path: Path, flags: int, mode: int = 0o666) -> int:
    """Like `open_judged`, in a directory that is already open."""
    if not path.name:
        raise refusal(path, OSError(errno.EISDIR, "root"))
    try:
        # Check before opening, because merely opening some devices has effects.
        found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        _require_regular(path, found)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    except OSError as error:
        raise refusal(path, error) from None
    try:
        handle = os.open(path.name, flags | _SAFE, mode, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise refusal(path, error) from None
    try:
        _require_regular(path, os.fstat(handle))
    except ToolError:
        os.close(handle)
        raise
    return handle


def open_directory(path: Path, *, create: bool = False) -> int:
    """Opens exactly this resolved directory, to work below it; `create` makes missing directories."""
    if not path.is_absolute() or ".." in path.parts:
        raise ValueError(f"not a resolved path: {path}")
    missing: list[str] = []
    while True:
        try:
            handle = _open_directory(path)
            break
        except FileNotFoundError:
            if not create or not path.name:
                raise
            missing.append(path.name)
            path = path.parent
        except OSError as error:
            raise refusal(path, error) from None
    while missing:
        path = path / missing[-1]
        handle = _make_below(handle, path, missing.pop())
    return handle


def _make_below(above: int, path: Path, name: str) -> int:
    """Opens a subdirectory of an open directory, making it if necessary; closes the parent's descriptor."""
    try:
        with suppress(FileExistsError):  # somebody else just made it
            os.mkdir(name, dir_fd=above)
        return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    except OSError as error:
        raise refusal(path, error) from None
    finally:
        os.close(above)


_REFUSALS = {
    errno.ELOOP: "was replaced by a symbolic link after its permission was judged; call the tool again",
    errno.ENOTDIR: "cannot be reached: a part of it is not a directory (or was just replaced by a link)",
    errno.EACCES: "may not be used by this user (permission denied)",
    errno.EPERM: "may not be used by this user (permission denied)",
    errno.ENXIO: "is a socket, FIFO or device, not a regular file",
    errno.ENODEV: "is a socket, FIFO or device, not a regular file",
    errno.EISDIR: "is a directory",
    errno.EROFS: "is on a read-only file system",
    errno.ENAMETOOLONG: "is longer than a path can be",
}


def refusal(path: Path, error: OSError) -> ToolError:
    """The system's refusal in words for the model."""
    words = _REFUSALS.get(error.errno or 0)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        words = f"could not be written: {os.strerror(error.errno).lower()}; free some space and try again"
    return ToolError(f"{path} {words or f'could not be used: {error.strerror or error}'}.")


def _require_regular(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        if stat.S_ISLNK(found.st_mode):
            raise refusal(path, OSError(errno.ELOOP, "link"))
        raise ToolError(f"{path} is {kind_of(found.st_mode)}, not a regular file.")
    if found.st_dev in _kernel_devices():
        raise ToolError(f"{path} is made by the kernel, not a regular file. Use Bash if you need what it says.")


def _kernel_devices() -> set[int]:
    """The devices of /proc and /sys, whose files are endless, change while being read, or reveal secrets."""
    root = os.stat("/").st_dev  # noqa: PTH116
    devices: set[int] = set()
    for mount in ("/proc", "/sys"):
        try:
            devices.add(os.stat(mount).st_dev)  # noqa: PTH116
        except OSError:
            continue
    return devices - {root}


def _open_directory(path: Path) -> int:
    how = _openat2()
    return how(path) if how else _walk(path)


def _walk(path: Path) -> int:
    """Opens component by component, for kernels without openat2."""
    handle = os.open("/", _DIRECTORY)
    for part in path.parts[1:]:
        try:
            below = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
        finally:
            os.close(handle)
        handle = below
    return handle


def has_openat2() -> bool:
    """Can the kernel open whole paths without following links? (Linux 5.6 and later, unless a sandbox forbids it.)"""
    return _openat2() is not None


@cache
def _openat2() -> Callable[[Path], int] | None:
    import sys  # noqa: PLC0415

    if sys.platform != "linux":
        return None
    import ctypes  # noqa: PLC0415  # slow to import, needed at the first file only

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    how = (ctypes.c_uint64 * 3)(_DIRECTORY, 0, _NO_LINKS)

    def call(path: Path) -> int:
        name = ctypes.c_char_p(os.fsencode(path))
        size = ctypes.c_size_t(ctypes.sizeof(how))
        while (handle := syscall(ctypes.c_long(_OPENAT2), ctypes.c_int(_AT_FDCWD), name, how, size)) < 0:
            code = ctypes.get_errno()
            if code != errno.EINTR:
                raise OSError(code, os.strerror(code), str(path))
        return handle

    try:
        os.close(call(Path("/")))
    except OSError:
        return None
    return call
