"""What the store costs in an engine: a write, compared with the bare server's acknowledgement; applying; joining."""

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
from mail import Inbox, S
from remote_parts import LIMIT, Server, timed

from teamwright.core.data.team import LEAD_NAME, Member, ProcessId
from teamwright.core.ids import AgentId
from teamwright.store.acts.act import Act
from teamwright.store.acts.hosts import JoinHost, LeaveHost
from teamwright.store.acts.mail import PostMail
from teamwright.store.acts.members import AddMember
from teamwright.store.acts.processes import RegisterProcess
from teamwright.store.acts.sessions import MarkDelivered, RegisterAgent, RegisterSession
from teamwright.store.acts.teams import CreateTeam
from teamwright.store.db.database import open_database
from teamwright.store.engine.entry import ApplyEntries, encode_entry
from teamwright.store.engine.opening import relax
from teamwright.store.engine.port import Entry
from teamwright.store.engine.space import Joining, Space, open_space
from teamwright.store.engine.tables import Prepare, read_cursor
from teamwright.store.engine.wire.address import read_address
from teamwright.store.engine.wire.connection import Connection, accepted, connect
from teamwright.store.engine.wire.nats import open_log
from teamwright.store.tables.mail import MailTable
from teamwright.store.tables.mail_insert import MailLimits, Stored
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.rows.processes import Process
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.teams import TeamTable

ROUNDS, GROUP, ACTS, ENTRIES = 200, 20, 10_000, 100_000
P, START = ProcessId("p1"), 1_700_000_000_000
FREE = MailLimits(unread=10**9, per_minute=10**9)  # the rate limit must not refuse what is measured
LINE = b"x" * 900  # about as long as the entry of a message


class Bare:
    """The server alone: publish as many bytes and wait for the acknowledgement."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def trip(self) -> None:
        assert accepted(await self._connection.publish("bare.log", LINE, {}))


@contextlib.asynccontextmanager
async def open_bare(server: Server) -> AsyncIterator[Bare]:
    connection = await connect(read_address(server.url("bare")), "bench")
    try:
        config = {"name": "BARE", "subjects": ["bare.log"], "storage": "file", "num_replicas": len(server.ports)}
        await connection.need_stream(config | {"republish": {"src": "bare.>", "dest": "out.bare.>"}})
        yield Bare(connection)
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def open_home(root: Path, url: str, **how: object) -> AsyncIterator[Space]:
    space = await open_space(read_address(url), root, Joining(**how))
    try:
        yield space
    finally:
        await space.close()


class EngineInbox(Inbox):
    """One reader in an engine. Time is the engine's."""

    async def fill_space(self, space: Space, root: Path) -> None:
        self.state, self.sent = StateStore(space.database), 0
        await self.state.register_session(S, "/", 1)
        for id in (S, "a1"):
            await self.state.register_agent(AgentId(id), S, None, "x", "x", 0)
        me = await ProcessTable(space.database, root / "run").register(S)
        teams, self.mail = TeamTable(space.database), MailTable(space.database, FREE)
        await teams.create_team("crew", "", Member(AgentId(S), LEAD_NAME, "", "team-lead"), me.id)
        await teams.add_member(Member(AgentId("a1"), "ada", "crew", "x"))

    async def post(self) -> None:
        assert isinstance(await self.mail.post_mail(self.note()), Stored)


async def writes(server: Server, root: Path) -> tuple[list[float], list[float]]:
    """Seconds for a stored message and for the bare round trip, in turns."""
    ours, bare = list[float](), list[float]()
    async with open_bare(server) as trips, open_home(root / "writes", server.url("writes")) as space:
        inbox = EngineInbox()
        await inbox.fill_space(space, root)
        for _ in range(ROUNDS):
            bare.append(await timed(trips.trip))
            ours.append(await timed(inbox.post))
    return ours, bare


# --- without a server


def opening() -> list[Act[Any]]:
    """A process, a session, a team of two."""
    lead, mate = Member(AgentId(S), LEAD_NAME, "", "team-lead"), Member(AgentId("a1"), "ada", "crew", "x")
    agents = [RegisterAgent(AgentId(id), S, None, "x", "x", 0) for id in (S, "a1")]
    join = [JoinHost("bench", "1", 300_000), RegisterProcess(Process(P, S, 1, 0, ""))]
    return [*join, RegisterSession(S, "/", 1), *agents, CreateTeam("crew", "", lead, P), AddMember(mate)]


def letters(first: int, many: int) -> list[Act[Any]]:
    """The given number of acts: messages, and finally the act that marks them read."""
    inbox = Inbox()
    inbox.sent = first
    notes = [inbox.note() for _ in range(many - 1)]
    read = MarkDelivered(tuple(note.letter.id for note in notes))
    return [*(PostMail((note,), FREE) for note in notes), read]


async def applying(root: Path) -> list[float]:
    """Milliseconds of CPU for 1,000 acts, in entries of 20."""
    acts = [opening(), *(letters(first, GROUP) for first in range(0, ACTS, GROUP))]
    entries = [Entry(k, START + k * 10_000, "lead", "ada", encode_entry(P, k, some)) for k, some in enumerate(acts, 1)]
    took, step = list[float](), 1000 // GROUP
    database = await open_database(root / "applying.db")
    await database.read(relax)
    await database.write(Prepare())
    await database.write(ApplyEntries(entries[:1]))
    for first in range(1, len(entries), step):
        began = time.process_time()
        done = await database.write(ApplyEntries(entries[first : first + step]))
        took.append((time.process_time() - began) * 1000)
        assert all(isinstance(said[0], Stored) for one in done.applied for said in one.outcomes[:-1])
    await database.close()
    return took


# --- joining


async def joining(root: Path) -> list[float]:
    """Seconds for a newcomer to join a long log with a snapshot. The log is made without syncing each entry."""
    server = Server(root / "long", sync="2m")
    url = server.url("long")
    await _fill_log(url)
    async with open_home(root / "first", url, lease=60) as space:
        with anyio.fail_after(LIMIT):
            while not (await space.replica.look(read_cursor)).snapshot:
                await anyio.sleep(0.1)
    server.stop(15)
    server.start()
    took = list[float]()
    for n in range(3):
        began = time.perf_counter()
        async with open_home(root / f"late{n}", url, lease=60) as space:
            took.append(time.perf_counter() - began)
            assert (await space.replica.look(read_cursor)).seq > ENTRIES
    server.stop()
    return took


async def _fill_log(url: str) -> None:
    log = await open_log(read_address(url), "lead", "anybody")
    flying = anyio.Semaphore(500)
    try:
        await log.append(encode_entry(P, 1, opening()), "first")
        async with anyio.create_task_group() as group:
            for k in range(2, ENTRIES + 1):
                await flying.acquire()
                group.start_soon(_append, log.connection, encode_entry(P, k, letters(k, 1)), flying)
        await log.append(
            encode_entry(P, ENTRIES + 1, [LeaveHost(P)]), "last"
        )  # it might become its turn to make a snapshot
    finally:
        await log.close()


async def _append(connection: Connection, data: bytes, flying: anyio.Semaphore) -> None:
    """Append one after the other on one connection: the server keeps their order."""
    try:
        assert accepted(await connection.publish("tw.long.log.lead.anybody", data, {}))
    finally:
        flying.release()
