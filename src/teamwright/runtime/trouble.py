"""Failing disk: an agent that cannot store something stops as if killed, and everybody who waits for it is told.

Such an end is not recorded, so a resume finds what a crash would have left and continues from there.
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeVar, cast

import anyio
from msgspec import Struct, field

from teamwright.core.data.event import TurnEnded
from teamwright.core.errors import DiskError, StoreError, TeamwrightError
from teamwright.runtime.concurrency.races import first

Value = TypeVar("Value")


class Trouble(Struct, eq=False):
    """The first fault counts, until somebody tries again."""

    _log: Callable[[str], None]
    error: StoreError | None = None
    _met: anyio.Event = field(default_factory=anyio.Event)

    def report(self, error: StoreError, what: str = "") -> None:
        """Any is logged; the disk's are trouble."""
        self._log(f"{what}: {error}" if what else str(error))
        if self.error is None and isinstance(error, DiskError):
            self.error = error
            self._met.set()

    def clear(self) -> None:
        """A person tries again: the disk may be well by now."""
        if self.error is not None:
            self.error, self._met = None, anyio.Event()

    async def met(self) -> None:
        await self._met.wait()

    @contextmanager
    def kept(self, what: str) -> Generator[None, None, None]:
        """A boundary: a fault inside is reported, and goes no further."""
        try:
            yield
        except Exception as error:
            inner = innermost(error)
            if not isinstance(inner, StoreError):
                raise
            self.report(inner, what)

    async def unless(self, wait: Callable[[], Awaitable[Value]]) -> Value:
        """What `wait` gives; raises as soon as there is trouble, which what it waits for may never get over."""
        found: list[Value] = []

        async def get() -> None:
            found.append(await wait())

        try:
            await first(get, self._met.wait)
        except ExceptionGroup as errors:
            inner = innermost(cast("Exception", errors))
            if isinstance(inner, StoreError):
                self.report(inner)
            raise inner from None
        if not found:
            raise self.error or StoreError("The disk failed for a moment. Try again.")
        return found[0]


def innermost(error: Exception) -> Exception:
    """Of what calls at the same time have raised: the disk's fault if there is one, else the first error."""
    while isinstance(error, ExceptionGroup):
        inner = cast("ExceptionGroup[Exception]", error).exceptions
        error = next((one for each in inner if isinstance(one := innermost(each), DiskError)), inner[0])
    return error


def failed_turn(error: TeamwrightError) -> TurnEnded:
    """How a turn ends by an error of ours; one of the model's says which kind, and with which status."""
    status, fault = getattr(error, "status", None), getattr(error, "fault", "")
    return TurnEnded("failed", error=str(error), status=status, fault=fault)
