"""Does work that several callers ask for at once only once for all of them."""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Generic, TypeVar

import anyio

from teamwright.core.errors import ToolError

T = TypeVar("T")


class SharedRun(Generic[T]):
    """Each caller gets the result of a run that began after it asked, as if it had run the work itself."""

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
        """A ToolError counts as a result. After any other error the next waiting caller runs the work."""
        began = next(self._clock)
        try:
            self._result, self._error = [await run()], None
        except ToolError as error:
            self._result, self._error = [], error
        self._began = began
