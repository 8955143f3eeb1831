"""Cross-process wake-up: a Unix datagram that only rings; the data is in the store.

A lost wake-up is covered by polling the store; an extra one costs a single look there.
"""

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import anyio

from teamwright.core.errors import StoreError

_LONGEST = 100  # bytes in a socket's path; the limit is 107 on Linux, 103 on macOS
_RUNG = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS})  # its queue is full of unread rings
_SUFFIX = ".bell"


class Wakeup:
    """Made by `open_bell`. `address` is stored in the process's row."""

    def __init__(self, bound: socket.socket, path: Path) -> None:
        self._socket = bound
        self._path = path
        self.address = str(path)

    async def wait(self) -> None:
        """Waits for a ring; several rings count as one."""
        await anyio.wait_readable(self._socket)
        with contextlib.suppress(BlockingIOError):
            while True:
                self._socket.recv(16)

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        self._socket.close()


def open_bell(env: Mapping[str, str]) -> Wakeup:
    directory = private_directory(env)
    sweep(directory)
    return _bind(directory / f"{os.urandom(6).hex()}{_SUFFIX}")


def private_directory(env: Mapping[str, str]) -> Path:
    """A directory for sockets, with room for a 17-byte name. Raises StoreError if there is none that only we can
    enter."""
    for directory in _directories(env):
        if _private(directory):
            return directory
    raise StoreError("There is no private directory for sockets: check $XDG_RUNTIME_DIR, $TMPDIR and /tmp.")


def ring(address: str) -> Literal["rung", "gone"]:
    """Never waits. `gone`: no process listens there any more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as caller:
        caller.settimeout(0)
        try:
            caller.sendto(b"!", address)
        except OSError as error:
            return "rung" if error.errno in _RUNG else "gone"
        except ValueError:  # not a valid socket address
            return "gone"
    return "rung"


def _directories(env: Mapping[str, str]) -> Iterator[Path]:
    """Candidates, shortest first; the last is newly made in case somebody else has taken our name."""
    import tempfile  # noqa: PLC0415  # where somebody sends wake-ups, or waits for them

    given = env.get("XDG_RUNTIME_DIR", "")
    roots = [Path(given)] if given and Path(given).is_absolute() else []
    names = [root / "teamwright" for root in roots if _owned(root)]
    temps = [Path(tempfile.gettempdir()), Path("/tmp")]  # noqa: S108 -- checked for its owner and mode before use
    names += [temp / f"teamwright-{os.getuid()}" for temp in temps]
    for directory in names:
        if _fits(directory):
            yield directory
    for temp in temps:
        if _fits(temp / "teamwright-12345678"):
            with contextlib.suppress(OSError):
                yield Path(tempfile.mkdtemp(prefix="teamwright-", dir=temp))


def _fits(directory: Path) -> bool:
    return len(os.fsencode(directory / ("0" * 12 + _SUFFIX))) <= _LONGEST


def _private(directory: Path) -> bool:
    try:
        directory.mkdir(0o700, exist_ok=True)
    except OSError:
        return False
    return _owned(directory) and stat.S_IMODE(directory.lstat().st_mode) & 0o077 == 0


def _owned(directory: Path) -> bool:
    """Is it a directory of ours, not a link to one?"""
    try:
        found = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _bind(path: Path) -> Wakeup:
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        bound.settimeout(0)
        bound.bind(str(path))
        path.chmod(0o600)
    except OSError as error:
        bound.close()
        raise StoreError(f"Cannot listen at {path}: {error.strerror}. Check the directory and its disk.") from error
    return Wakeup(bound, path)


def sweep(directory: Path, suffix: str = _SUFFIX, kind: socket.SocketKind = socket.SOCK_DGRAM) -> None:
    """Removes sockets of killed processes. Connecting sends nothing; a refusal means that nobody is there."""
    for path in directory.glob(f"*{suffix}"):
        with socket.socket(socket.AF_UNIX, kind) as caller:
            caller.settimeout(0)
            try:
                caller.connect(str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
            except OSError:
                continue
