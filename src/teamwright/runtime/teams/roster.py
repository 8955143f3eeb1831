"""The teams of this process: who is in them, who runs whom, and the bells that wake them.

The store is the truth; what is kept here is a copy for those who cannot wait for a read, taken anew after each change.
"""

from collections.abc import Awaitable, Callable, Iterable

import anyio
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.event import Event, TeamChanged, TeamKind
from teamwright.core.data.letter import Letter
from teamwright.core.data.team import LEAD_NAME, Member, Refused, Team, address, split_address
from teamwright.core.errors import DiskError, StoreError, ToolError
from teamwright.core.ids import AgentId, CallId, SessionId
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.trouble import Trouble
from teamwright.store.mirrors.team import TeamMirror
from teamwright.store.tables.mail import MailTable
from teamwright.store.tables.processes import Process, ProcessTable
from teamwright.store.tables.requests import RequestTable
from teamwright.store.tables.teams import TeamTable, call_key

MIRROR_LIMIT = 10.0  # seconds for the copies that people read
MIRROR_DELAY = 0.1  # seconds by which they follow what no tool did: many changes make one copy
READERS_FIRST = 0.005  # seconds: what else is to be done about a message does not hold up its way to the model
ROSTER = ""  # in the place of a member's name: the copy of the team itself


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


class Later:
    """Work that follows its bell by a moment: many rings, one run."""

    def __init__(self, delay: float, work: Callable[[], Awaitable[None]], trouble: Trouble) -> None:
        self._delay, self._work, self._bell, self._trouble = delay, work, anyio.Event(), trouble

    def ring(self) -> None:
        self._bell.set()

    async def run(self) -> None:
        while True:
            await self._bell.wait()
            await anyio.sleep(self._delay)
            self._bell = anyio.Event()
            with self._trouble.kept("what follows a bell"):
                await self._work()


class Teams:
    def __init__(self, tables: Tables, here: Here, supervisor: Supervisor) -> None:
        self.tables, self.here, self.supervisor = tables, here, supervisor
        self._process: Process | None = None
        self._members: dict[str, list[Member]] = {}  # by team
        self._current: dict[AgentId, list[str]] = {}  # teams of an agent, the current one first
        self._epochs: dict[str, int] = {}  # of the teams that are led here
        self._noted = 0  # changes that were put into the copy by hand
        self._news = anyio.Event()
        self._stale: dict[str, set[str]] = {}  # by team: members whose inboxes' copies are behind, or ROSTER
        self._copying = Later(MIRROR_DELAY, self.catch_up, supervisor.trouble)
        self._looking = Later(READERS_FIRST, self.look, supervisor.trouble)
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
            self.supervisor.launch(self._copying.run)
            self.supervisor.launch(self._looking.run)
        return self._process

    async def create(self, agent: Agent, name: str, description: str, kind: str, call: CallId) -> Team:
        me = await self.process()
        lead = Member(
            agent.id,
            LEAD_NAME,
            name,
            kind or agent.kind,
            agent.model,
            cwd=str(agent.desk.cwd),
            session=self.here.session,
            state="running",
        )
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
            agent.id,
            LEAD_NAME,
            name,
            agent.kind,
            agent.model,
            cwd=str(agent.desk.cwd),
            session=self.here.session,
            state="running",
        )
        team = await self.tables.teams.take_over(name, lead, me.id, current=current)
        if not isinstance(team, Refused):
            self._epochs[team.name] = team.epoch
            await self.refresh(team.name)
            await self.copy(self.tables.mirror.write_team, team.name)
        return team

    async def delete(self, team: str, key: str | None = None) -> tuple[Member, ...]:
        """The members that were idle, for whoever runs them to end."""
        done = await self.tables.teams.delete_team(team, epoch=self._epochs.get(team), key=key)
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
            noted, roster = -1, None
            while noted != self._noted:  # what somebody here noted while the store was read is newer
                noted, roster = self._noted, await self.tables.teams.roster(name)
            if roster is None:
                self._forget(name)
                continue
            self._members[name] = roster.members
            for member in roster.members:
                if member.state == "shutdown":
                    self._current.pop(member.agent, None)
                else:
                    self._current[member.agent] = roster.teams.get(member.agent, [])  # it may go this very moment
        self.announce()

    def note(self, member: Member) -> None:
        """What is known of it here has changed; the store has it already, or with the next read."""
        self._noted += 1
        if (known := self._members.get(member.team)) is not None:
            self._members[member.team] = [member if m.agent == member.agent else m for m in known]
        self.announce()

    def announce(self) -> None:
        """Whoever waits for something of a team looks again."""
        self._news.set()
        self._news = anyio.Event()

    async def news(self) -> None:
        await self._news.wait()

    def heard(self) -> None:
        """A bell rang: letters first, a look at what else is new after that."""
        self._ring_inboxes()
        self._looking.ring()

    async def look(self) -> None:
        """Another process changed the store: see what is new for whom."""
        self._ring_inboxes()  # first: whoever sees that all others are idle must not miss a letter
        await self.refresh(*list(self._members))
        for step in self.on_look:
            await step()

    def _ring_inboxes(self) -> None:
        for agent in self.supervisor.agents:
            agent.inbox.ring()

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
        except DiskError:
            raise
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

    async def copy(self, write: Callable[..., Awaitable[None]], *names: str) -> bool:
        """The files only show the store: that they could not follow is logged, and fails nothing. Did they?"""
        with anyio.CancelScope(shield=True), anyio.move_on_after(MIRROR_LIMIT):
            try:
                await write(*names)
            except StoreError as error:
                self.here.log(f"the copies of team {names[0]} are behind: {error}")
                return False
        return True

    async def copy_inboxes(self, team: str, *names: str) -> None:
        """Before the tool that wrote to them returns, after they were rung for."""
        try:
            await anyio.sleep(READERS_FIRST)
        finally:
            if not await self.copy(self.tables.mirror.write_inbox, team, *names):
                self._stale.setdefault(team, set()).update(names)  # with the next ones

    def read_by(self, agent: AgentId) -> None:
        """It has taken letters."""
        if member := self.member_of(agent):
            self.behind(member.team, member.name)

    def behind(self, team: str, *names: str) -> None:
        """The copies of these inboxes, or that of the ROSTER, follow when there is time."""
        self._stale.setdefault(team, set()).update(names)
        self._copying.ring()

    async def catch_up(self) -> None:
        """The copies that are behind are written; also at the end, which would leave them so.

        What cannot be written now is tried again with the next change.
        """
        stale, self._stale = self._stale, {}
        for team, names in stale.items():
            inboxes = names - {ROSTER}
            done = ROSTER not in names or await self.copy(self.tables.mirror.write_config, team)
            if not (not inboxes or await self.copy(self.tables.mirror.write_inbox, team, *inboxes)) or not done:
                self._stale.setdefault(team, set()).update(names)

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
