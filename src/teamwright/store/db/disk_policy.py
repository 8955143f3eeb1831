"""Chooses where disk work runs: on the event loop while the disk is fast, in a thread once it was slow.

A trip to a thread and back costs the event loop about 0.15 ms and the machine 0.2 ms; a sync of a local disk takes
0.25 ms. So on a quick disk a thread would nearly double the cost of a turn and spare the loop almost nothing.
"""

import time
from collections.abc import Callable
from functools import partial
from math import inf
from typing import TypeVar

import anyio
import anyio.to_thread
from msgspec import Struct, field

Value = TypeVar("Value")

QUICK = 0.002  # seconds for which the event loop may stand still


class Pace(Struct, eq=False):
    """The last duration decides where the next run goes: one slow sync is felt, the second is not."""

    last: float = inf  # seconds that the last run took
    # A limiter of its own: other blocking work must not delay a sync.
    threads: anyio.CapacityLimiter = field(default_factory=partial(anyio.CapacityLimiter, 1))

    async def run(self, work: Callable[[], Value]) -> Value:
        """Never abandoned: a cancelled caller waits for the disk."""
        return self.run_here(work) if self.last <= QUICK else await self.run_there(work)

    def run_here(self, work: Callable[[], Value]) -> Value:
        began = time.perf_counter()
        try:
            return work()
        finally:
            self.last = time.perf_counter() - began

    async def run_there(self, work: Callable[[], Value]) -> Value:
        """Shielded: a caller cancelled on its way to the thread would drop the work, which may be that of others."""
        with anyio.CancelScope(shield=True):
            return await anyio.to_thread.run_sync(self.run_here, work, limiter=self.threads)
        raise AssertionError("a shield lets nothing through")
