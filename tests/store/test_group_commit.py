"""The caller that commits a group does so for all: if it is cancelled, the others lose nothing."""

import sqlite3
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from store_kit import Sql
from teamwright.store.db.database import open_database

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


async def test_a_read_sees_what_was_queued_before_it_though_another_process_holds_the_store(tmp_path: Path) -> None:
    database = await open_database(tmp_path / "state.db")
    await database.write(Sql("CREATE TABLE t (a)"))
    database._pace.last = 0.0  # a quick disk: tried at once, then in a thread
    holder = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    database.write_soon(Sql("INSERT INTO t VALUES (7)"))
    seen: list[object] = []

    async def look() -> None:
        seen.append(await database.read(lambda db: db.execute("SELECT a FROM t").fetchall()))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(look)
            await anyio.wait_all_tasks_blocked()
            holder.execute("COMMIT")
    holder.close()
    await database.close()
    assert seen == [[(7,)]]
