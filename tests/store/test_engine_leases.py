"""Who is alive on an engine: decided by the log's time stamps alone, and by the kernel on the same machine."""

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from engine_kit import Engines, Host, Server, open_host, seq_of
from hand_log import START, Log, keep
from teamwright.core.data.team import ProcessId, Refused
from teamwright.core.errors import Fenced, StoreError, UsageError
from teamwright.core.ids import AgentId, SessionId
from teamwright.store.acts.hosts import KEPT, Beat, BuryHost, JoinHost, LeaveHost, ReturnHost
from teamwright.store.acts.processes import ClaimAgent, RegisterProcess
from teamwright.store.acts.sessions import RegisterAgent, RegisterSession
from teamwright.store.acts.tasks import ReserveTask
from teamwright.store.db.database import open_database
from teamwright.store.engine.entry import encode_entry
from teamwright.store.engine.opening import read_lease
from teamwright.store.engine.tables import Prepare, read_hosts, read_refused
from teamwright.store.engine.wire.address import Address
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.rows.processes import Lease, Process
from teamwright.store.tables.state import StateStore

pytestmark = pytest.mark.anyio
S = SessionId("11111111-1111-4111-8111-111111111111")
MAIN = AgentId(S)


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[Log]:
    database = await open_database(tmp_path / "state.db")
    await database.write(Prepare())
    log = Log(database)
    for process in ("a", "b"):
        await log.join(process)
    await log.entry("a", RegisterSession(S, "/", 1), RegisterAgent(MAIN, S, None, "main", "main", 0))
    await log.entry("a", RegisterProcess(Process(ProcessId("a"), S, 1, 0, "")), ClaimAgent(MAIN, ProcessId("a")))
    await log.entry("b", RegisterProcess(Process(ProcessId("b"), S, 2, 0, "")))
    yield log
    await database.close()


@pytest.mark.spec("Z8")
async def test_whoever_is_silent_for_its_lease_loses_what_it_held(log: Log) -> None:
    await keep(log, "b", 2)
    assert await log.entry("b", BuryHost(ProcessId("a"))) == [False]  # too early, whatever b's clock says
    (held,) = await log.entry("b", ClaimAgent(MAIN, ProcessId("b")))
    assert isinstance(held, Refused) and held.code == "held"
    assert await log.entry("b", BuryHost(ProcessId("a")), after=1000) == [True]
    assert await log.living() == ["b"]
    assert await log.entry("b", BuryHost(ProcessId("a"))) == [False]
    assert await log.entry("b", ClaimAgent(MAIN, ProcessId("b"))) == [Lease(ProcessId("b"), 2)]


@pytest.mark.spec("Z10", "Z16")
async def test_one_that_was_taken_for_dead_stores_nothing_until_it_is_back(log: Log) -> None:
    await keep(log, "b")
    await log.entry("b", BuryHost(ProcessId("a")))
    (refused, other) = await log.entry("a", ReserveTask("crew"), ReserveTask("crew"))
    assert isinstance(refused, Fenced) and isinstance(other, Fenced)
    (both, _) = await log.entry("a", ReturnHost(), ReserveTask("crew"))  # first it must learn that it is back
    assert isinstance(both, Fenced)
    assert await log.entry("a", ReturnHost()) == [True]  # nobody had taken anything
    assert await log.entry("a", ReserveTask("crew")) == [1]
    assert await log.living() == ["a", "b"]


@pytest.mark.spec("Z10", "Z16")
async def test_one_whose_agent_was_taken_does_not_come_back(log: Log) -> None:
    await keep(log, "b")
    await log.entry("b", BuryHost(ProcessId("a")))
    await log.entry("b", ClaimAgent(MAIN, ProcessId("b")))
    assert await log.entry("a", ReturnHost()) == [False]
    assert isinstance((await log.entry("a", ReserveTask("crew")))[0], Fenced)
    assert await log.living() == ["b"]


@pytest.mark.spec("Z22")
async def test_the_absence_of_the_engine_is_nobodys_silence(log: Log) -> None:
    assert await log.entry("b", BuryHost(ProcessId("a")), after=60_000) == [False]
    assert await log.living() == ["a", "b"]
    await keep(log, "b")
    assert await log.entry("b", BuryHost(ProcessId("a"))) == [True]


