"""A connected stream socket, read and written without blocking the loop."""

import errno
import socket
from types import TracebackType
from typing import Self

import anyio

CHUNK = 65_536


class SocketStream:
    """One connection. One task may read and one may write at a time."""

    def __init__(self, connected: socket.socket) -> None:
        connected.settimeout(0)
        self._socket = connected

    async def receive(self, most: int = CHUNK) -> bytes:
        """Empty once the other side has finished or is gone."""
        while True:
            try:
                return self._socket.recv(most)
            except BlockingIOError:
                await self.readable()
            except OSError:
                return b""

    async def send(self, data: bytes) -> None:
        """Raises BrokenPipeError if the other side is gone."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                await self.writable()
            except OSError:
                raise gone() from None

    async def readable(self) -> None:
        await anyio.wait_readable(self._socket)

    async def writable(self) -> None:
        await anyio.wait_writable(self._socket)

    def close(self) -> None:
        self._socket.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def gone() -> BrokenPipeError:
    return BrokenPipeError(errno.EPIPE, "the other side has gone")
