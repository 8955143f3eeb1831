"""Runs an agent on a worker for another machine's session, until it has ended, is lost, or is handed over."""

import traceback
from collections.abc import Awaitable, Callable
from typing import Literal

import anyio
import msgspec
from msgspec import Struct

from teamwright.core.data.event import AgentEnded, Event, Replied, Streamed
from teamwright.core.data.job import JobResult
from teamwright.core.data.letter import Figures, JobStatus
from teamwright.core.data.message import TextDelta
from teamwright.core.errors import StoreError, TeamwrightError
from teamwright.core.ids import AgentId
from teamwright.core.policies.budget import Limits
from teamwright.runtime.agents.agent import Agent, current_agent
from teamwright.runtime.agents.life import OnceLife, how_ended, live
from teamwright.runtime.services import Services
from teamwright.runtime.teams.teammates.teammate import Teammate
from teamwright.runtime.trouble import innermost
from teamwright.runtime.workers.rooms import Room, write_back
from teamwright.store.engine.touched import Touched
from teamwright.store.tables.remotes import Remote, RemoteTable

Fate = Literal["ended", "left", "lost"]  # `left`: handed over on purpose
CLOSE_LIMIT = 10.0  # seconds for its commands to end
LEAVE_LIMIT = 2.0  # seconds for its servers
_SHARE_SECONDS = 1.0  # between two looks at what the session has used
_WORDS = {"completed": "has finished", "failed": "failed", "killed": "was stopped", "running": "is running"}
_LOST = "Another worker goes on with this agent: nothing more is stored from here for it."


class HostedParts(Struct, frozen=True, kw_only=True):
    """What a hosted agent is made of."""

    services: Services
    remote: Remote
    name: str
    description: str
    table: RemoteTable
    room: Room
    make: Callable[[], Awaitable[Agent]]  # the agent of a job, new or from its transcript
    moved: str  # what it is told if it continues here
    progress: int  # lines of its transcript, without those of takeovers
    limits: Limits  # of the whole tree that it belongs to
    closed: Callable[[], Awaitable[None]]
    share_limits: Callable[[], Awaitable[None]]  # learns what the whole session has used
    tell: Callable[[AgentId, bytes], Awaitable[None]]  # sends its words to watchers
    log: Callable[[str], None]


