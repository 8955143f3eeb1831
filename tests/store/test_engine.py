"""A store that is a replica of an engine's log: one order for all machines, through kills of the engine, and clear
errors if the engine is not what it was.
"""

import contextlib
import lzma
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from engine_kit import Engines, Host, Server, caught_up, open_host, seq_of
from journal import all_rows
from teamwright.core.data.letter import SYSTEM, Letter, Said
from teamwright.core.data.tasks import Actor, Done, Draft
from teamwright.core.data.team import ProcessId
from teamwright.core.errors import NotAllowed, StoreError
from teamwright.core.ids import AgentId, LetterId, SessionId
from teamwright.store.acts.hosts import Beat, JoinHost
from teamwright.store.acts.remotes import AskLead
from teamwright.store.acts.sessions import WithdrawLetter
from teamwright.store.acts.tasks import ReserveTask
from teamwright.store.engine.entry import FORMAT, MOST_DEPTH, encode_entry
from teamwright.store.engine.port import EngineError
from teamwright.store.engine.tables import read_cursor, read_refused
from teamwright.store.engine.wire.address import Address
from teamwright.store.engine.wire.nats import open_log
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.tasks import TaskTable

pytestmark = pytest.mark.anyio
S = SessionId("11111111-1111-4111-8111-111111111111")
LEAD = Actor(AgentId("L"), "lead", lead=True)


