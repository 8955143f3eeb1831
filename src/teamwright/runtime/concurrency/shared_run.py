"""Work that many ask for at once is done once for all of them."""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Generic, TypeVar

import anyio

from teamwright.core.errors import ToolError

T = TypeVar("T")


class SharedRun(Generic[T]):
    """Whoever asks gets the result of a run that began after they asked, as if they had run it themselves."""

    def __init__(self) -> None:
        self._lock, self._clock = anyio.Lock(), count()
        self._began, self._result, self._error = -1, list[T](), None

    async def get(self, run: Callable[[], Awaitable[T]]) -> T:
        asked = next(self._clock)
        async with self._lock:
            if self._began < asked:
                await self._run(run)
            if self._error is not None:
                raise ToolError(str(self._error))
            return self._result[0]

    async def _run(self, run: Callable[[], Awaitable[T]]) -> None:
        """A ToolError is an answer, too; whatever else ends it, the next one who asked tries."""
        began = next(self._clock)
        try:
            self._result, self._error = [await run()], None
        except ToolError as error:
            self._result, self._error = [], error
        self._began = began
