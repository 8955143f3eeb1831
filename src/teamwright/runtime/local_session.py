"""The port of a session in this process."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from anyio import to_thread
from msgspec import json
from msgspec.structs import replace

from teamwright.core.data.event import Asked, Event, JobStarted, Record, TeamChanged, TeamKind, Warned
from teamwright.core.data.extensions.server import ServerState
from teamwright.core.data.message import Message
from teamwright.core.data.op import Interrupt, Op, Say, StopAll, StopJob
from teamwright.core.data.team import Member
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, JobId, LetterId, SessionId
from teamwright.core.policies.compaction import size
from teamwright.runtime.agents.spec import RenderedPrompt
from teamwright.runtime.bus import Cursor, Watch
from teamwright.runtime.port import (
    END,
    ContextUse,
    Crew,
    Live,
    Named,
    RewindPoint,
    RewindPreview,
    SessionFacts,
    SessionStatus,
    SessionView,
    StandingRule,
)
from teamwright.runtime.rest import settled
from teamwright.runtime.session import Session
from teamwright.store.files.paths import Home
from teamwright.store.tables.state import now_ms

if TYPE_CHECKING:
    from teamwright.runtime.extensions.skills import Expanded
    from teamwright.runtime.past.replay import PageReader, Past
    from teamwright.runtime.rewind.service import Rewinding
    from teamwright.runtime.teams.roster import Roster
    from teamwright.store.tables.mail import MailEntry

Value = TypeVar("Value")
CHARACTERS = 4  # per token, roughly
MOST_MAIL = 1_000  # messages of one team in the timeline


class LocalSession:
    """Gives surfaces a session that runs in this process. Its opener also closes it."""

    elsewhere = False

    def __init__(self, session: Session, home: Home) -> None:
        self._session, self.home, self._bus = session, home, session.services.bus
        self._brought = session.brought
        self._pages: PageReader | None = None
        self.id: SessionId = session.id
        self.main: AgentId = session.main.id
        self.cwd: Path = session.cwd
        self.notes: Sequence[str] = session.notes

    @property
    def model_names(self) -> Sequence[str]:
        return self._session.services.model_names

    @property
    def _roster(self) -> "Roster | None":
        """None until somebody is in a team: a look must not import what teams need."""
        teams = self._session.services.open_teams
        return None if teams is None else teams.roster

    # --- state

    @property
    def facts(self) -> SessionFacts:
        session = self._session
        now, main, roster = session.snapshot(), session.main, self._roster
        agents, jobs = session.services.agents, session.supervisor.jobs
        return SessionFacts(
            now.model,
            now.mode,
            str(main.desk.cwd),
            session.spent + now.usd,
            budget_left(session),
            main.history.tokens,
            bool(main.history.messages),
            _colors(roster) if roster is not None else {},
            agents.windows.known(now.model) or 0,
            dict(Counter(job.kind for job in jobs.running() if job.background)),
            str(self.sandbox["tier"]) if self.sandbox["enabled"] else "",
            session.unpriced or session.meter.unpriced,
            any(not job.background for job in jobs.running()),
        )

    def color(self, agent: AgentId, kind: str) -> str:
        member = self._member(agent)
        return member.color if member is not None and member.color else self.kind_colors.get(kind, "")

    def _member(self, agent: AgentId) -> Member | None:
        return None if (roster := self._roster) is None else roster.member_of(agent)

    @property
    def kind_colors(self) -> dict[str, str]:
        return {name: kind.color for name, kind in self._session.kinds().items() if kind.color}

    def agents(self) -> dict[AgentId, str]:
        """Names of the agents that live here, by id."""
        return {agent.id: agent.name for agent in self._session.supervisor.agents}

    def members(self, team: str) -> list[Member]:
        """Members that have not shut down, the lead first."""
        return [] if (roster := self._roster) is None else roster.members(team)

    def messages(self, agent: AgentId) -> Sequence[Message] | None:
        """An agent's conversation as its model reads it; None if the agent does not live here."""
        found = self._session.supervisor.agent(agent)
        return None if found is None else found.history.messages

    @property
    def commands(self) -> list[Named]:
        """Skills and servers' prompts that can be called as `/name`."""
        found = [Named(skill.name, skill.description, skill.argument_hint) for skill in self._brought.commands]
        for name, prompt in self._brought.prompts:
            found.append(Named(name, prompt.description, " ".join(f"[{one.name}]" for one in prompt.arguments)))
        return found

    async def skills(self) -> list[Named]:
        return self.commands

    async def rules(self) -> list[StandingRule]:
        names, services = self.agents(), self._session.services
        listed = services.rules.listing()
        return [StandingRule(kind, str(r), r.source, names.get(id, id) if id else "") for kind, r, id in listed]

    async def status(self) -> SessionStatus:
        main = self._session.main
        key = self._session.services.key_origin(main.model)
        return SessionStatus(await self.measure_context(), tuple(self.servers()), main.effort, key)

    def servers(self) -> list[ServerState]:
        pool = self._brought.pool
        return [] if pool is None else pool.states()

    @property
    def _prompt(self) -> RenderedPrompt:
        return self._session.main.prompt

    async def measure_context(self) -> ContextUse:
        """Parts are estimated by their length; the total is the provider's last count, if there is one."""
        main, prompt = self._session.main, self._prompt
        system = sum(map(len, prompt.system)) // CHARACTERS
        tools = {tool.name: len(json.encode(tool)) // CHARACTERS for tool in prompt.tools}
        said = sum(size(message) for message in main.history.messages) // CHARACTERS
        counted = main.history.tokens
        messages = max(counted - system - sum(tools.values()), said) if counted else said
        return ContextUse(main.model, await self._session.window() or 0, system, tools, messages)

    async def settled(self) -> Cursor:
        return await settled(self._session)

    async def crew(self) -> Crew:
        """Teams, tasks, mail and the landing queue, as they are now."""
        return await unhurt(self._crew())

    async def _crew(self) -> Crew:
        teamwork = self._session.teamwork
        names, table = tuple(sorted(teamwork.roster.names)), teamwork.tables.mail
        listing = await teamwork.board.listing(self.main)
        mail: list[MailEntry] = []
        for name in names:
            mail += await table.newest(name, MOST_MAIL)
        landing = tuple(await self._session.landing.entries())
        return Crew(names, listing.tasks, tuple(sorted(mail, key=lambda entry: entry.n)), landing)

    async def points(self) -> list[RewindPoint]:
        await self._session.main.sync()
        return await unhurt(self._rewinding.points())

    async def preview(self, line: int) -> RewindPreview:
        return await unhurt(self._rewinding.preview(line))

    @property
    def _rewinding(self) -> "Rewinding":
        services = self._session.services
        return services.rewinding

    # --- past, present and future

    async def begin(self, newest: int = END) -> tuple["Past", Live]:
        cursor, now, live = await self.join()
        from teamwright.runtime.past.replay import read_all  # noqa: PLC0415

        past, elsewhere = await to_thread.run_sync(read_all, self.home, self.id, cursor, newest)
        for agent in elsewhere:
            past.records += [record for record in await self.past(agent) if record.n <= cursor[agent]]
        past.records += now
        return past, live

    def snapshot(self) -> SessionView:
        return self._session.snapshot()

    @property
    def engine(self) -> Mapping[str, str] | None:
        """Address and space of the session's engine."""
        return self._session.engine

    @property
    def sandbox(self) -> Mapping[str, str | bool]:
        """Whether commands run in a sandbox, and its tier."""
        return self._session.services.sandbox_status

    def watch(self, since: Cursor | None = None, *, deltas: bool = True) -> Watch:
        return self._bus.watch(since, deltas=deltas)

    def recent(self, lines: int) -> Cursor:
        """A place to watch from that repeats the last `lines` lines of every agent."""
        return self._session.recent(lines)

    async def join(self) -> tuple[Cursor, list[Record], Live]:
        """How far the transcripts are, the state that none of them holds, and events from now on."""
        queued, bus = await self._session.queued(), self._session.services.bus
        unseen = [record.event for record in bus.early]  # the watch delivers these
        live = self._session.watch()  # nothing is awaited from here on, so that all three describe the same moment
        posted = [Record(self.main, 0, now_ms(), event) for event in queued]
        return self._session.recent(0), [*self._now(unseen), *posted], live

    def _now(self, unseen: Sequence[Event]) -> list[Record]:
        jobs, roster = self._session.supervisor.jobs, self._roster
        records = [
            Record(j.owner, 0, j.started, JobStarted(j.id, j.kind, j.description, j.call, j.background))
            for j in jobs.running()
        ]
        mates = [] if roster is None else [m for name in roster.led_here() for m in roster.everybody(name)]
        records += [record for member in mates if not member.is_lead for record in _joined(member)]
        warned = [Warned(words) for words in self._brought.failures]
        records += [Record(self.main, 0, now_ms(), event) for event in warned if event not in unseen]
        questions = self._session.questions
        return records + [Record(q.agent, 0, questions.asked[q.id], Asked(q)) for q in questions.waiting]

    async def past(self, agent: AgentId, before: int = END, newest: int = END) -> list[Record]:
        return await to_thread.run_sync(self._read, agent, before, newest, abandon_on_cancel=True)

    def _read(self, agent: AgentId, before: int, newest: int) -> list[Record]:
        if self._pages is None:
            from teamwright.runtime.past.replay import PageReader  # noqa: PLC0415

            self._pages = PageReader(self.home, self.id)
        found = self._pages.read(agent, before, newest)
        if found is None:  # a teammate's transcript may belong to another session
            with suppress(StoreError):
                return list(self._session.past(agent))
        return found or []

    # --- requests

    async def submit(self, op: Op) -> None:
        await unhurt(self._session.submit(op))

    async def say(self, op: Say) -> LetterId:
        """Post a prompt, with the files and resources that it names with `@` and the main agent may read."""
        found = await self._brought.mentions(op.typed) if op.agent is None and not op.quiet else ()
        return await unhurt(self._session.say(replace(op, content=(*op.content, *found)) if found else op))

    async def withdraw(self, letter: LetterId, agent: AgentId | None) -> bool:
        return await unhurt(self._session.withdraw(letter, agent))

    async def expand(self, text: str) -> "Expanded | None":
        return await self._brought.expand(text)

    async def stop(self, agent: AgentId | None) -> None:
        if agent is None:
            await self.submit(StopAll(turns=True))
        elif agent == self.main:
            await self.submit(Interrupt())
        else:
            member = self._member(agent)
            await self.submit(StopJob(JobId(member.address if member is not None else agent)))


async def unhurt(call: Coroutine[Any, Any, Value]) -> Value:
    """Run `call` to its end, even if this task is cancelled.

    Textual cancels its workers by asyncio's own means, which anyio's shields do not hold off. Breaking off a trip to
    the store would leave others, who wait for the same trip, without an answer.
    """
    task = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_forget)
        raise


