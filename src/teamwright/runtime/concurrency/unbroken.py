"""Runs a change of the store and its follow-ups to the end, delaying a cancellation until then.

Cancelled halfway, a message would be stored without a wake-up, and its sender would not know its fate.
"""

from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from typing import TypeVar

import anyio

Value = TypeVar("Value")
FOLLOW_LIMIT = 10.0  # seconds for what follows a stored change


async def unbroken(work: Awaitable[Value]) -> Value:
    """For work that waits only for our own disk, which has limits of its own."""
    with anyio.CancelScope(shield=True):
        return await work
    raise AssertionError("a shield lets nothing through")


@contextmanager
def following() -> Generator[None, None, None]:
    """For telling others about a stored change, even if the caller is cancelled now."""
    with anyio.CancelScope(shield=True), anyio.move_on_after(FOLLOW_LIMIT):
        yield
