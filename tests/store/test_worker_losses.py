"""What a worker's silence says about the agents that it ran: nothing, once it is back."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hand_log import Log, keep
from teamwright.core.data.letter import PERSON, Letter, Prompt
from teamwright.core.data.message import Text
from teamwright.core.data.team import ProcessId
from teamwright.core.ids import AgentId, JobId, LetterId, SessionId
from teamwright.core.policies.placing import MOST_LOSSES, Needs
from teamwright.store.acts.hosts import BuryHost, LeaveHost, ReturnHost
from teamwright.store.acts.jobs import BeginJob
from teamwright.store.acts.processes import RegisterProcess
from teamwright.store.acts.remotes import BeginRemote, ClaimRemote, OfferSlots, StartRemote, StopRemote
from teamwright.store.acts.sessions import RegisterAgent, RegisterSession
from teamwright.store.db.database import open_database
from teamwright.store.engine.tables import Prepare
from teamwright.store.tables.jobs import JobTable, NewAgent
from teamwright.store.tables.remotes import Remote, RemoteTable
from teamwright.store.tables.rows.processes import Lease, Process

pytestmark = pytest.mark.anyio
S = SessionId("11111111-1111-4111-8111-111111111111")
AGENT = AgentId("a1")


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[Log]:
    """The log of a lead that has sent an agent away, but has no worker for it yet."""
    database = await open_database(tmp_path / "state.db")
    await database.write(Prepare())
    log = Log(database)
    await log.join("lead")
    await log.entry("lead", RegisterSession(S, "/", 1), RegisterAgent(AgentId(S), S, None, "main", "main", 0))
    row = NewAgent(AGENT, S, AgentId(S), "general-purpose", AGENT, 1)
    first = Letter(LetterId("l1"), AGENT, PERSON, Prompt((Text("go"),)))
    job = BeginJob(JobId(AGENT), 1, S, AgentId(S), "remote", None, "work", True, 1, row, first)
    await log.entry("lead", BeginRemote(AGENT, "c", Needs("script"), job))
    yield log
    await database.close()


async def hire(log: Log, name: str) -> None:
    await log.join(name)
    process = Process(ProcessId(name), SessionId(""), 1, 0, "")
    await log.entry(name, RegisterProcess(process), OfferSlots(name, 1, (), ("script",)))


async def claim(log: Log, worker: str) -> None:
    (lease,) = await log.entry(worker, ClaimRemote(AGENT))
    assert isinstance(lease, Lease)


async def lose(log: Log, worker: str) -> None:
    await keep(log, "lead")
    assert await log.entry("lead", BuryHost(ProcessId(worker))) == [True]


async def lose_too_many(log: Log) -> Remote:
    """All of these workers but the last are dead."""
    for n in range(MOST_LOSSES):
        await hire(log, f"w{n}")
        await claim(log, f"w{n}")
        await lose(log, f"w{n}")
    return await state(log)


async def state(log: Log) -> Remote:
    found = await RemoteTable(log.database).find(AGENT)
    assert found is not None
    return found


async def blames(log: Log) -> int:
    return await log.database.read(lambda db: db.execute("SELECT count(*) FROM blames").fetchone()[0])


@pytest.mark.spec("Z8")
async def test_the_loss_of_a_worker_that_comes_back_counts_for_nothing(log: Log) -> None:
    """However often it happens: workers may be slow, one after the other, before any of them began."""
    for n in range(MOST_LOSSES + 2):
        await hire(log, f"w{n}")
        await claim(log, f"w{n}")
        await lose(log, f"w{n}")
        assert (await state(log)).losses == 1
        assert await log.entry(f"w{n}", ReturnHost()) == [True]
        assert ((await state(log)).losses, await blames(log)) == (0, 0)
        await log.entry(f"w{n}", LeaveHost(ProcessId(f"w{n}")))
    assert (await state(log)).state == "waiting"


@pytest.mark.spec("Z8")
async def test_the_last_loss_is_none_if_its_worker_comes_back_in_time(log: Log) -> None:
    found = await lose_too_many(log)
    last = f"w{MOST_LOSSES - 1}"
    assert (found.state, found.worker, found.losses) == ("given", last, MOST_LOSSES)  # nobody else is given it
    await hire(log, "other")
    assert await log.entry("lead", BuryHost(ProcessId(last))) == [False]  # it has a while to come back
    await keep(log, "lead", 2)
    assert await log.entry(last, ReturnHost()) == [True]
    found = await state(log)
    assert (found.state, found.worker, found.losses) == ("given", last, MOST_LOSSES - 1)
    assert found.since == log.at  # it has its whole lease to claim it again
    await claim(log, last)
    await log.entry(last, StartRemote(AGENT, 5))
    found = await state(log)
    assert (found.state, found.worker, found.losses, await blames(log)) == ("running", last, 0, 0)


@pytest.mark.spec("Z8")
async def test_workers_that_stay_away_are_its_end(log: Log) -> None:
    await lose_too_many(log)
    await keep(log, "lead", 5)
    last = ProcessId(f"w{MOST_LOSSES - 1}")
    assert await log.entry("lead", BuryHost(last), after=1000) == [True]
    assert ((await state(log)).state, await blames(log)) == ("ended", 0)
    (row,) = await JobTable(log.database).all(S)
    assert row.status == "failed" and "3 times at the same place" in row.result.error
    assert await log.entry("lead", BuryHost(last)) == [False]
    assert await log.entry(last, ReturnHost()) == [True]  # too late
    assert (await state(log)).state == "ended"


@pytest.mark.spec("Z8")
async def test_one_that_is_known_to_be_dead_is_not_waited_for(log: Log) -> None:
    """The kernel of its machine knows, and a lead on the same machine has asked it."""
    await lose_too_many(log)
    await log.entry("lead", LeaveHost(ProcessId(f"w{MOST_LOSSES - 1}")))
    assert ((await state(log)).state, await blames(log)) == ("ended", 0)


@pytest.mark.spec("Z8")
async def test_workers_that_are_known_to_be_dead_count_as_losses(log: Log) -> None:
    """An agent that kills every worker on its lead's machine has failed, too."""
    for n in range(MOST_LOSSES):
        assert (await state(log)).losses == n
        await hire(log, f"w{n}")
        await claim(log, f"w{n}")
        await log.entry("lead", LeaveHost(ProcessId(f"w{n}")))
    assert ((await state(log)).state, await blames(log)) == ("ended", 0)
    (row,) = await JobTable(log.database).all(S)
    assert row.status == "failed" and "3 times at the same place" in row.result.error


