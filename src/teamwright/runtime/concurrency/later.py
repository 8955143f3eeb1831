"""Debounces work: many rings within a moment cause one run."""

from collections.abc import Awaitable, Callable

import anyio

from teamwright.runtime.trouble import Trouble


class Later:
    def __init__(self, delay: float, work: Callable[[], Awaitable[None]], trouble: Trouble) -> None:
        self._delay, self._work, self._bell, self._trouble = delay, work, anyio.Event(), trouble

    def ring(self) -> None:
        self._bell.set()

    async def run(self) -> None:
        while True:
            await self._bell.wait()
            await anyio.sleep(self._delay)
            self._bell = anyio.Event()
            with self._trouble.kept("what follows a bell"):
                await self._work()
