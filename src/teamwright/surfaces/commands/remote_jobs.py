"""Agents on workers: lists them, and ends one from any machine."""

import os
import sys

import anyio
from msgspec import Struct

from teamwright.core.errors import UsageError
from teamwright.core.ids import AgentId
from teamwright.store.db.statements import fetch_all
from teamwright.store.engine.wire.address import Address
from teamwright.store.files.paths import home_from
from teamwright.store.tables.remotes import RemoteTable
from teamwright.store.tables.state import StateStore
from teamwright.surfaces.commands.through_engine import read_named_engine
from teamwright.tools.bounds import visible

_LIMIT = 60.0  # seconds for a worker to end an agent
_LOOK = 0.5


class RemoteJob(Struct, frozen=True):
    state: str
    worker: str  # the worker's name; empty: no worker has it
    waits: str  # what it waits for, in words; empty: it has a worker


async def read_remotes(state: StateStore) -> dict[AgentId, RemoteJob]:
    """Agents of the space that this home is a copy of; none in any other home."""
    sql = "SELECT 1 FROM sqlite_master WHERE name = 'remotes'"
    if not await state.database.read(fetch_all(sql, ())):
        return {}
    table = RemoteTable(state.database)
    names = {worker.process: worker.name for worker in await table.workers()}
    found: dict[AgentId, RemoteJob] = {}
    for remote in await table.all_open():
        name = names.get(remote.worker, "") if remote.worker else ""
        found[remote.agent] = RemoteJob(remote.state, name, await table.waits_for(remote))
    return found


def stop_remote(named: str | None, id: str) -> int:
    """End an agent on a worker, from any machine; returns when it has ended."""
    address = read_named_engine(named)
    if address is None:
        raise UsageError("--stop ends an agent on a worker: name its engine by --engine URL.")
    return anyio.run(_stop, address, id)


async def _stop(address: Address, id: str) -> int:
    from teamwright.store.engine.space import Joining, open_space  # noqa: PLC0415

    space = await open_space(address, home_from(os.environ).root, Joining(patience=_LIMIT))
    try:
        table = RemoteTable(space.database)
        found = [remote.agent for remote in await table.all_open() if remote.agent.startswith(id)]
        if len(found) != 1:
            raise UsageError(f"there is no agent {id} at work on a worker" if not found else f"{id} is not one alone")
        await table.stop(found[0], "a person stopped it")
        with anyio.move_on_after(_LIMIT) as limit:
            while (now := await table.find(found[0])) is not None and now.state != "ended":
                await space.database.pause(_LOOK)
        words = "does not answer yet; it ends as soon as its worker hears of it" if limit.cancelled_caught else "ended"
        sys.stdout.write(visible(f"{found[0]} {words}") + "\n")
    finally:
        await space.close()
    return 0
