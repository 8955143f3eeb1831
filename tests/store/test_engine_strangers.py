"""What a worker sends under the name of an agent or a process that it does not run: nobody accepts it or is held up.

The stranger is a real identity of the server, with the rights that `engine init` gives to workers.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from msgspec import Struct
from msgspec.structs import replace
from nats.aio.client import Client

from engine_kit import Server
from journal import all_rows
from program import Program
from teamwright.core.data.letter import PERSON, Letter, Prompt
from teamwright.core.data.message import Text
from teamwright.core.errors import Fenced
from teamwright.core.ids import AgentId, JobId, LetterId, SessionId
from teamwright.core.policies.placing import Needs
from teamwright.store.acts.hosts import Beat
from teamwright.store.acts.jobs import BeginJob
from teamwright.store.acts.remotes import BeginRemote, ClaimRemote, OfferSlots, StartRemote
from teamwright.store.engine.entry import encode_entry
from teamwright.store.engine.port import EngineError
from teamwright.store.engine.space import Joining, Space, open_space
from teamwright.store.engine.tables import read_refused
from teamwright.store.engine.wire.address import Address, read_address
from teamwright.store.engine.wire.lines import Place
from teamwright.store.tables.jobs import NewAgent
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.remotes import RemoteTable
from teamwright.store.tables.rows.processes import Lease
from teamwright.store.tables.state import StateStore
from teamwright.surfaces.commands.engine.rights import Role, users_text

pytestmark = [pytest.mark.anyio, pytest.mark.one_machine]
SESSION = SessionId("11111111-1111-4111-8111-111111111111")
MAIN, AGENT, CHILD = AgentId(SESSION), AgentId("a1"), AgentId("a2")
LIMIT = 60.0


class Stage(Struct):
    root: Path
    address: Address
    rooms: AsyncExitStack
    left: list[Space] = []

    def url(self, name: str) -> str:
        return f"nats://{name}:{name}@{self.address.hosts[0]}/main"

    async def join(self, name: str) -> Space:
        """Join as a machine with that identity."""
        who: Role = "lead" if name == "lead" else "worker"
        home = self.root / f"{name}-{len(list(self.root.iterdir()))}"
        space = await open_space(replace(self.address, user=name, password=name), home, Joining(role=who, patience=20))
        self.rooms.push_async_callback(self.leave, space)
        await ProcessTable(space.database, space.home.run).register(SESSION if who == "lead" else SessionId(""))
        return space

    async def leave(self, space: Space) -> None:
        if space not in self.left:
            self.left.append(space)
            await space.close()

    async def stranger(self, name: str) -> Client:
        client = Client()
        await client.connect(f"nats://{self.address.hosts[0]}", user=name, password=name)
        self.rooms.push_async_callback(client.close)
        return client


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server")
    server.kill()
    people: dict[str, tuple[Role, str]] = {"lead": ("lead", "lead")}
    people |= {name: ("worker", name) for name in ("mill", "forge", "rogue")}
    conf = server.root / "server.conf"
    conf.write_text(conf.read_text() + users_text("main", people))
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def stage(server: Server, tmp_path: Path) -> AsyncIterator[Stage]:
    (tmp_path / "homes").mkdir()
    async with AsyncExitStack() as rooms:
        yield Stage(tmp_path / "homes", read_address(f"nats://127.0.0.1:{server.port}/main"), rooms)


async def begin(lead: Space) -> None:
    state = StateStore(lead.database)
    await state.register_session(SESSION, "/project", 1)
    await state.register_agent(MAIN, SESSION, None, "main", "main", 0)
    row = NewAgent(AGENT, SESSION, MAIN, "general-purpose", "ada", 1)
    first = Letter(LetterId("l1"), AGENT, PERSON, Prompt((Text("go"),)))
    job = BeginJob(JobId(AGENT), 1, SESSION, MAIN, "remote", None, "work", True, 1, row, first)
    await RemoteTable(lead.database).begin(BeginRemote(AGENT, "c", Needs("anthropic"), job))


async def take(worker: Space) -> Lease:
    await worker.replica.write(OfferSlots("w", 8, providers=("anthropic",)))
    with anyio.fail_after(LIMIT):
        while not isinstance(lease := await worker.replica.write(ClaimRemote(AGENT)), Lease):
            await worker.replica.pause(0.1)
    await worker.replica.write(StartRemote(AGENT, 1))
    return lease


async def send(client: Client, name: str, agent: str, text: bytes, **headers: str) -> None:
    """Store it in the engine, whoever is to read it."""
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    said = await client.request(f"tw.main.lines.worker.{name}.{agent}", text, timeout=10, headers=told)
    assert "error" not in json.loads(said.data), said.data


async def publish(client: Client, name: str, entry: bytes, id: str) -> None:
    """Append it to the log, whoever is to apply it."""
    said = await client.request(f"tw.main.log.worker.{name}", entry, timeout=10, headers={"Nats-Msg-Id": id})
    assert "error" not in json.loads(said.data), said.data


@asynccontextmanager
async def following(space: Space) -> AsyncGenerator[Callable[[bytes], Awaitable[None]]]:
    """Wait until a follower of the agent has heard this."""
    heard = bytearray()

    async def take_lines(data: bytes, place: Place) -> None:
        heard.extend(data)

    async def until(wanted: bytes) -> None:
        with anyio.fail_after(LIMIT):
            while len(heard) < len(wanted):
                await anyio.sleep(0.01)
        assert bytes(heard) == wanted

    async with anyio.create_task_group() as group:
        group.start_soon(space.lines.follow, AGENT, Place(), take_lines)
        yield until
        group.cancel_scope.cancel()


async def pulled(space: Space, agent: AgentId, path: Path) -> bytes:
    await space.lines.pull(agent, path)
    return path.read_bytes() if path.exists() else b""


@pytest.mark.spec("Z24", "Z10")
async def test_lines_of_a_worker_that_never_ran_the_agent_do_not_count(
    stage: Stage, program: Program, tmp_path: Path
) -> None:
    """Followers, resuming machines and the writer all skip them, and the writer continues behind them."""
    lead, mill = await stage.join("lead"), await stage.join("mill")
    await begin(lead)
    rogue, own = await stage.stranger("rogue"), mill.replica.process
    async with following(lead) as hears:
        await send(
            rogue, "rogue", AGENT, b"evil\n", Tw_Process=own, Tw_First="1", Tw_Lines="1"
        )  # before anybody holds it
        assert await pulled(lead, AGENT, tmp_path / "early") == b""
        await take(mill)
        place = await mill.lines.append(AGENT, own, [b"one\n"], Place())
        await hears(b"one\n")
        await send(rogue, "rogue", AGENT, b"evil\n", Tw_Process=own, Tw_First="2", Tw_Lines="1")
        await send(rogue, "rogue", AGENT, b"evil\n", Tw_Process=own, Tw_First="x", Tw_Lines="-1")
        await send(rogue, "rogue", AGENT, b"evil\n", Status="404", Nats_Sequence="1")
        posing = f"tw.main.lines.lead.lead.{AGENT}"
        await send(rogue, "rogue", AGENT, b"evil\n", Tw_Process=own, Tw_First="2", Tw_Lines="1", Nats_Subject=posing)
        await send(rogue, "rogue", MAIN, b"evil\n", Tw_Process=own, Tw_First="1", Tw_Lines="1")
        place = await mill.lines.append(AGENT, own, [b"two\n"], place)
        await send(rogue, "rogue", AGENT, b"evil\n", Tw_Process=own, Tw_First="3", Tw_Lines="1")
        await mill.lines.append(AGENT, own, [b"three\n"], place)
        await hears(b"one\ntwo\nthree\n")
    assert await pulled(lead, AGENT, tmp_path / "copy") == b"one\ntwo\nthree\n"
    assert await pulled(lead, MAIN, tmp_path / "main") == b""
    assert await pulled(await stage.join("lead"), AGENT, tmp_path / "again") == b"one\ntwo\nthree\n"
    assert [note for note in lead.replica.notes if "rogue" in note and AGENT in note]

    def status(*more: str) -> str:
        ran = program.run("engine", "status", "--engine", stage.url("lead"), *more)
        assert ran.rc == 0, ran.err
        return ran.out

    found: dict[str, Any] = json.loads(await anyio.to_thread.run_sync(status, "--json"))
    assert {(row["name"], row["agent"], row["batches"]) for row in found["strangers"]} == {
        ("rogue", AGENT, 6),
        ("rogue", MAIN, 1),
    }
    assert "6 batches of lines of worker rogue do not count" in await anyio.to_thread.run_sync(status)


@pytest.mark.spec("Z24", "Z10")
async def test_lines_of_one_that_has_lost_the_agent_do_not_count(stage: Stage, tmp_path: Path) -> None:
    """Once its successor has written. Before that, it may have sent them while it still ran the agent: then they count,
    and the successor must read them first.
    """
    lead, mill = await stage.join("lead"), await stage.join("mill")
    await begin(lead)
    first = await take(mill)
    old, late = mill.replica.process, await stage.stranger("mill")
    await mill.lines.append(AGENT, old, [b"one\n"], Place())
    forge = await stage.join("forge")
    at = await forge.lines.pull(AGENT, tmp_path / "forge")
    await stage.leave(mill)
    assert (await take(forge)).epoch > first.epoch
    await send(late, "mill", AGENT, b"late\n", Tw_Process=old, Tw_First="2", Tw_Lines="1")
    with pytest.raises(Fenced):
        await forge.lines.append(AGENT, forge.replica.process, [b"two\n"], at)
    at = await forge.lines.pull(AGENT, tmp_path / "forge")
    at = await forge.lines.append(AGENT, forge.replica.process, [b"two\n"], at)
    await send(late, "mill", AGENT, b"evil\n", Tw_Process=old, Tw_First="4", Tw_Lines="1")
    await send(late, "mill", AGENT, b"evil\n", Tw_Process=forge.replica.process, Tw_First="4", Tw_Lines="1")
    await forge.lines.append(AGENT, forge.replica.process, [b"three\n"], at)
    assert await pulled(lead, AGENT, tmp_path / "copy") == b"one\nlate\ntwo\nthree\n"
    assert await pulled(forge, AGENT, tmp_path / "own") == b"one\nlate\ntwo\nthree\n"


@pytest.mark.spec("Z24")
async def test_lines_of_agents_that_it_started_count(stage: Stage, tmp_path: Path) -> None:
    lead, mill = await stage.join("lead"), await stage.join("mill")
    await begin(lead)
    await take(mill)
    row = NewAgent(CHILD, SESSION, AGENT, "explore", "bob", 2)
    await mill.replica.write(BeginJob(JobId(CHILD), 1, SESSION, AGENT, "agent", None, "work", True, 1, row, None))
    rogue = await stage.stranger("rogue")
    place = await mill.lines.append(CHILD, mill.replica.process, [b"one\n"], Place())
    await send(rogue, "rogue", CHILD, b"evil\n", Tw_Process="p", Tw_First="2", Tw_Lines="1")
    await mill.lines.append(CHILD, mill.replica.process, [b"two\n"], place)
    assert await pulled(lead, CHILD, tmp_path / "copy") == b"one\ntwo\n"


@pytest.mark.spec("Z24", "Z10")
async def test_a_machine_that_is_behind_the_log_passes_nobody_over(stage: Stage, tmp_path: Path) -> None:
    """Its disk has taken nothing since before it heard who runs the agent: its copy stays as it is."""
    lead, mill = await stage.join("lead"), await stage.join("mill")
    await begin(lead)
    behind = await stage.join("lead")
    await behind.replica.look(lambda db: db.execute("PRAGMA query_only = 1").fetchall())
    await take(mill)
    await mill.lines.append(AGENT, mill.replica.process, [b"one\n"], Place())
    (tmp_path / "copy").write_text("what was there\n")
    with pytest.raises(EngineError, match="behind the engine's log"):
        await behind.lines.pull(AGENT, tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "what was there\n"


@pytest.mark.spec("Z24")
async def test_entries_under_the_name_of_another_process_silence_nobody(stage: Stage) -> None:
    lead, mill = await stage.join("lead"), await stage.join("mill")
    await begin(lead)
    rogue, refused = await stage.stranger("rogue"), await lead.replica.read(read_refused)
    for n, victim in enumerate((lead, mill)):
        await publish(rogue, "rogue", encode_entry(victim.replica.process, 2**61, [Beat(0, "")]), f"forged-{n}")
    await take(mill)
    with anyio.fail_after(LIMIT):
        assert await lead.replica.read(read_refused) == refused + 2
        while await mill.replica.read(all_rows) != await lead.replica.read(all_rows):  # one may have heard a beat more
            assert await mill.replica.catch_up() and await lead.replica.catch_up()


@pytest.mark.spec("Z24")
async def test_nobody_can_use_up_the_message_ids_of_another(stage: Stage) -> None:
    """The server takes a message with an id that it has had for a repetition, whoever sent it."""
    lead = await stage.join("lead")
    rogue, last = await stage.stranger("rogue"), lead.replica._k
    for k in range(last, last + 20):
        await publish(rogue, "rogue", b"nonsense", f"{lead.replica.process}-{k}")
    await begin(lead)