class Hosted:
    def __init__(self, parts: HostedParts) -> None:
        self._parts, self._services, self._table = parts, parts.services, parts.table
        self._supervisor, self.id, self.name = parts.services.supervisor, parts.remote.agent, parts.name
        self._scope, self._ended = anyio.CancelScope(), anyio.Event()
        self._teammate: Teammate | None = None
        self._news = anyio.Event()
        self._stopping = False
        self.fate: Fate = "ended"
        self._over = False  # its end is stored
        self.began = False  # the store knows that it works here
        self.words = ""  # how it ended, for the person at the worker

    # --- its life here

    async def live(self) -> Fate:
        """The boundary: whatever happens inside, its commands are gone when this returns."""
        try:
            async with anyio.create_task_group() as group:
                self._supervisor.group = group
                self._services.extensions.open(group)
                group.start_soon(self._tell)
                group.start_soon(self._share_limits)
                try:
                    await (self._live_in_team() if self._parts.remote.team else self._live_as_job())
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._close()
                    group.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 -- the agent's boundary
            await self._fail(innermost(error))
        finally:
            self._services.bus.close()
            with anyio.CancelScope(shield=True):
                await self._parts.closed()
            self._ended.set()
        return self.fate

    async def _tell(self) -> None:
        """Pass on its words as they come. The rest is in its transcript, which others follow."""
        async for record in self._services.bus.watch(deltas=True):
            if isinstance(record.event, Streamed) and isinstance(record.event.delta, TextDelta):
                await self._parts.tell(record.agent, msgspec.json.encode(record.event))

    async def _share_limits(self) -> None:
        """Tell all agents under one limit what the others have used, within about a second."""
        while True:
            news = self._news
            with self._supervisor.trouble.kept("adding up what the session has used"):
                await self._parts.share_limits()
            await anyio.sleep(_SHARE_SECONDS)
            await news.wait()

    async def _close(self) -> None:
        with anyio.move_on_after(CLOSE_LIMIT), self._supervisor.trouble.kept(f"the end of {self.name}"):
            await self._supervisor.stop_all()
            if (teams := self._services.open_teams) is not None:
                await teams.close()
        await self._services.extensions.leave(limit=LEAVE_LIMIT, ends=False)

    async def _fail(self, error: Exception) -> None:
        """A StoreError: another worker has it by now, or the engine is away. Any other error ends it, with words."""
        self._parts.log(f"{self.name} ({self.id}): {''.join(traceback.format_exception(error))}")
        if isinstance(error, StoreError):
            self.fate, self.words = "lost", str(error)
            return
        words = str(error) if isinstance(error, TeamwrightError) else f"internal error: {error!r}; the log has more"
        self.words = f"failed: {words}"
        result = JobResult(error=words, summary=f"{self._title} failed: {words}")
        with anyio.CancelScope(shield=True), self._supervisor.trouble.kept(f"the end of {self.name}"):
            await self._table.ended(self.id, "failed", result)

    # --- a job

    async def _live_as_job(self) -> None:
        agent = await self._parts.make()
        agent.moved, agent.syncs_turns = self._parts.moved, False
        self._supervisor.own(agent)
        current_agent.set(agent.id)
        await self._begin(agent)
        while True:
            status, error = await self._work(agent)
            if self.fate != "ended":
                return
            if agent.halted is not None:
                raise agent.halted
            with anyio.CancelScope(shield=True):
                if await self._conclude(agent, status, error):
                    return

    async def _begin(self, agent: Agent) -> None:
        """Record in the engine that it goes on here, before it does anything. Fails if somebody else wrote
        meanwhile."""
        await agent.sync()
        await self._table.started(agent.id, self._parts.progress)
        self.began = True
        if self._parts.remote.losses:
            assert self._supervisor.group is not None
            further = anyio.Event()
            agent.listen(lambda event: further.set() if isinstance(event, Replied) else None)
            self._supervisor.group.start_soon(self._note_progress, agent, further)

    async def _note_progress(self, agent: Agent, further: anyio.Event) -> None:
        """Once it has got further here, note that: earlier losses no longer count then."""
        await further.wait()
        await agent.sync()
        await self._table.started(agent.id, self._parts.progress + 1)

    async def _work(self, agent: Agent) -> tuple[JobStatus, str]:
        life, history = OnceLife(agent, self._supervisor.wait_while_jobs_run), agent.history
        with self._scope:
            if history.messages and history.ended is None:  # another worker began a turn
                await life.turn(await agent.inbox.take(at_rest=history.over))
            elif history.ended is not None and history.ended.reason != "done" and not await agent.inbox.unread():
                life.end = how_ended(history.ended)
            await live(life)
            if life.end is not None:
                return life.end
        return "killed", self._parts.remote.why

    async def _conclude(self, agent: Agent, status: JobStatus, error: str) -> bool:
        """Store its end and what it has made. False: something is left to read."""
        await self._supervisor.stop_all()
        said = agent.history.last_words
        agent.emit(AgentEnded(status, said, error))
        await agent.sync()
        back = await self._parts.room.back()
        took = await self._table.now() - self._parts.remote.begun
        figures = Figures(agent.history.usage.total, agent.history.tool_uses, took)
        summary = f"{self._title} {_WORDS[status]}{f': {error}' if error else ''}"
        self.words, self._over = _WORDS[status], True
        done = await self._table.ended(self.id, status, JobResult(said, error, summary, figures), write_back(back))
        self._over = done or status != "completed"
        return self._over

    @property
    def _title(self) -> str:
        return f'Agent "{self._parts.description}" ({self.name})'

    # --- a teammate

    async def _live_in_team(self) -> None:
        work, team = self._services.teams, self._parts.remote.team
        member = await work.tables.teams.member(self.id, team)
        if member is not None and member.state != "shutdown":
            await work.wakeups.process()
            await work.roster.refresh(team)
            self._teammate = await work.teammates.start(member)
        if self._teammate is not None:
            await self._stay(self._teammate)
            if self.fate != "ended":
                return
            if self._teammate.state.parked:  # it broke, or the engine refused what it did
                raise self._teammate.agent.halted or StoreError("It came to an end that nobody asked for.")
        status: JobStatus = "killed" if self._stopping else "completed"
        self.words = "was stopped" if self._stopping else "has shut down"
        with anyio.CancelScope(shield=True):
            back, self._over = await self._parts.room.back(), True
            await self._table.ended(self.id, status, JobResult(summary=self.words), write_back(back))

    async def _stay(self, teammate: Teammate) -> None:
        teammate.agent.moved = self._parts.moved
        self._supervisor.own(teammate.agent)
        with self._scope:
            await self._begin(teammate.agent)
            await teammate.ended.wait()
        if self._stopping:
            with anyio.CancelScope(shield=True):
                await teammate.stop(park=False)

    # --- called from outside

    def is_touched(self, touched: Touched) -> bool:
        """Whether a change concerns it, its team, or an agent that it started."""
        known = self._supervisor.agent
        return (
            touched.anybody
            or self._parts.remote.team in touched.teams
            or any(agent == self.id or known(AgentId(agent)) is not None for agent in touched.agents)
        )

    @property
    def limited(self) -> bool:
        """Whether what others spend may end it."""
        limits = self._parts.limits
        return limits.usd is not None or limits.tokens is not None

    def heard(self) -> None:
        """The store has changed for it."""
        self._news.set()
        self._news = anyio.Event()
        for agent in self._supervisor.agents:
            agent.inbox.ring()
        if (teams := self._services.open_teams) is not None:
            teams.wakeups.heard()

    def stop(self) -> None:
        """Stop it for good."""
        if not self._stopping and self.fate == "ended":
            self._stopping = True
            self._scope.cancel()

    def lose(self) -> None:
        """Somebody else has it: begin and write nothing more."""
        if self.fate != "lost" and not self._over:
            self.fate, self.words = "lost", _LOST
            for agent in self._supervisor.agents:
                agent.abandon(_LOST)
            self._cancel()

    async def leave(self, limit: float) -> None:
        """Hand it over: running calls may end, no others begin."""
        if self.fate != "ended":
            return
        self.fate, self.words = "left", "is handed over"
        for agent in self._supervisor.agents:
            agent.leaving = True
        with anyio.move_on_after(limit):
            await self._calls_end()
        self.park()
        await self._ended.wait()

    def park(self) -> None:
        """End without recording it: the next worker finds what a kill would have left."""
        if self.fate != "lost" and not self._over:
            self.fate, self.words = "left", "is handed over"
            for agent in self._supervisor.agents:
                agent.parked = True
            self._cancel()

    async def _calls_end(self) -> None:
        heard = anyio.Event()

        def listen(_: Event) -> None:
            heard.set()

        for agent in self._supervisor.agents:
            agent.listen(listen)
        while any(map(_has_begun, self._supervisor.agents)) and not self._ended.is_set():
            await heard.wait()
            heard = anyio.Event()

    def _cancel(self) -> None:
        if self._teammate is not None:
            self._teammate.state.parked = True
            self._teammate.state.scope.cancel()
        self._scope.cancel()


def _has_begun(agent: Agent) -> bool:
    return any(call.id in agent.history.begun for call in agent.history.open_calls)
