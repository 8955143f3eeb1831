"""Event that is set once, and costs next to nothing until somebody waits for it.

Each agent and each job has several, most of which nobody ever waits for; an event of anyio takes 0.8 kB from the start.
"""

import anyio
import anyio.lowlevel


class Latch:
    __slots__ = ("_event", "_set")

    def __init__(self) -> None:
        self._event: anyio.Event | None = None
        self._set = False

    def set(self) -> None:
        self._set = True
        if self._event is not None:
            self._event.set()

    def is_set(self) -> bool:
        return self._set

    async def wait(self) -> None:
        if self._set:
            await anyio.lowlevel.checkpoint()
            return
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()
