"""A space of an engine as one process uses it: its log, objects and transcripts, and the replica of this machine.

The replica lives in a task of its own, beside those of the client: it must run before the session that uses it and end
after that, whatever scopes its callers open and close in between.
"""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import cast

import anyio
import anyio.to_thread
from msgspec import Struct

from teamwright.core.ids import AgentId, SessionId
from teamwright.core.policies.authority import Role
from teamwright.osfiles.private import make_dir
from teamwright.store.db.database import Database
from teamwright.store.engine.holders import Holders
from teamwright.store.engine.known import check_known
from teamwright.store.engine.opening import LEASE, open_replica
from teamwright.store.engine.replica import Replica
from teamwright.store.engine.shared_transcripts import SharedTranscripts, TranscriptCopies
from teamwright.store.engine.tables import read_cursor
from teamwright.store.engine.wire.address import Address
from teamwright.store.engine.wire.lines import Lines
from teamwright.store.engine.wire.live import LiveWords
from teamwright.store.engine.wire.nats import NatsLog, open_log
from teamwright.store.engine.wire.objects import NatsObjects
from teamwright.store.files.paths import Home, SessionFiles, find_transcript

_END = 20.0  # seconds to store the rest at the end
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Joining(Struct, frozen=True):
    """How a process joins a space."""

    role: Role = "lead"
    lease: float = LEASE
    patience: float = 600.0
    joins: bool = True  # False: it only reads, and nobody knows of it


class About(Struct, frozen=True):
    """What the engine says of itself."""

    version: str
    replicas: int
    server: str  # name of the leading node


class Buckets(Struct, frozen=True):
    """Files that everybody may write, and those that only leads may, because their readers trust them."""

    all: NatsObjects
    leads: NatsObjects


class Space:
    def __init__(self, log: NatsLog, buckets: Buckets, replica: Replica, name: str, home: Home) -> None:
        objects, self._leads = buckets.all, buckets.leads
        self.address, self.home, self.objects, self.replica = log.address, home, objects, replica
        self.lines = Lines(log, objects, name, home.run, Holders(replica))
        self.transcripts = SharedTranscripts(self.lines, replica.process)
        self.live = LiveWords(log.connection)
        self._log = log
        self._copies = TranscriptCopies(self.transcripts, home.run)
        self._ready, self._ending = anyio.Event(), anyio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def database(self) -> Database:
        """For the tables, which use a replica like a database."""
        return cast("Database", self.replica)

    async def begin(self) -> None:
        await self.lines.prepare()
        self._task = asyncio.get_running_loop().create_task(self._live())
        waiting = asyncio.get_running_loop().create_task(self._ready.wait())
        try:
            await asyncio.wait({self._task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._task.done():
            self._task.result()

    async def _live(self) -> None:
        async with anyio.create_task_group() as group:
            await group.start(self.replica.run)
            group.start_soon(self.transcripts.run)
            self._ready.set()
            await self._ending.wait()
            group.cancel_scope.cancel()

    def hurry(self, seconds: float) -> None:
        """This process is to end: nothing waits longer than this for an engine that is away."""
        self._log.connection.hurry(seconds)

    async def close(self) -> None:
        """Store the rest. Raises StoreError if the engine took not all of it; everything is closed then, too."""
        try:
            with anyio.move_on_after(_END, shield=True):
                try:
                    await self.transcripts.flush()
                finally:
                    await self.replica.close()
        finally:
            self._ending.set()
            with anyio.CancelScope(shield=True):
                if self._task is not None:
                    await asyncio.wait({self._task}, timeout=_END)
                await self._log.close()

    async def about(self) -> About:
        extent = await self._log.extent()
        return About(self._log.connection.version, extent.replicas, extent.server)

    async def now(self) -> int:
        """The time of the last change, in milliseconds by the engine's clock, which stamps every change."""
        return (await self.replica.read(read_cursor)).at

    async def get_record(self, name: str) -> bytes | None:
        """What a lead has stored under a name that says nothing of its content; None if there is nothing."""
        return await self._leads.get_bytes(name)

    async def put_record(self, name: str, data: bytes) -> None:
        """Needs a lead's rights."""
        await self._leads.put_bytes(name, data)

    async def drop_record(self, name: str) -> None:
        await self._leads.remove(name)

    async def fetch(self, agent: AgentId, files: SessionFiles) -> None:
        """Fetch what is needed to continue an agent: its transcript, unless a process of this machine writes it, and
        the prompts that it names."""
        path = files.transcript if agent == files.transcript.stem else files.agent(agent)
        await self._copies.fetch(agent, path)
        await self.transcripts.fetch_prompts_of(path, files.prompts)

    async def fetch_lines(self, agent: AgentId, files: SessionFiles) -> None:
        """Fetch only the transcript, to read what an agent elsewhere has done."""
        await self._copies.fetch(agent, files.agent(agent))

    async def follow(self, agent: AgentId, files: SessionFiles, heard: Callable[[], None]) -> None:
        """Keep a copy of the transcript of an agent on another machine as it grows, until it is cancelled."""
        await self._copies.follow(agent, files.agent(agent), heard)

    async def forget(self, agent: AgentId) -> None:
        """Delete an agent's lines: a session in which nothing was said leaves nothing behind."""
        await self.transcripts.flush()
        await self.lines.purge(agent)


def files_in(home: Home, session: SessionId, cwd: str) -> SessionFiles:
    """Where a session's files are on this machine, or would be if it had begun here."""
    path = find_transcript(home, session)
    return SessionFiles(path) if path is not None else home.files(Path(cwd), session)


async def _snapshots(log: NatsLog, patience: float) -> NatsObjects:
    """A bucket of its own that workers can only read, because its readers trust the snapshots."""
    found = NatsObjects(log, patience, leads=True)
    await found.prepare()
    return found


async def make_space(address: Address) -> None:
    """Make the streams of a space if they are missing: workers cannot make them. Raises EngineError."""
    log = await open_log(address, "lead", address.user, patience=_END)
    try:
        objects = NatsObjects(log, _END)
        await objects.prepare()
        await _snapshots(log, _END)
        await Lines(log, objects, address.user, Path()).prepare()
    finally:
        await log.close()


async def open_space(address: Address, root: Path, how: Joining) -> Space:
    """`root` is the home of this machine. Raises EngineError in one sentence; nothing was made then."""
    name = address.user if _NAME.fullmatch(address.user) else "anybody"
    log = await open_log(address, how.role, name, patience=how.patience)
    try:
        engines = root / "engines"
        await anyio.to_thread.run_sync(check_known, engines, str(address), log.space)
        objects = NatsObjects(log, how.patience)
        await objects.prepare()
        snapshots = await _snapshots(log, how.patience)
        replica = await open_replica(engines, log, snapshots, lease=how.lease, joins=how.joins)
        home = Home(engines / log.space)
        await anyio.to_thread.run_sync(make_dir, home.run)
        space = Space(log, Buckets(objects, snapshots), replica, name, home)
        try:
            await space.begin()
        except BaseException:
            await space.close()
            raise
        log.connection.patience = how.patience if how.joins else 0.0  # from here on an outage is waited out
    except BaseException:
        await log.close()
        raise
    return space
