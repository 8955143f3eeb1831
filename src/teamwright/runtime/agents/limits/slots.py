"""Limits how many agents run at once. An agent that waits for a child, a job, an answer or a message does not count."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from msgspec import Struct, field

from teamwright.runtime.concurrency.lock import LightLock


class Slot(Struct, eq=False):
    """One agent's right to run, out of the `_free` places of a session. Held once, however many of its calls wait."""

    _free: anyio.Semaphore
    _held: bool = False
    _waits: int = 0
    queued: bool = False  # waits for its turn to run
    # Two calls that return at the same time must take only one place.
    _queue: LightLock = field(default_factory=LightLock)

    @property
    def must_wait(self) -> bool:
        return not self._held and self._free.value == 0

    async def take(self) -> None:
        if self._held:
            return
        async with self._queue:
            if self._held:
                return
            self.queued = True
            try:
                await self._free.acquire()
            finally:
                self.queued = False
            if self._waits:  # another call began to wait meanwhile, and takes the place when it returns
                self._free.release()
            else:
                self._held = True

    def give_back(self) -> None:
        if self._held:
            self._held = False
            self._free.release()

    @asynccontextmanager
    async def waiting(self) -> AsyncGenerator[None]:
        """Let others run meanwhile. If several calls wait, the last one to return takes the slot again."""
        counted = self._held or self._waits > 0 or self.queued
        self._waits += 1
        self.give_back()
        try:
            yield
        finally:
            self._waits -= 1
        if counted and self._waits == 0:
            await self.take()
