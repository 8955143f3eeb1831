"""Visits a session that another process runs, through its door."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from teamwright.core.errors import UsageError
from teamwright.core.ids import SessionId
from teamwright.store.files.paths import Home
from teamwright.surfaces.port.doors import knock
from teamwright.surfaces.port.remote_session import RemoteSession


@asynccontextmanager
async def visit(home: Home, session: SessionId, *, every_ms: int = 0) -> AsyncGenerator[RemoteSession]:
    """Connected until the caller leaves. Raises UsageError if nobody answers, or not in time."""
    refused: UsageError | None = None
    async with knock(home, session) as wire, anyio.create_task_group() as group:
        there = RemoteSession(wire, home, every_ms=every_ms)
        group.start_soon(there.listen)
        try:
            await there.enter()
        except UsageError as error:
            refused = error  # raised outside, because a task group would wrap it
        else:
            yield there
        finally:
            there.leave()
        group.cancel_scope.cancel()
    if refused is not None:
        raise refused
