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
    """The first disk error, until somebody tries again."""

    _log: Callable[[str], None]
    error: StoreError | None = None
    _met: anyio.Event = field(default_factory=anyio.Event)

    def report(self, error: StoreError, what: str = "") -> None:
        """Log an error; one of the disk also counts as trouble."""
        self._log(f"{what}: {error}" if what else str(error))
        if self.error is None and isinstance(error, DiskError):
            self.error = error
            self._met.set()

    def clear(self) -> None:
        """Forget the error when a person tries again: the disk may work by now."""
        if self.error is not None:
            self.error, self._met = None, anyio.Event()

    async def met(self) -> None:
        await self._met.wait()

    @contextmanager
    def kept(self, what: str) -> Generator[None, None, None]:
        """A boundary: a store error inside is reported, and goes no further."""
        try:
            yield
        except Exception as error:
            inner = innermost(error)
            if not isinstance(inner, StoreError):
                raise
            self.report(inner, what)

    async def unless(self, wait: Callable[[], Awaitable[Value]]) -> Value:
        """The result of `wait`. Raises as soon as there is trouble, after which `wait` might never return."""
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
    """The error inside a group: the disk's if there is one, else the first."""
    while isinstance(error, ExceptionGroup):
        inner = cast("ExceptionGroup[Exception]", error).exceptions
        error = next((one for each in inner if isinstance(one := innermost(each), DiskError)), inner[0])
    return error


def failed_turn(error: TeamwrightError) -> TurnEnded:
    """The end of a turn that failed with an error of ours; a model's error adds its kind and status."""
    status, fault = getattr(error, "status", None), getattr(error, "fault", "")
    return TurnEnded("failed", error=str(error), status=status, fault=fault)
