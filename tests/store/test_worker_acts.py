"""Agents are placed on workers by the log's order alone: all replicas agree, and no agent is given twice."""

import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import anyio
import pytest
from msgspec import Struct

from engine_kit import Engines, Host, open_host
from journal import all_rows
from teamwright.core.data.job import JobResult
from teamwright.core.data.letter import PERSON, Letter, Prompt
from teamwright.core.data.message import Text
from teamwright.core.data.team import Refused
from teamwright.core.errors import NotAllowed
from teamwright.core.ids import AgentId, JobId, LetterId, SessionId
from teamwright.core.policies.placing import MOST_LOSSES, Needs
from teamwright.store.acts.jobs import BeginJob
from teamwright.store.acts.remotes import BeginRemote, ClaimRemote, EndRemote, OfferSlots, StartRemote
from teamwright.store.engine.wire.address import Address
from teamwright.store.tables.jobs import JobTable, NewAgent
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.remotes import Remote, RemoteTable
from teamwright.store.tables.state import StateStore

pytestmark = [pytest.mark.anyio, pytest.mark.one_machine]
SESSION = SessionId("11111111-1111-4111-8111-111111111111")
LIMIT = 60.0


class Stage(Struct):
    """A lead, and workers that come and go."""

    root: Path
    address: Address
    lead: Host
    remotes: RemoteTable
    many: int = 0

    async def launch(self) -> AgentId:
        self.many += 1
        agent = AgentId(f"a{self.many}")
        row = NewAgent(agent, SESSION, AgentId(SESSION), "general-purpose", agent, 1)
        first = Letter(LetterId(f"l-{agent}"), agent, PERSON, Prompt((Text("go"),)))
        job = BeginJob(JobId(agent), 1, SESSION, AgentId(SESSION), "remote", None, "work", True, 1, row, first)
        await self.lead.replica.write(BeginRemote(agent, "c", Needs("anthropic"), job))
        return agent

    async def state(self, agent: AgentId) -> Remote:
        found = await self.remotes.find(agent)
        assert found is not None
        return found

    async def until(self, agent: AgentId, state: str) -> Remote:
        with anyio.fail_after(LIMIT):
            while (found := await self.state(agent)).state != state:
                await self.lead.replica.pause(0.2)
        return found

    async def worker(
        self, stack: AsyncExitStack, name: str, slots: int = 1, lease: float = 60, patience: float = 20
    ) -> Host:
        opened = open_host(self.root / name, self.address, "worker", lease=lease, patience=patience)
        host = await stack.enter_async_context(opened)
        await ProcessTable(host.database, self.root / name / "run").register(SessionId(""))
        await host.replica.write(OfferSlots(name, slots, (), ("anthropic",)))
        return host


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    address = Engines.get().new_space()
    async with open_host(tmp_path / "lead", address) as lead:
        await StateStore(lead.database).begin_session(SESSION, "/x", 1)
        yield Stage(tmp_path, address, lead, RemoteTable(lead.database))


@pytest.mark.spec("Z6", "Z7")
async def test_agents_wait_for_room_and_get_it_in_their_order(stage: Stage) -> None:
    first, second, third = [await stage.launch() for _ in range(3)]
    assert await stage.remotes.waits_for(await stage.state(first)) == "a worker: none is there"
    async with AsyncExitStack() as stack:
        worker = await stage.worker(stack, "w1")
        assert (await stage.until(first, "given")).worker == worker.replica.process
        assert await stage.remotes.waits_for(await stage.state(second)) == "a worker: 1 is there, all 1 slots are taken"
        await _begin(worker, first)
        assert await worker.replica.write(EndRemote(first, "killed", JobResult(summary="x")))
        await stage.until(second, "given")
        assert (await stage.state(third)).state == "waiting"
    row = (await JobTable(stage.lead.database).all(SESSION))[0]
    assert (row.status, row.result.summary) == ("killed", "x")


@pytest.mark.spec("Z21", "Z8")
async def test_one_that_leaves_hands_over_at_once(stage: Stage) -> None:
    """Its lease is a minute, but nobody waits for that."""
    async with AsyncExitStack() as stack:
        other = await stage.worker(stack, "w2")
        async with AsyncExitStack() as short:
            worker = await stage.worker(short, "w1", slots=4)
            agent = await stage.launch()
            await _begin(worker, agent)
        found = await stage.until(agent, "given")
        assert (found.worker, found.losses) == (other.replica.process, 0)
        with pytest.raises(NotAllowed):
            await other.replica.write(StartRemote(agent, 1))  # not before it has claimed it
        await _begin(other, agent)


@pytest.mark.spec("Z10", "Z24")
async def test_a_worker_acts_only_for_what_it_was_given(stage: Stage) -> None:
    async with AsyncExitStack() as stack:
        worker, other = await stage.worker(stack, "w1", slots=2), await stage.worker(stack, "w2")
        agent = await stage.launch()
        await stage.until(agent, "given")
        assert isinstance(await other.replica.write(ClaimRemote(agent)), Refused)
        await _begin(worker, agent)
        with pytest.raises(NotAllowed):
            await other.replica.write(EndRemote(agent, "completed", JobResult()))
        with pytest.raises(NotAllowed):
            await worker.replica.write(BeginRemote(AgentId("x"), "c", Needs()))


