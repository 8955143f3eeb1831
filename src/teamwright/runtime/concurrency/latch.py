"""Event that is set once, and costs next to nothing until somebody waits for it.

Each agent and each job has several, most of which nobody ever waits for; an event of anyio takes 0.8 kB from the start.
"""

import anyio
import anyio.lowlevel
from msgspec import Struct


class Latch(Struct, eq=False):
    passed: bool = False  # it is set
    _event: anyio.Event | None = None  # for those who wait

    def set(self) -> None:
        self.passed = True
        if self._event is not None:
            self._event.set()

    def is_set(self) -> bool:
        return self.passed

    async def wait(self) -> None:
        if self.passed:
            await anyio.lowlevel.checkpoint()
            return
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()
