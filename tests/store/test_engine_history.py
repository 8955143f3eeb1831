"""Snapshots for newcomers, and a replica whose engine is away, or where one of the two is no longer what it was."""

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from engine_kit import Engines, Host, Server, caught_up, open_host
from journal import all_rows
from teamwright.core.data.team import ProcessId
from teamwright.core.errors import StoreError
from teamwright.core.ids import SessionId
from teamwright.store.acts.hosts import Beat, JoinHost
from teamwright.store.acts.tasks import ReserveTask
from teamwright.store.engine.entry import encode_entry
from teamwright.store.engine.known import check_known
from teamwright.store.engine.port import EngineError
from teamwright.store.engine.snapshot import EVERY, adopt, put_snapshot, take_snapshot
from teamwright.store.engine.tables import Cursor, read_cursor, read_hosts
from teamwright.store.engine.wire.address import Address
from teamwright.store.engine.wire.nats import open_log
from teamwright.store.engine.wire.objects import NatsObjects
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.tasks import TaskTable

pytestmark = pytest.mark.anyio
S = SessionId("11111111-1111-4111-8111-111111111111")


@pytest.fixture
def space() -> Address:
    return Engines.get().new_space()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server")
    yield server
    server.kill()


async def fill(host: Host, many: int) -> None:
    """Fill the log with entries of one act each."""
    process, log = ProcessId("pfiller"), host.log
    await log.append(encode_entry(process, 1, [JoinHost("box", "1", 300_000)]), "fill-1")
    async with anyio.create_task_group() as group:
        for k in range(2, many):
            group.start_soon(log.append, encode_entry(process, k, [ReserveTask("crew")]), f"fill-{k}")


def objects_of(host: Host) -> NatsObjects:
    return NatsObjects(host.log, 20, leads=True)


# --- objects and snapshots


async def test_an_object_comes_back_as_it_was(tmp_path: Path, space: Address) -> None:
    async with open_host(tmp_path / "a", space) as host:
        objects, file, back = objects_of(host), tmp_path / "file", tmp_path / "back"
        for size in (0, 1, 128 * 1024, 5_000_001):
            file.write_bytes(bytes(n % 251 for n in range(size)))
            await objects.put("some/name", file)
            assert await objects.get("some/name", back) and back.read_bytes() == file.read_bytes()
            assert back.stat().st_mode & 0o777 == 0o600
        await objects.remove("some/name")
        assert not await objects.get("some/name", back) and not await objects.has("some/name")


async def test_a_newcomer_begins_with_the_last_snapshot(tmp_path: Path, space: Address) -> None:
    """The last two are kept."""
    async with open_host(tmp_path / "a", space) as a:
        await fill(a, 2500)
        await StateStore(a.database).register_session(S, "/", 1)
        objects = objects_of(a)
        made = [await put_snapshot(a.replica.path, objects)]
        for _ in range(3):
            await StateStore(a.database).register_session(S, "/", 1)
            made.append(await put_snapshot(a.replica.path, objects))
        assert [await objects.has(f"snap/{seq}") for seq in made] == [False, False, True, True]
        await TaskTable(a.database).reserve("crew")
        rows = await a.replica.read(all_rows)
        async with open_host(tmp_path / "b", space, joins=False) as b:
            assert await take_snapshot(b.replica._db, objects)
            assert (await b.replica.look(read_cursor)).seq >= made[-1]
            await caught_up(b, a)
            assert (await b.replica.look(all_rows))["tasks"] == rows["tasks"]


async def test_one_lead_makes_a_snapshot_when_it_is_due(tmp_path: Path, space: Address) -> None:
    async with (
        open_host(tmp_path / "a", space) as a,
        open_host(tmp_path / "b", space) as b,
        open_host(tmp_path / "c", space, "worker") as worker,
    ):
        for host in (a, b, worker):
            await caught_up(host, worker)
        hosts = await a.replica.read(read_hosts)
        early, due = (Cursor(EVERY + n, b"", b"", 0, 0) for n in (-1, 0))
        owing = [host.replica._presence._owes_snapshot(hosts, due) for host in (a, b, worker)]
        assert sorted(owing[:2]) == [False, True] and not owing[2]
        assert not any(host.replica._presence._owes_snapshot(hosts, early) for host in (a, b))
        maker = (a, b)[owing.index(True)]
        await maker.replica._presence._make_snapshot()
        assert 0 < (await maker.replica.read(read_cursor)).snapshot < (await maker.replica.read(read_cursor)).seq


# --- the engine is not the one that it was