def _forget(ended: asyncio.Future[Any]) -> None:
    """Retrieve the error: asyncio complains about one that nobody has seen."""
    if not ended.cancelled():
        ended.exception()


def _joined(member: Member) -> list[Record]:
    """The events that would have reported this member."""
    records = [Record(member.agent, 0, member.joined_at, TeamChanged(member.team, "spawn", member.address))]
    if member.state in ("idle", "shutdown"):
        kind: TeamKind = "idle" if member.state == "idle" else "shutdown"
        records.append(Record(member.agent, 0, member.since, TeamChanged(member.team, kind, member.address)))
    return records


def budget_left(session: Session) -> str:
    """What is left of the session's limits, in words; empty if it has none."""
    limits, meter = session.meter.limits, session.meter
    parts: list[str] = []
    if limits.usd is not None:
        parts.append(f"${max(0.0, limits.usd - meter.usd):.2f} of ${limits.usd:.2f}")
    if limits.tokens is not None:
        parts.append(f"{max(0, limits.tokens - meter.usage.total):,} of {limits.tokens:,} tokens")
    if limits.seconds is not None:
        parts.append(f"{max(0.0, limits.seconds - meter.seconds):.0f} of {limits.seconds:.0f} s")
    return " · ".join(parts)


def _colors(roster: "Roster") -> dict[AgentId, str]:
    return {m.agent: m.color for name in roster.names for m in roster.everybody(name) if m.color}
