"""The teams of this process: who is in them, who runs whom, and the bells that wake them.

The store is the truth; what is kept here is a copy for those who cannot wait for a read, taken anew after each change.
"""

from collections.abc import Awaitable, Callable, Iterable

import anyio
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.errors import StoreError, ToolError
from teamwright.core.event import Event, TeamChanged, TeamKind
from teamwright.core.ids import AgentId, CallId, SessionId
from teamwright.core.letter import Letter
from teamwright.core.team import LEAD_NAME, Member, Refused, Team, address, split_address
from teamwright.runtime.agent import Agent
from teamwright.runtime.supervisor import Supervisor
from teamwright.store.mail import MailTable
from teamwright.store.processes import Process, ProcessTable
from teamwright.store.requests import RequestTable
from teamwright.store.team_mirror import TeamMirror
from teamwright.store.teams import TeamTable, call_key

MIRROR_LIMIT = 10.0  # seconds for the copies that people read


class Tables(Struct, frozen=True):
    teams: TeamTable
    mail: MailTable
    requests: RequestTable
    processes: ProcessTable
    mirror: TeamMirror


class Here(Struct, frozen=True):
    """This process, as far as teams know it."""

    session: SessionId
    enter: Callable[[], Awaitable[Process]]  # registers it, with its bell, once
    ring: Callable[[str], object]  # the bell at an address
    post: Callable[[Letter], Awaitable[None]]  # raises StoreError if there is no such agent
    waiting: Callable[[AgentId], Awaitable[list[Letter]]]  # what it has not read
    tell: Callable[[AgentId, Event], None]
    log: Callable[[str], None]


