"""If the caller that runs a group for all is cancelled, the others' work is still done."""

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from store_kit import Sql
from teamwright.store.db.database import open_database

pytestmark = pytest.mark.anyio


@pytest.mark.spec("X2")
@pytest.mark.parametrize("quick", [True, False])
async def test_a_cancelled_caller_loses_nobody_elses_write(tmp_path: Path, quick: bool) -> None:
    database = await open_database(tmp_path / "state.db")
    await database.write(Sql("CREATE TABLE t (n INTEGER)"))
    got: list[object] = []

    async def insert(n: int) -> None:
        await database.write(Sql("INSERT INTO t VALUES (?)", (n,)))
        got.append(await database.read(lambda db: db.execute("SELECT n FROM t WHERE n = ?", (n,)).fetchone()))

    for n in range(0, 40, 4):
        database._pace.last = 0.0 if quick else float("inf")  # a slow disk: in a thread
        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as leaders:
                    leaders.start_soon(insert, n)
                    for more in (1, 2, 3):
                        group.start_soon(insert, n + more)
                    for _ in range(n // 4):  # a little later each time
                        await anyio.lowlevel.checkpoint()
                    scope.cancel()
    rows = await database.read(lambda db: [n for (n,) in db.execute("SELECT n FROM t")])
    assert {n for n in range(40) if n % 4} <= set(rows) and len(set(rows)) == len(rows)
    assert None not in got and len(got) >= 30
    await database.close()