@pytest.mark.spec("Z22", "Z24")
@pytest.mark.parametrize("first", [b"nonsense", encode_entry(ProcessId("a"), 9, [Beat(0, "")])])
async def test_nor_if_the_first_entry_after_it_is_refused(log: Log, first: bytes) -> None:
    await log.strange(first, after=60_000)
    assert await log.entry("b", BuryHost(ProcessId("a"))) == [False]
    assert await log.living() == ["a", "b"]


@pytest.mark.spec("Z24")
async def test_a_process_acts_only_under_the_identity_that_it_joined_with(log: Log) -> None:
    refused = await log.database.read(read_refused)
    for k in (9, 2**61):  # nor does it use up the numbers of the one that has joined
        assert await log.strange(encode_entry(ProcessId("a"), k, [ReserveTask("crew")])) == []
    assert await log.database.read(read_refused) == refused + 2
    assert await log.entry("a", ReserveTask("crew")) == [1]
    (never,) = await log.entry("never-joined", ReserveTask("crew"))
    assert isinstance(never, Fenced)
    assert await log.entry("a", ReserveTask("crew")) == [2]


@pytest.mark.spec("Z24")
@pytest.mark.parametrize(("asked", "lease"), [(-(2**62), 3000), (0, 3000), (4000, 4000), (2**62, 300_000)])
async def test_no_process_chooses_how_often_all_others_write(log: Log, asked: int, lease: int) -> None:
    """Each gives a sign of life three times in the shortest lease, and no lease is without an end."""
    assert (await log.strange(encode_entry(ProcessId("w"), 1, [JoinHost("box", "1", asked)])))[0].outcomes == [None]
    assert {host.process: host.lease for host in await log.database.read(read_hosts)}["w"] == lease
    await keep(log, "b")
    assert await log.entry("b", BuryHost(ProcessId("a"))) == [True]


async def test_a_clock_that_steps_back_stands_still(log: Log) -> None:
    await log.entry("b", Beat(0, ""), after=-50_000)
    assert await log.living() == ["a", "b"]
    assert {host.beat for host in await log.database.read(read_hosts)} <= set(range(START, START + 10))


async def test_who_left_is_gone_at_once_and_who_is_long_gone_is_forgotten(log: Log) -> None:
    await log.entry("b", LeaveHost(ProcessId("b")))
    assert await log.living() == ["a"]
    await log.join("c")
    await keep(log, "c")
    await log.entry("c", BuryHost(ProcessId("a")))
    await log.entry("c", Beat(0, ""), after=KEPT)
    assert len(await log.database.read(read_hosts)) == 2
    await log.join("d")
    assert await log.living() == ["c", "d"]
    assert isinstance((await log.entry("a", ReturnHost()))[0], Fenced)


@pytest.mark.parametrize(("said", "lease"), [("", 15.0), ("3", 3.0), ("300", 300.0), ("4.5", 4.5)])
def test_a_lease_is_read(said: str, lease: float) -> None:
    assert read_lease({"TEAMWRIGHT_LEASE_SECONDS": said}) == lease


@pytest.mark.parametrize("said", ["2", "301", "soon", "-1"])
def test_a_lease_that_is_none_is_said_so(said: str) -> None:
    with pytest.raises(UsageError, match=f"TEAMWRIGHT_LEASE_SECONDS is '{said}'"):
        read_lease({"TEAMWRIGHT_LEASE_SECONDS": said})


# --- real processes

HOLD = """
import sys, anyio
from pathlib import Path
from engine_kit import open_host, seq_of
from teamwright.core.errors import StoreError
from teamwright.store.engine.wire.address import read_address
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.state import StateStore

async def main():
    home, url, session = sys.argv[1:]
    async with open_host(Path(home), read_address(url), lease=3) as host:
        state = StateStore(host.database)
        await state.register_session(session, "/", 1)
        await state.register_agent(session, session, None, "main", "main", 0)
        processes = ProcessTable(host.database, Path(home) / "run")
        me = await processes.register(session)
        await processes.claim_agent(session, me.id)
        print(me.id, flush=True)
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            try:
                await state.open_call(session, session, "m", 1)
                print("stored", flush=True)
            except StoreError as error:
                print(error, flush=True)

anyio.run(main)
"""