@pytest.mark.spec("Z8")
async def test_a_worker_that_was_silent_and_is_then_known_to_be_dead_counts_once(log: Log) -> None:
    await hire(log, "w0")
    await claim(log, "w0")
    await lose(log, "w0")
    await log.entry("lead", LeaveHost(ProcessId("w0")))
    assert ((await state(log)).state, (await state(log)).losses, await blames(log)) == ("waiting", 1, 0)


@pytest.mark.spec("Z8", "Z22")
async def test_while_the_engine_is_away_nobody_can_come_back(log: Log) -> None:
    await lose_too_many(log)
    last = ProcessId(f"w{MOST_LOSSES - 1}")
    assert await log.entry("lead", BuryHost(last), after=60_000) == [False]
    assert await log.entry(last, ReturnHost()) == [True]
    assert (await state(log)).state == "given"


@pytest.mark.spec("Z19")
async def test_one_in_doubt_can_be_stopped(log: Log) -> None:
    await lose_too_many(log)
    assert await log.entry("lead", StopRemote(AGENT)) == [True]
    await keep(log, "lead", 6)
    assert await log.entry("lead", BuryHost(ProcessId(f"w{MOST_LOSSES - 1}"))) == [True]
    (row,) = await JobTable(log.database).all(S)
    assert (row.status, (await state(log)).state) == ("killed", "ended")
