"""A worker's loop: begins with the agents that are given to it, stops those that are to stop, lets go of lost ones."""

from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from teamwright.core.data.job import JobResult
from teamwright.core.data.team import ProcessId, Refused
from teamwright.core.errors import StoreError, TeamwrightError
from teamwright.core.ids import AgentId
from teamwright.runtime.workers.hosted import Hosted
from teamwright.store.db.database import Database
from teamwright.store.tables.remotes import Remote, RemoteTable

_LOOK = 1.0  # seconds between looks without any news
_AGAIN = 2.0  # seconds before an agent that could not be gone on with is tried once more


class OfficeDeps(Struct, frozen=True, kw_only=True):
    database: Database
    process: ProcessId
    open: Callable[[Remote], Awaitable[Hosted]]
    say: Callable[[str], None]  # one line for whoever looks at the worker
    log: Callable[[str], None]
    once: bool = False


class Office:
    def __init__(self, deps: OfficeDeps) -> None:
        self._deps, self.table = deps, RemoteTable(deps.database)
        self._hosted: dict[AgentId, Hosted | None] = {}  # None: it is being opened
        self._news, self._group = anyio.Event(), anyio.create_task_group()
        self._leaving, self.done = False, anyio.Event()
        self.fault: StoreError | None = None  # why it cannot go on

    def news(self) -> anyio.Event:
        """Set by the next change of the store."""
        return self._news

    async def run(self) -> None:
        """Until it is cancelled, its first agent is done where that is all it is to do, or the store has a fault."""
        async with self._group:
            try:
                await self._watch()
            except StoreError as error:
                self.fault = error
                for hosted in self._opened():
                    hosted.lose()  # whoever goes on must find what a kill would have left
            self._group.cancel_scope.cancel()

    async def _watch(self) -> None:
        database, seen = self._deps.database, -1
        while not self.done.is_set():
            found = await database.data_version()
            if found != seen:
                seen = found
                self._ring()
            await self._look()
            if seen == await database.data_version():
                await _either(database, self._news)

    def _ring(self) -> None:
        """Letters, answers and states may have changed for anybody here."""
        self._announce()
        for hosted in self._hosted.values():
            if hosted is not None:
                hosted.heard()

    def _opened(self) -> list[Hosted]:
        return [hosted for hosted in self._hosted.values() if hosted is not None]

    def _announce(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    async def _look(self) -> None:
        rows = {row.agent: row for row in await self.table.given(self._deps.process)}
        for agent, hosted in list(self._hosted.items()):
            row = rows.get(agent)
            if hosted is None:
                continue
            if row is None or (row.state == "given" and hosted.began):
                hosted.lose()
            elif row.state == "stopping":
                hosted.stop()
        if self._deps.once and not self._leaving and any(hosted.began for hosted in self._opened()):
            self._leaving = True
            await self.table.drain()  # whatever else it was given goes to others
        for row in rows.values():
            full = self._leaving or (self._deps.once and self._hosted)
            if row.agent not in self._hosted and not full:
                self._hosted[row.agent] = None
                self._group.start_soon(self._host, row)

    # --- one agent

    async def _host(self, row: Remote) -> None:
        """The boundary of everything that concerns one agent."""
        again, hosted = 0.0, None
        try:
            hosted = await self._open(row)
            if hosted is not None:
                self._deps.say(f"{hosted.name} ({row.agent}) comes")
                fate = await hosted.live()
                self._deps.say(f"{hosted.name} ({row.agent}) {'was lost: ' if fate == 'lost' else ''}{hosted.words}")
                again = _AGAIN if fate == "lost" else 0.0
        except StoreError as error:
            self._deps.say(f"agent {row.agent} could not be begun: {error}")
            again = _AGAIN
        except TeamwrightError as error:
            await self._refuse(row, str(error))
        if again:
            await anyio.sleep(again)
        self._hosted.pop(row.agent, None)
        self._announce()
        if self._deps.once and hosted is not None:
            self.done.set()

    async def _open(self, row: Remote) -> Hosted | None:
        """None if it is another worker's by now."""
        if isinstance(await self.table.claim(row.agent), Refused):
            return None
        if row.state == "stopping":
            await self.table.ended(row.agent, "killed", JobResult(error=row.why, summary="it was stopped"))
            return None
        hosted = self._hosted[row.agent] = await self._deps.open(row)
        return hosted

    async def _refuse(self, row: Remote, why: str) -> None:
        """It cannot be run here, nor by others: no code, no model."""
        self._deps.say(f"agent {row.agent} failed: {why}")
        try:
            await self.table.ended(row.agent, "failed", JobResult(error=why, summary=f"failed: {why}"))
        except StoreError as error:
            self._deps.log(f"the end of agent {row.agent} could not be recorded: {error}")

    # --- the end

    async def leave(self, limit: float) -> None:
        """Take nothing new, let running calls end, hand everything over. Its leases end when the process leaves."""
        self._leaving = True
        try:
            with anyio.move_on_after(limit):  # the engine may be away
                await self.table.drain()
        except StoreError as error:
            self._deps.log(f"that this worker leaves could not be told: {error}")
        async with anyio.create_task_group() as group:
            for hosted in self._opened():
                group.start_soon(hosted.leave, limit)
        self.done.set()
        self._announce()

    def leave_now(self) -> None:
        """What runs is cut off: others find its outcome unknown."""
        for hosted in self._opened():
            hosted.park()


async def _either(database: Database, news: anyio.Event) -> None:
    """Until another process has written, or something was done here."""

    async def wait(group: TaskGroup) -> None:
        await news.wait()
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(wait, group)
        await database.pause(_LOOK)
        group.cancel_scope.cancel()