@pytest.mark.spec("Z8")
async def test_what_a_worker_does_not_claim_goes_to_another(stage: Stage) -> None:
    """It is alive, but its loop hangs: nobody waits longer than its lease, and it gets no more agents."""
    async with AsyncExitStack() as stack:
        mute, other = await stage.worker(stack, "w1", slots=4, lease=3), await stage.worker(stack, "w2", slots=2)
        agent = await stage.launch()
        assert (await stage.until(agent, "given")).worker == mute.replica.process
        with anyio.fail_after(LIMIT):
            while (await stage.state(agent)).worker != other.replica.process:
                await stage.lead.replica.pause(0.2)
        await _begin(other, agent)
        assert isinstance(await mute.replica.write(ClaimRemote(agent)), Refused)
        second = await stage.launch()
        assert (await stage.until(second, "given")).worker == other.replica.process
        table = RemoteTable(mute.database)
        assert await table.is_passed_over(mute.replica.process)
        await table.offer(OfferSlots("w1", 4, (), ("anthropic",)))
        assert not await table.is_passed_over(mute.replica.process)
        assert (await stage.until(await stage.launch(), "given")).worker == mute.replica.process


@pytest.mark.spec("Z8")
async def test_an_end_with_something_unread_is_none(stage: Stage) -> None:
    async with AsyncExitStack() as stack:
        worker = await stage.worker(stack, "w1")
        agent = await stage.launch()
        await _begin(worker, agent)
        assert not await worker.replica.write(EndRemote(agent, "completed", JobResult("done")))
        await StateStore(worker.database).delivered([LetterId(f"l-{agent}")])
        assert await worker.replica.write(EndRemote(agent, "completed", JobResult("done")))


@pytest.mark.spec("Z8")
async def test_three_losses_at_the_same_place_are_the_end(stage: Stage) -> None:
    agent = await stage.launch()
    for n in range(MOST_LOSSES):
        with suppress(ExceptionGroup):  # it cannot even announce that it leaves
            async with AsyncExitStack() as stack:
                worker = await stage.worker(stack, f"w{n}", lease=3, patience=1)
                await stage.until(agent, "given")
                await _begin(worker, agent)
                await worker.log.close()  # as if its machine had lost power
                await stage.until(agent, "waiting" if n < MOST_LOSSES - 1 else "ended")
    row = (await JobTable(stage.lead.database).all(SESSION))[0]
    assert row.status == "failed" and "3 times at the same place" in row.result.error


@pytest.mark.spec("Z8")
async def test_a_worker_that_ends_before_it_claims_an_agent_counts_for_nothing(stage: Stage) -> None:
    """A machine may be dead for a while before anybody knows, and gets agents until then."""
    found = list[Remote]()
    with suppress(ExceptionGroup):  # it cannot even announce that it leaves
        async with AsyncExitStack() as stack:
            worker = await stage.worker(stack, "w1", lease=3, patience=1)
            await worker.log.close()
            agent = await stage.launch()
            found += [await stage.until(agent, "given"), await stage.until(agent, "waiting")]
    assert [row.worker for row in found] == [worker.replica.process, None] and found[1].losses == 0


@pytest.mark.spec("Z7", "Z1")
async def test_replicas_agree_whatever_comes_and_goes(stage: Stage) -> None:
    """Random joins, leaves, launches and ends: no worker exceeds its slots, and all replicas have the same rows."""
    dice = random.Random(7)
    async with AsyncExitStack() as stack:
        workers: list[tuple[Host, AsyncExitStack]] = []
        for step in range(40):
            roll = dice.random()
            if roll < 0.2 and len(workers) < 3:
                own = await stack.enter_async_context(AsyncExitStack())
                workers.append((await stage.worker(own, f"v{step}", slots=dice.randint(1, 2)), own))
            elif roll < 0.3 and workers:
                await workers.pop()[1].aclose()  # scopes end in their order
            elif roll < 0.65:
                await stage.launch()
            elif workers:
                await _end_one(dice.choice(workers)[0])
            for found in await stage.remotes.workers():
                assert len(found.agents) <= found.slots
        watcher = await stack.enter_async_context(open_host(stage.root / "late", stage.address))
        await _agree([*(host for host, _ in workers), watcher, stage.lead])


async def _end_one(worker: Host) -> None:
    for remote in await RemoteTable(worker.database).given(worker.replica.process):
        if not isinstance(await worker.replica.write(ClaimRemote(remote.agent)), Refused):
            await worker.replica.write(EndRemote(remote.agent, "killed", JobResult()))
        return


async def _agree(hosts: list[Host]) -> None:
    """At the same entry they have the same rows. Signs of life continue, so some may be further for a moment."""
    with anyio.fail_after(LIMIT):
        while True:
            found = [await host.replica.look(_shared) for host in hosts]
            if len({seq for seq, _ in found}) == 1:
                break
            await hosts[0].replica.pause(0.1)
    assert all(rows == found[0][1] for _, rows in found)


def _shared(db: sqlite3.Connection) -> tuple[int, object]:
    return db.execute("SELECT seq FROM space").fetchone()[0], all_rows(db)


async def _begin(worker: Host, agent: AgentId) -> None:
    table = RemoteTable(worker.database)
    with anyio.fail_after(LIMIT):
        while not any(remote.agent == agent for remote in await table.given(worker.replica.process)):
            await worker.replica.pause(0.2)
    assert not isinstance(await worker.replica.write(ClaimRemote(agent)), Refused)
    await worker.replica.write(StartRemote(agent, 1))