@pytest.mark.spec("Z29")
async def test_a_running_replica_stops_when_the_engine_has_lost_entries(tmp_path: Path, own_server: Server) -> None:
    space, store = own_server.new_space(), own_server.root / "store"
    async with open_host(tmp_path / "a", space) as host:
        state = StateStore(host.database)
        await state.register_session(S, "/", 1)
        own_server.kill()
        shutil.copytree(store, tmp_path / "backup")
        own_server.start()
        for n in range(5):
            await TaskTable(host.database).reserve(f"list{n}")
        before = await host.replica.read(all_rows)
        own_server.kill()
        shutil.rmtree(store)
        shutil.copytree(tmp_path / "backup", store)
        own_server.start()
        with (
            pytest.raises(EngineError, match=r"(lacks|has changed) entry \d+ .* Nothing was changed"),
            anyio.fail_after(30),
        ):
            while True:
                await TaskTable(host.database).reserve("more")
                await anyio.sleep(0.05)
        assert await host.replica.look(all_rows) == before


@pytest.mark.spec("Z29")
async def test_an_empty_engine_under_the_old_address_is_found_out(tmp_path: Path, own_server: Server) -> None:
    space, engines = own_server.new_space(), tmp_path / "a" / "engines"
    async with open_host(tmp_path / "a", space) as host:
        check_known(engines, str(space), host.log.space)
        check_known(engines, str(space), host.log.space)
        own_server.kill()
        shutil.rmtree(own_server.root / "store")
        own_server.start()
        async with open_host(tmp_path / "b", space) as other:  # makes a new space
            with pytest.raises(EngineError, match=r"another space at the engine's address now"), anyio.fail_after(30):
                while True:
                    await StateStore(host.database).register_session(S, "/", 1)
                    await anyio.sleep(0.05)
            with pytest.raises(EngineError, match=r"is not the one that this machine knew there: it lacks everything"):
                check_known(engines, str(space), other.log.space)
            shutil.rmtree(engines)
            check_known(engines, str(space), other.log.space)


@pytest.mark.spec("Z29")
async def test_a_replica_that_differs_is_built_again_once(tmp_path: Path, space: Address) -> None:
    async with open_host(tmp_path / "a", space) as a, open_host(tmp_path / "b", space) as b:
        await TaskTable(a.database).reserve("crew")
        await caught_up(b, a)
        with contextlib.closing(sqlite3.connect(b.replica.path)) as db:  # a row that no entry wrote
            db.execute("UPDATE task_lists SET next = 41 WHERE name = 'crew'")
            db.commit()
        assert await TaskTable(a.database).reserve("crew") == 2  # 41 on b
        cursor = await a.replica.read(read_cursor)
        await a.replica.write(Beat(cursor.seq, cursor.digest.hex()))
        with anyio.fail_after(20):
            while not b.replica.notes:
                await anyio.sleep(0.01)
        assert "differed from the others' at entry" in b.replica.notes[0]
        await caught_up(b, a)
        await caught_up(a, b)
        assert await a.replica.read(all_rows) == await b.replica.read(all_rows)
        assert await TaskTable(b.database).reserve("crew") == 3


@pytest.mark.spec("Z29")
async def test_a_replica_that_differs_again_stops(tmp_path: Path, space: Address) -> None:
    async with open_host(tmp_path / "a", space) as a:
        cursor = await a.replica.read(read_cursor)
        rebuilder = a.replica._parts.rebuilder
        assert await rebuilder.heed(1, cursor)
        assert not await rebuilder.heed(1, cursor)  # what others said before they heard of it
        later = Cursor(cursor.seq, cursor.digest, cursor.last, cursor.at + 60_000, 0)
        with pytest.raises(EngineError, match="also after it was built again"):
            await rebuilder.heed(1, later)
        assert len(await a.replica.read(read_hosts)) == 1


async def test_a_snapshot_of_another_version_is_not_used(tmp_path: Path, space: Address) -> None:
    async with open_host(tmp_path / "a", space) as a:
        other = tmp_path / "other.db"
        with contextlib.closing(sqlite3.connect(other)) as db:
            db.execute("PRAGMA user_version = 999")
            db.commit()
        assert not await adopt(a.replica._db, other)
        with pytest.raises(StoreError):
            await a.replica.write(ReserveTask("x" * 9_000_000))


@pytest.mark.spec("Z2", "Z22")
async def test_whoever_leaves_while_the_engine_is_away_leaves_quietly(own_server: Server) -> None:
    """Even with something left to send: a worker used to end with a traceback instead of its sentence."""
    log = await open_log(own_server.new_space(), "lead", "ada", patience=1)
    own_server.kill()
    client = log.connection.client
    with anyio.fail_after(20):
        while not client.is_reconnecting:
            await anyio.sleep(0.01)
    await client.publish("anything", b"queued")
    await log.close()
