"""Standard output that never blocks the agents: lines for a slow reader wait in a thread."""

import os
import select
from typing import Protocol

import anyio

_CHUNK = 4096  # PIPE_BUF: a pipe that polls writable takes this much without blocking


class Sink(Protocol):
    async def write(self, data: bytes) -> None:
        """Raises BrokenPipeError when nobody reads any more."""
        ...


class Out:
    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT | select.POLLERR | select.POLLHUP)
        self._one_at_a_time = anyio.Lock()

    async def write(self, data: bytes) -> None:
        """Raises BrokenPipeError when nobody reads any more."""
        async with self._one_at_a_time:
            rest = memoryview(data)
            while rest:
                if not self._poll.poll(0):
                    await anyio.to_thread.run_sync(self._poll.poll, 1000)
                    continue
                rest = rest[os.write(self._fd, rest[:_CHUNK]) :]
