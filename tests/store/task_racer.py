"""One process in a race for tasks: waits for the start, claims what it can, and prints what it got."""

import sys
from pathlib import Path

import anyio

from teamwright.core.crashpoint import arm
from teamwright.core.data.tasks import Actor, Change, Done, TaskId
from teamwright.core.ids import AgentId
from teamwright.store.db.database import open_database
from teamwright.store.tables.tasks import TaskTable


async def main() -> None:
    path, how, name, most, *crash = sys.argv[1:]
    database = await open_database(Path(path))
    table, by = TaskTable(database), Actor(AgentId(f"a-{name}"), name)
    print("ready", flush=True)
    sys.stdin.readline()
    if crash:
        arm(crash[0], int(crash[1]))
    if how == "first":
        while (done := await table.claim_first("crew", by)) is not None:
            print(done.id, flush=True)
            await table.update("crew", done.id, Change(status="completed"), by)
            print(-done.id, flush=True)
    else:
        for n in range(1, int(most) + 1):
            found = await table.claim("crew", TaskId(n), by)
            print(n if isinstance(found, Done) else found.code, flush=True)
    await database.close()


anyio.run(main)
