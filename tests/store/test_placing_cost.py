"""The queries at each change cost no more when thousands of agents have ended."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from teamwright.core.data.team import ProcessId
from teamwright.core.ids import AgentId, SessionId
from teamwright.core.policies.placing import Needs
from teamwright.store.db.database import open_database
from teamwright.store.engine.tables import Prepare
from teamwright.store.tables.rows.remotes import (
    Remote,
    insert_remote,
    place_waiting,
    select_of_worker,
    select_open,
    select_unclaimed,
)

pytestmark = pytest.mark.anyio
ASKED: list[Callable[[sqlite3.Connection], object]] = [
    lambda db: place_waiting(db, 1),
    lambda db: select_unclaimed(db, 1),
    lambda db: select_of_worker(db, ProcessId("p1")),
    select_open,
]


@pytest.mark.spec("Z7")
async def test_those_that_have_ended_are_not_looked_at(tmp_path: Path) -> None:
    few, many = [await _steps(tmp_path / f"{ended}.db", ended) for ended in (10, 3000)]
    assert all(after <= before * 1.5 for before, after in zip(few, many, strict=True)), (few, many)


async def _steps(path: Path, ended: int) -> list[int]:
    """SQLite's steps, in tens, for each query: with a full worker, and three agents that wait."""
    database = await open_database(path)
    await database.write(Prepare())
    try:
        return await database.read(lambda db: _count(db, ended))
    finally:
        await database.close()


def _count(db: sqlite3.Connection, ended: int) -> list[int]:
    db.execute(
        "INSERT INTO hosts (process, role, name, host, version, lease, beat, joined) VALUES ('p1','','','','',1,1,1)"
    )
    db.execute("INSERT INTO workers (process, name, slots, labels, providers, bypass) VALUES ('p1','w',1,'[]','[]',0)")
    for n in range(ended + 4):
        new = Remote(AgentId(f"a{n}"), SessionId("s"), "", "waiting", None, "c", Needs(), "", 0, 0, 1, 1, "")
        insert_remote(db, new)
    db.execute("UPDATE remotes SET state = 'ended' WHERE n <= ?", (ended,))
    place_waiting(db, 1)
    return [_cost(db, ask) for ask in ASKED]


def _cost(db: sqlite3.Connection, ask: Callable[[sqlite3.Connection], object]) -> int:
    counted = [0]

    def count() -> None:
        counted[0] += 1

    db.set_progress_handler(count, 10)
    try:
        ask(db)
    finally:
        db.set_progress_handler(None, 0)
    return counted[0]