@pytest.fixture
def space() -> Address:
    return Engines.get().new_space()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server that may be killed."""
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server")
    yield server
    server.kill()


@pytest.fixture
async def hosts(tmp_path: Path, space: Address) -> AsyncIterator[list[Host]]:
    """Three machines."""
    async with (
        open_host(tmp_path / "a", space) as a,
        open_host(tmp_path / "b", space) as b,
        open_host(tmp_path / "c", space) as c,
    ):
        yield [a, b, c]


async def same_everywhere(hosts: list[Host]) -> None:
    for host in hosts:
        for other in hosts:
            await caught_up(host, other)
    rows = [await host.replica.read(all_rows) for host in hosts]
    assert rows[0] == rows[1] == rows[-1]  # digests and cursors included


def letter(n: int, text: str = "hello") -> Letter:
    return Letter(LetterId(f"l{n}"), AgentId(S), SYSTEM, Said(text))


async def furnish(host: Host) -> StateStore:
    state = StateStore(host.database)
    await state.register_session(S, "/", 1)
    await state.register_agent(AgentId(S), S, None, "main", "main", 0)
    return state


def rows_in(file: Path) -> dict[str, list[Any]]:
    with contextlib.closing(sqlite3.connect(file)) as db:
        return all_rows(db)


# --- one order


@pytest.mark.spec("Z1", "Z14")
async def test_of_many_machines_one_gets_each_task(hosts: list[Host]) -> None:
    tables = [TaskTable(host.database) for host in hosts]
    for n in range(12):
        await tables[0].create("crew", Draft(f"t{n}"), LEAD)
    got: list[tuple[str, int]] = []

    async def work(table: TaskTable, name: str) -> None:
        while (done := await table.claim_first("crew", Actor(AgentId(name), name))) is not None:
            got.append((name, done.id))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for table, name in zip(tables, "abc", strict=True):
                group.start_soon(work, table, name)
    assert sorted(id for _, id in got) == list(range(1, 13))
    await same_everywhere(hosts)


@pytest.mark.spec("Z1")
async def test_a_read_sees_what_this_process_has_written_and_the_others_soon_after(hosts: list[Host]) -> None:
    state = await furnish(hosts[0])
    row = await state.open_call(S, AgentId(S), "m", 1)
    before = await seq_of(hosts[0])
    state.delivered_soon([LetterId("nobody's")])
    assert row == 1 and (await hosts[0].replica.read(read_cursor)).seq > before
    await state.post(letter(1))
    assert [found.id for found in await state.waiting(AgentId(S))] == ["l1"]
    other = StateStore(hosts[1].database)
    await caught_up(hosts[1], hosts[0])
    assert [found.id for found in await other.waiting(AgentId(S))] == ["l1"]


@pytest.mark.spec("Z1")
async def test_what_cannot_be_applied_is_refused_everywhere_alike(hosts: list[Host]) -> None:
    state = StateStore(hosts[0].database)
    with pytest.raises(StoreError, match="no session"):
        await state.register_agent(AgentId("x"), S, None, "x", "x", 0)
    with pytest.raises(StoreError, match="Nothing was stored"):  # text that is not valid Unicode
        await state.register_session(SessionId("\ud800"), "/", 1)
    with pytest.raises(StoreError, match="Nothing was stored: a value of it cannot be stored"):
        await state.register_session(S, "/", 2**70)
    with pytest.raises(StoreError, match="Nothing was stored: it contradicts what is stored"):  # not SQLite's words
        await hosts[0].replica.write(JoinHost("here", "1", 15_000))
    await furnish(hosts[0])
    await same_everywhere(hosts)


@pytest.mark.spec("Z1")
async def test_processes_of_one_machine_share_a_replica(tmp_path: Path, space: Address) -> None:
    """The first process to get an entry applies it; the other finds the outcome in the store."""
    async with open_host(tmp_path, space) as one, open_host(tmp_path, space) as two:
        tables = [TaskTable(host.database) for host in (one, two)]
        ids: list[int] = []

        async def make(table: TaskTable, n: int) -> None:
            done = await table.create("crew", Draft(f"t{n}", metadata={"n": n}), LEAD)
            assert isinstance(done, Done) and done.task is not None and done.task.metadata == {"n": n}
            ids.append(done.id)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for n in range(40):
                    group.start_soon(make, tables[n % 2], n)
        assert sorted(ids) == list(range(1, 41))
        assert one.replica.path == two.replica.path


async def test_a_long_letter_fits_and_one_that_does_not_is_said_so(hosts: list[Host]) -> None:
    state = await furnish(hosts[0])
    await state.post(letter(1, 'line "quoted"\n' * 30_000))
    with pytest.raises(StoreError, match="bytes do not fit into one entry of the engine"):
        await state.post(letter(2, "x" * 9_000_000))
    assert [found.id for found in await state.waiting(AgentId(S))] == ["l1"]
    await same_everywhere(hosts)


# --- the engine fails


@pytest.mark.spec("Z22")
async def test_what_is_written_while_the_engine_is_away_is_written_once_when_it_is_back(
    tmp_path: Path, own_server: Server
) -> None:
    async with open_host(tmp_path / "a", space := own_server.new_space()) as a, open_host(tmp_path / "b", space) as b:
        states = [await furnish(a), StateStore(b.database)]
        posted = 0

        async def post(state: StateStore, first: int) -> None:
            nonlocal posted
            for n in range(first, first + 40):
                await state.post(letter(n))
                posted += 1

        with anyio.fail_after(100):
            async with anyio.create_task_group() as group:
                for n, state in enumerate(states):
                    group.start_soon(post, state, 100 * n)
                for most in (10, 30, 50):
                    while posted < most:
                        await anyio.sleep(0.005)
                    own_server.kill()
                    await anyio.to_thread.run_sync(own_server.start)
        await same_everywhere([a, b])
        waiting = await states[1].waiting(AgentId(S))
        assert {found.id for found in waiting} == {f"l{n}" for n in (*range(40), *range(100, 140))}
        assert len(waiting) == 80


@pytest.mark.spec("Z10", "Z22")
async def test_who_reads_does_not_wait_for_a_write_that_was_given_up(tmp_path: Path, own_server: Server) -> None:
    """Its writer was cancelled before it was sent: the agent was lost, while the rest of the worker continues."""
    async with open_host(tmp_path, own_server.new_space()) as host:
        state, replica = await furnish(host), host.replica
        own_server.kill()
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group, anyio.create_task_group() as lost:
                group.start_soon(state.post, letter(1))
                while not replica._flying:
                    await anyio.sleep(0.005)
                lost.start_soon(state.post, letter(2))
                while not replica._queue:
                    await anyio.sleep(0.005)
                group.start_soon(state.waiting, AgentId(S))
                await anyio.sleep(0)  # it waits for both
                lost.cancel_scope.cancel()
                group.start_soon(anyio.to_thread.run_sync, own_server.start)
        assert [found.id for found in await state.waiting(AgentId(S))] == ["l1"]


@pytest.mark.spec("Z22")
async def test_patience_has_an_end_and_a_sentence(tmp_path: Path, own_server: Server) -> None:
    async with open_host(tmp_path, own_server.new_space(), patience=0.5) as host:
        state = await furnish(host)
        own_server.kill()
        with pytest.raises(EngineError, match=r"took nothing for 0.5 s: .+\.$"), anyio.fail_after(30):
            await state.post(letter(1))
        with pytest.raises(EngineError, match="took nothing"):  # and nothing is pretended afterwards
            await state.post(letter(2))
        assert await host.replica._db.read(lambda db: db.execute("SELECT count(*) FROM letters").fetchone()) == (0,)


@pytest.mark.spec("Z1")
async def test_an_entry_that_is_published_again_is_skipped_for_ever(hosts: list[Host]) -> None:
    """The server knows its id for two minutes; the counter in the entry is remembered for ever."""
    process, log = ProcessId("pagain"), hosts[0].log
    await log.append(encode_entry(process, 1, [JoinHost("here", "1", 15_000)]), "zero")
    for id in ("one", "two", "one"):
        await log.append(encode_entry(process, 2, [ReserveTask("crew")]), id)
    await log.append(encode_entry(process, 3, [ReserveTask("crew")]), "three")
    assert await TaskTable(hosts[0].database).reserve("crew") == 3
    await same_everywhere(hosts)


@pytest.mark.spec("Z29")
async def test_an_engine_that_has_lost_what_was_applied_is_found_out(tmp_path: Path, own_server: Server) -> None:
    home, space, store = tmp_path / "home", own_server.new_space(), own_server.root / "store"
    async with open_host(home, space) as host:
        await furnish(host)
    own_server.kill()
    shutil.copytree(store, tmp_path / "backup")
    own_server.start()
    async with open_host(home, space) as host:
        await StateStore(host.database).post(letter(1))
    (file,) = home.rglob("state.db")
    before = rows_in(file)
    own_server.kill()
    shutil.rmtree(store)
    shutil.copytree(tmp_path / "backup", store)
    own_server.start()
    with pytest.raises(EngineError, match=r"lacks entry \d+ .* which this machine has applied. Nothing was changed"):
        async with open_host(home, space):
            pass
    async with open_host(tmp_path / "other", space) as host:  # somebody continues from the backup
        await StateStore(host.database).post(letter(2))
    with pytest.raises(EngineError, match=r"has changed entry \d+"):
        async with open_host(home, space):
            pass
    assert rows_in(file) == before


# --- who may join, and with what


@pytest.mark.spec("Z24")
async def test_a_worker_gets_no_further_than_its_rights(tmp_path: Path, space: Address) -> None:
    async with open_host(tmp_path / "a", space) as lead, open_host(tmp_path / "b", space, "worker") as worker:
        await furnish(lead)
        with pytest.raises(NotAllowed, match="RegisterSession was refused: it needs a lead's rights"):
            await StateStore(worker.database).register_session(SessionId("mine"), "/", 1)
        with pytest.raises(NotAllowed, match="does not run"):
            await StateStore(worker.database).post(letter(1))
        await same_everywhere([lead, worker])


@pytest.mark.spec("Z25")
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"p":"p1","k":1,"v":%d,"acts":[]}' % (FORMAT + 1), f"has format {FORMAT + 1}; this version"),
        (b'{"p":"p1","k":1,"v":%d,"acts":[["moon.land",{}]]}' % FORMAT, "knows no act 'moon.land'"),
        (b"nonsense", "of the log cannot be read"),
    ],
)
async def test_a_replica_stops_before_what_it_does_not_know(hosts: list[Host], data: bytes, words: str) -> None:
    state = await furnish(hosts[0])
    await same_everywhere(hosts)
    odd = await hosts[0].log.append(data, "odd")
    for host in hosts:
        with pytest.raises(StoreError, match=re.escape(words)), anyio.fail_after(10):
            while True:
                await host.replica.write(WithdrawLetter(LetterId("x")))
    assert await seq_of(hosts[0]) == odd - 1
    assert any(words in note for note in state.notes)


@pytest.mark.spec("Z24", "Z25", "Z29")
async def test_what_a_worker_writes_that_nobody_can_read_stops_nobody(hosts: list[Host], space: Address) -> None:
    await furnish(hosts[0])
    log = await open_log(space, "worker", "eve")
    lie = encode_entry(ProcessId("eve"), 1, [Beat(1, "00" * 32)])
    deep = b"[" * 100_000 + b"]" * 100_000
    filters: list[dict[str, Any]] = [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": 1}]
    unreadable = [
        b"nonsense",
        b"{}",
        b"\xfd7zXZ\x00 cut",
        b'{"p":"eve","k":1,"v":%d,"acts":[]}' % (FORMAT + 1),
        b'{"p":"eve","k":%d,"v":%d,"acts":[]}' % (2**70, FORMAT),
        b'{"p":"eve","k":1,"v":%d,"acts":[["moon.land",{}]]}' % FORMAT,
        b'{"p":"eve","k":1,"v":%d,"acts":%s}' % (FORMAT, deep),
        b'{"p":"eve","k":1,"v":%d,"acts":[["remote.drop",{"id":"\xff"}]]}' % FORMAT,
        encode_entry(ProcessId("eve"), 1, [nested(MOST_DEPTH)]),  # some Pythons can read it
        lzma.compress(lie, preset=6),  # some machines lack such dictionaries, filters or sums
        lzma.compress(lie, preset=1, check=lzma.CHECK_SHA256),
        lzma.compress(lie, filters=filters),
        lzma.compress(lie, preset=1)[:-8],
        lzma.compress(lie, preset=1) + b"x",
    ]
    for n, data in enumerate([*unreadable, lzma.compress(lie, preset=1)]):
        await log.append(data, f"odd-{n}")
    for host in hosts:
        assert await host.replica.write(WithdrawLetter(LetterId("x"))) is not None
    await same_everywhere(hosts)
    assert [await host.replica.read(read_refused) for host in hosts] == [len(unreadable)] * len(hosts)
    assert not [note for host in hosts for note in host.replica.notes if "built again" in note]  # it is not believed
    await log.close()


def nested(depth: int) -> AskLead:
    body: dict[str, Any] = {}
    for _ in range(depth):
        body = {"more": body}
    return AskLead("q", AgentId("L"), "call", body)


@pytest.mark.spec("Z25")
async def test_an_act_that_is_nested_too_deeply_is_not_written(hosts: list[Host]) -> None:
    with pytest.raises(StoreError, match="more than 200 levels"):
        await hosts[0].replica.write(nested(MOST_DEPTH))
    await hosts[0].replica.write(nested(MOST_DEPTH - 10))
    await same_everywhere(hosts)


@pytest.mark.spec("Z25")
async def test_a_space_of_another_format_is_not_joined(space: Address) -> None:
    log = await open_log(space, "lead", "ada")
    for theirs, now in (
        ("7", "Update the program"),
        ("1", "Another name at the end of the address begins a new space"),
    ):
        about = {"teamwright.format": theirs, "teamwright.space": log.space}
        await log.connection.api("STREAM.UPDATE", log._stream, log._config() | {"metadata": about})
        words = rf"has format {theirs}; this version of teamwright knows {FORMAT}\. .*{now}"
        with pytest.raises(EngineError, match=words):
            await open_log(space, "lead", "ada")
    await log.close()


@pytest.mark.spec("Z1")
def test_without_an_engine_nothing_of_it_is_imported() -> None:
    code = """
import sys, teamwright.cli, teamwright.api, teamwright.app.session, teamwright.app.teams.process
import teamwright.runtime.teams.service, teamwright.surfaces.headless.run
print([name for name in sys.modules if name.split('.')[0] == 'nats' or name.startswith('teamwright.store.engine')])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