class Teams:
    def __init__(self, tables: Tables, here: Here, supervisor: Supervisor) -> None:
        self.tables, self.here, self.supervisor = tables, here, supervisor
        self._process: Process | None = None
        self._members: dict[str, list[Member]] = {}  # by team
        self._current: dict[AgentId, list[str]] = {}  # teams of an agent, the current one first
        self._epochs: dict[str, int] = {}  # of the teams that are led here
        self._news = anyio.Event()
        self._stale: set[tuple[str, str]] = set()  # inboxes whose copies are behind
        self._stale_bell = anyio.Event()
        self.on_look: list[Callable[[], Awaitable[None]]] = []  # what else to do when a bell rang
        self.bring_back: Callable[[Member], Awaitable[None]] | None = None  # one that nobody runs

    # --- who is there

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._members)

    def member_of(self, agent: AgentId) -> Member | None:
        """An agent in its current team."""
        teams = self._current.get(agent)
        return self._by_agent(teams[0], agent) if teams else None

    def team_of(self, agent: AgentId) -> str | None:
        """The current team of an agent, or of the one that started it."""
        who: AgentId | None = agent
        while who is not None:
            if teams := self._current.get(who):
                return teams[0]
            living = self.supervisor.agent(who)
            who = living.parent if living is not None else None
        return None

    def color_of(self, agent: AgentId) -> str:
        """That of a teammate, or of the one that an agent works for; the lead asks for itself and needs none."""
        living = self.supervisor.agent(agent)
        mate = self.supervisor.teammate_of(living) if living else None
        member = self.member_of(mate) if mate else None
        return member.color if member else ""

    def members(self, team: str) -> list[Member]:
        """Those that have not shut down, the lead first."""
        return [m for m in self._members.get(team, []) if m.state != "shutdown"]

    def everybody(self, team: str) -> list[Member]:
        """Also those that have shut down."""
        return self._members.get(team, [])

    def led_here(self) -> list[str]:
        return list(self._epochs)

    def find(self, team: str, name: str) -> Member | None:
        """By name, address or id, also one that has shut down."""
        plain, other = split_address(name)
        if other and other.casefold() != team.casefold():
            return None
        wanted = plain.casefold()
        found = [m for m in self._members.get(team, []) if m.name.casefold() == wanted or m.agent == name]
        return found[-1] if found else None

    def lead_of(self, team: str) -> Member | None:
        return next((m for m in self._members.get(team, []) if m.is_lead), None)

    def _by_agent(self, team: str, agent: AgentId) -> Member | None:
        return next((m for m in self._members.get(team, []) if m.agent == agent), None)

    # --- making and ending teams

    async def process(self) -> Process:
        """This process in the store; from the first time on it hears bells."""
        if self._process is None:
            self._process = await self.here.enter()
            self.supervisor.launch(self._keep_copies)
        return self._process

    async def create(self, agent: Agent, name: str, description: str, kind: str, call: CallId) -> Team:
        me = await self.process()
        lead = Member(
            agent.id, LEAD_NAME, name, kind or agent.kind, agent.model, cwd=str(agent.desk.cwd),
            session=self.here.session, state="running",
        )  # fmt: skip
        team = await self.tables.teams.create_team(name, description, lead, me.id, key=call_key(agent.id, call))
        if isinstance(team, Refused):
            raise ToolError(team.reason)
        self._epochs[team.name] = team.epoch
        await self.refresh(team.name)
        await self.copy(self.tables.mirror.write_team, team.name)
        return team

    async def lead_again(self, name: str, agent: Agent, *, current: bool = True) -> Team | Refused:
        """A team whose lead's process is gone."""
        me = await self.process()
        lead = Member(
            agent.id, LEAD_NAME, name, agent.kind, agent.model, cwd=str(agent.desk.cwd), session=self.here.session,
            state="running",
        )  # fmt: skip
        team = await self.tables.teams.take_over(name, lead, me.id, current=current)
        if not isinstance(team, Refused):
            self._epochs[team.name] = team.epoch
            await self.refresh(team.name)
            await self.copy(self.tables.mirror.write_team, team.name)
        return team

    async def delete(self, team: str) -> tuple[Member, ...]:
        """The members that were idle, for whoever runs them to end."""
        done = await self.tables.teams.delete_team(team, epoch=self._epochs.get(team))
        if isinstance(done, Refused):
            raise ToolError(done.reason)
        self._forget(team)
        await self.copy(self.tables.mirror.remove, team)
        return done.idle

    def _forget(self, team: str) -> None:
        self._members.pop(team, None)
        self._epochs.pop(team, None)
        for teams in self._current.values():
            if team in teams:
                teams.remove(team)

    # --- the copy of the store

    async def refresh(self, *teams: str) -> None:
        """Take the roster anew, and for each member which of its teams is the current one."""
        for name in teams:
            if await self.tables.teams.team(name) is None:
                self._forget(name)
                continue
            self._members[name] = await self.tables.teams.members(name)
            for member in self._members[name]:
                if member.state == "shutdown":
                    self._current.pop(member.agent, None)
                elif self.supervisor.agent(member.agent) is not None or member.agent not in self._current:
                    self._current[member.agent] = [t.name for t in await self.tables.teams.teams_of(member.agent)]
        self.announce()

    def announce(self) -> None:
        """Whoever waits for something of a team looks again."""
        self._news.set()
        self._news = anyio.Event()

    async def news(self) -> None:
        await self._news.wait()

    async def look(self) -> None:
        """A bell rang, or another process changed the store: see what is new for whom."""
        for agent in self.supervisor.agents:  # first: whoever sees that all others are idle must not miss a letter
            agent.inbox.ring()
        await self.refresh(*list(self._members))
        for step in self.on_look:
            await step()

    # --- bells

    async def ring(self, member: Member) -> None:
        """Its letter is stored. One that nobody runs is brought back by the process that leads its team."""
        if self.supervisor.agent(member.agent) is not None:
            self.supervisor.ring(member.agent)
            return
        holder = await self.tables.processes.holder(member.agent)
        if holder is not None and holder.id != (await self.process()).id:
            self.here.ring(holder.bell)
        elif member.team in self._epochs:
            if self.bring_back is not None and not member.is_lead:
                await self.bring_back(member)
        else:
            await self.ring_lead(member.team)

    async def ring_lead(self, team: str) -> None:
        found = await self.tables.teams.team(team)
        if found is None or found.process is None:
            return
        if found.process == (await self.process()).id:
            self.announce()
        elif (process := await self.tables.processes.process(found.process)) is not None:
            self.here.ring(process.bell)

    async def post_to_session(self, session: str, letter: Letter) -> bool:
        """Plain text for the main agent of another session; is a process of it there to hear the bell?"""
        agent = AgentId(session)
        if session == self.here.session:
            raise ToolError("That is this session itself.")
        try:
            await self.here.post(replace(letter, to=agent))
        except StoreError as error:
            raise ToolError(f"Session {session!r}: {error} `teamwright sessions --all` lists them.") from None
        found = [p for p in await self.tables.processes.living() if p.session == session]
        for process in found:
            self.here.ring(process.bell)
        return bool(found)

    async def ring_all(self, team: str) -> None:
        """Every process of the team, this one included: there may be something to claim."""
        me = await self.process()
        for process in await self.tables.processes.of_team(team):
            if process.id != me.id:
                self.here.ring(process.bell)
        for member in self.members(team):
            self.supervisor.ring(member.agent)
        self.announce()

    # --- what people see

    def tell(self, member: Member, kind: TeamKind, text: str = "", *, to: str = "", task: str = "") -> None:
        self.here.tell(member.agent, TeamChanged(member.team, kind, member.address, text, to, task))

    async def copy(self, write: Callable[..., Awaitable[None]], *names: str) -> None:
        """The files only show the store: that they could not follow is logged, and fails nothing."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(MIRROR_LIMIT):
            try:
                await write(*names)
            except StoreError as error:
                self.here.log(f"the copies of team {names[0]} are behind: {error}")

    def read_by(self, agent: AgentId) -> None:
        """It has taken letters: the copy of its inbox follows when there is time."""
        if member := self.member_of(agent):
            self._stale.add((member.team, member.name))
            self._stale_bell.set()

    async def _keep_copies(self) -> None:
        while True:
            await self._stale_bell.wait()
            self._stale_bell = anyio.Event()
            await self.catch_up()

    async def catch_up(self) -> None:
        """The copies that are behind are written; also at the end, which would leave them so."""
        while self._stale:
            team, name = self._stale.pop()
            await self.copy(self.tables.mirror.write_inbox, team, name)

    def describe(self, agent: AgentId) -> list[str]:
        """For an agent whose conversation was shortened: what it must still know of its team."""
        member = self.member_of(agent)
        if member is None:
            return []
        others = [f"{m.name} ({m.kind}, {m.state})" for m in self.members(member.team) if m.agent != agent]
        lines = [f"You are {member.name} in the team {member.team}."]
        return [*lines, f"The others: {', '.join(others)}."] if others else lines


def addresses(members: Iterable[Member]) -> str:
    return ", ".join(address(m.name, m.team) for m in members) or "nobody"
