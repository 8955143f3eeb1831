"""Waits for the first of several things to happen."""

from collections.abc import Awaitable, Callable

import anyio


async def first(*waits: Callable[[], Awaitable[object]]) -> None:
    """Return when one of them returns; the others are cancelled."""
    async with anyio.create_task_group() as group:

        async def end_with(wait: Callable[[], Awaitable[object]]) -> None:
            await wait()
            group.cancel_scope.cancel()

        for wait in waits:
            group.start_soon(end_with, wait)
