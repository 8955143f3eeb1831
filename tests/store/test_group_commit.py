"""Whoever runs what waits does so for all: that it is cancelled costs nobody else anything."""

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from teamwright.store.database import open_database

pytestmark = [pytest.mark.anyio, pytest.mark.spec("X2")]


async def test_a_cancelled_runner_still_runs_what_the_others_wait_for(tmp_path: Path) -> None:
    database = await open_database(tmp_path / "state.db")
    scope, answers = anyio.CancelScope(), []

    async def cancelled() -> None:
        with scope:
            await database.read(lambda db: db.execute("SELECT 1").fetchone())

    async def other() -> None:
        answers.append(await database.read(lambda db: db.execute("SELECT 2").fetchone()))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(cancelled)  # takes the turn, and both are in its group
            group.start_soon(other)
            await anyio.lowlevel.checkpoint()
            scope.cancel()
    await database.close()
    assert answers == [(2,)]
