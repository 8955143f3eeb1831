"""Standard output that never blocks the agents: lines for a slow reader wait in a thread."""

import os
import select
from functools import partial
from typing import Protocol

import anyio
from msgspec import Struct, field

_CHUNK = 4096  # PIPE_BUF: a pipe that polls writable takes this much without blocking


class Sink(Protocol):
    async def write(self, data: bytes) -> None:
        """Raises BrokenPipeError once nobody reads any more."""
        ...


class Out(Struct, eq=False):
    _fd: int
    _one_at_a_time: anyio.Lock = field(default_factory=partial(anyio.Lock, fast_acquire=True))
    _waits: "select.poll | None" = None  # made with the first line

    async def write(self, data: bytes) -> None:
        """Raises BrokenPipeError once nobody reads any more."""
        if self._waits is None:
            self._waits = select.poll()
            self._waits.register(self._fd, select.POLLOUT | select.POLLERR | select.POLLHUP)
        async with self._one_at_a_time:
            rest = memoryview(data)
            while rest:
                if not self._waits.poll(0):
                    await anyio.to_thread.run_sync(self._waits.poll, 1000)
                    continue
                rest = rest[os.write(self._fd, rest[:_CHUNK]) :]
