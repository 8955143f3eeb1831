"""TCP connections of the proxy: reading, writing, half-close."""

import contextlib
import errno
import os
import socket
import time

import anyio
from msgspec import Struct, field

from teamwright.host.ipc.stream import SocketStream


class Stream(SocketStream):
    """One TCP connection; a side may finish sending while it still receives."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__(connected)
        with contextlib.suppress(OSError):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def fileno(self) -> int:
        return self._socket.fileno()

    def finish(self) -> None:
        """Finishes sending."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)


class Silence(Struct):
    """Limits how long both sides may be silent. `broken` may be called in any thread; it is frequent, so only notes the
    time."""

    most: float
    last: float = field(default_factory=time.monotonic)

    def broken(self) -> None:
        self.last = time.monotonic()

    @property
    def left(self) -> float:
        """Seconds until the silence is too long."""
        return self.last + self.most - time.monotonic()


async def dial(address: str, port: int, seconds: float) -> Stream:
    """Connects to exactly this address, without resolving names. Raises OSError, including TimeoutError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.settimeout(0)
        code = made.connect_ex((address, port))
        if code == errno.EINPROGRESS:  # reported even if a local connection is already complete
            code = made.connect_ex((address, port))
        if code in (errno.EINPROGRESS, errno.EALREADY):
            with anyio.fail_after(seconds):
                await anyio.wait_writable(made)
            code = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code not in (0, errno.EISCONN):
            raise OSError(code, os.strerror(code))
    except BaseException:
        made.close()
        raise
    return Stream(made)