class Holder:
    """Another process, which runs the main agent."""

    def __init__(self, home: Path, space: Address) -> None:
        argv = [sys.executable, "-c", HOLD, str(home), str(space), S]
        env = {"PYTHONPATH": str(Path(__file__).parents[1]), "PATH": "/usr/bin:/bin"}
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.id = ProcessId(self.hear())

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def write(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.hear()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=20)


@pytest.fixture
def space() -> Address:
    return Engines.get().new_space()


@pytest.fixture
def holder(tmp_path: Path, space: Address) -> Iterator[Holder]:
    holder = Holder(tmp_path / "a", space)
    yield holder
    holder.end()


async def take_over(host: Host, processes: ProcessTable) -> Lease:
    """Take over as soon as the lease is free."""
    me = await processes.register(S)
    with anyio.fail_after(30):
        while isinstance(lease := await processes.claim_agent(MAIN, me.id), Refused):
            await anyio.sleep(0.05)
    return lease


@pytest.mark.spec("Z8")
async def test_a_killed_process_does_not_count_as_alive_for_ever(
    tmp_path: Path, space: Address, holder: Holder
) -> None:
    async with open_host(tmp_path / "b", space, lease=3) as host:
        processes = ProcessTable(host.database, tmp_path / "b" / "run")
        with anyio.fail_after(20):
            while not processes.alive(holder.id):
                await anyio.sleep(0.01)
        holder.end()
        assert processes.alive(holder.id)  # nobody can know yet
        assert await take_over(host, processes) == Lease(host.replica.process, 2)
        assert not processes.alive(holder.id)


async def test_on_the_same_machine_the_kernel_knows_at_once(tmp_path: Path, space: Address, holder: Holder) -> None:
    holder.end()
    async with open_host(tmp_path / "a", space, lease=300) as host:
        processes = ProcessTable(host.database, tmp_path / "run")
        me = await processes.register(S)
        assert await processes.claim_agent(MAIN, me.id) == Lease(me.id, 2)


@pytest.mark.spec("Z10", "Z16")
@pytest.mark.parametrize("taken", [False, True])
async def test_one_that_only_slept_goes_on_unless_somebody_took_its_place(
    tmp_path: Path, space: Address, holder: Holder, taken: bool
) -> None:
    async with open_host(tmp_path / "b", space, lease=3) as host:
        holder.process.send_signal(signal.SIGSTOP)
        processes = ProcessTable(host.database, tmp_path / "b" / "run")
        with anyio.fail_after(30):
            while processes.alive(holder.id) or not await host.replica.read(read_hosts):
                await anyio.sleep(0.02)
        if taken:
            await take_over(host, processes)
        holder.process.send_signal(signal.SIGCONT)
        said = await anyio.to_thread.run_sync(holder.write)
        if taken:
            assert "another one goes on in its place" in said
        else:
            assert said == "stored" and processes.alive(holder.id)


@pytest.mark.spec("Z22")
async def test_after_an_outage_longer_than_a_lease_all_go_on(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server")
    try:
        space = server.new_space()
        async with open_host(tmp_path / "a", space, lease=3) as a, open_host(tmp_path / "b", space, lease=3) as b:
            server.kill()
            with anyio.fail_after(30):  # until each would take the other for dead
                for host in (a, b):
                    while not host.replica._presence._silent(await host.replica.look(read_hosts)):
                        await anyio.sleep(0.02)
            await anyio.to_thread.run_sync(server.start)
            for host in (a, b):
                await StateStore(host.database).register_session(S, "/", 1)
                assert a.replica.alive(host.replica.process)
    finally:
        server.kill()


async def test_a_reader_changes_nothing(tmp_path: Path, space: Address) -> None:
    async with open_host(tmp_path / "a", space) as host:
        before = await seq_of(host)
        async with open_host(tmp_path / "b", space, joins=False) as reader:
            with pytest.raises(StoreError, match="was opened to be read"):
                await StateStore(reader.database).register_session(S, "/", 1)
            assert await seq_of(reader) >= before
        assert len(await host.replica.read(read_hosts)) == 1
