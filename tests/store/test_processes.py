"""Which processes are alive, and who runs an agent: the kernel decides, never a pid."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from team_house import House, finish, open_house, start

from teamwright.core.data.team import ProcessId, Refused
from teamwright.core.errors import StoreError
from teamwright.store.db.poll import watch_changes
from teamwright.store.tables.processes import Lease
from teamwright.store.tables.state import StateStore

pytestmark = [pytest.mark.anyio, pytest.mark.one_machine]

LIVE = """
import sys, anyio
from pathlib import Path
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.state import StateStore

async def main():
    root, agent = sys.argv[1:]
    state = await StateStore.open(Path(root) / "state.db")
    processes = ProcessTable(state.database, Path(root) / "run")
    me = await processes.register("s", bell="/b")
    await processes.claim_agent(agent, me.id)
    print(me.id, flush=True)
    sys.stdin.readline()

anyio.run(main)
"""


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path) as house:
        await house.create()
        yield house


@pytest.mark.spec("X3", "E8")
async def test_a_killed_process_is_gone_at_once_and_what_it_held_is_free(house: House) -> None:
    ada = await house.join("ada")
    other = start(LIVE, str(house.root), ada.agent)
    assert other.stdout is not None
    id = ProcessId(other.stdout.readline().strip())
    assert house.processes.alive(id) and house.processes.alive(house.process.id)
    holder = await house.processes.holder(ada.agent)
    assert holder is not None and (holder.id, holder.pid, holder.bell) == (id, other.pid, "/b")
    assert [p.id for p in await house.processes.of_team("crew")] == [house.process.id, id]
    refused = await house.processes.claim_agent(ada.agent, house.process.id)
    assert isinstance(refused, Refused) and refused.code == "held"
    finish(other, kill=True)
    assert not house.processes.alive(id) and await house.processes.holder(ada.agent) is None
    assert [p.id for p in await house.processes.living()] == [house.process.id]
    assert await house.processes.claim_agent(ada.agent, house.process.id) == Lease(house.process.id, 2)
    assert await house.processes.claim_agent(ada.agent, house.process.id) == Lease(house.process.id, 2)


async def test_what_dead_processes_left_is_swept_away(house: House) -> None:
    ada = await house.join("ada")
    other = start(LIVE, str(house.root), ada.agent)
    assert other.stdout is not None
    id = ProcessId(other.stdout.readline().strip())
    lock = house.root / "run" / f"process-{id}.lock"
    assert lock.stat().st_mode & 0o777 == 0o600
    finish(other, kill=True)
    again = await house.processes.register(house.session)
    assert not lock.exists() and await house.processes.process(id) is None and not house.processes.alive(id)
    assert await house.processes.lease(ada.agent) == Lease(None, 1)
    await house.processes.leave(again.id)
    assert not house.processes.alive(again.id)
    with pytest.raises(StoreError, match="is not registered"):
        await house.processes.claim_agent(ada.agent, again.id)


async def test_asking_at_the_same_time_takes_nobody_for_alive(house: House) -> None:
    ada = await house.join("ada")
    other = start(LIVE, str(house.root), ada.agent)
    assert other.stdout is not None
    id = ProcessId(other.stdout.readline().strip())
    finish(other, kill=True)
    found: list[bool] = []

    async def ask() -> None:
        for _ in range(200):
            found.append(await anyio.to_thread.run_sync(house.processes.alive, id))

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(ask)
    assert found == [False] * 800


@pytest.mark.spec("X5")
async def test_a_commit_of_another_connection_is_seen_without_a_bell(house: House) -> None:
    heard = anyio.Event()
    other = await StateStore.open(house.root / "state.db")
    async with anyio.create_task_group() as group:
        group.start_soon(watch_changes, house.state.database, heard.set, 0.005)
        first = await house.state.database.data_version()
        await house.join("own")  # its own change is no news
        assert await house.state.database.data_version() == first and not heard.is_set()
        await other.register_session(house.session, "/", 1)
        assert (await other.delete_session(house.session)) and other.database.commits > 0
        with anyio.fail_after(10):
            await heard.wait()
        group.cancel_scope.cancel()
    await other.close()
