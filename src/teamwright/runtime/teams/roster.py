"""Roster of the teams: a copy of the store for synchronous readers, reloaded after each change."""

import anyio

from teamwright.core.data.event import TeamChanged, TeamKind, Warned
from teamwright.core.data.letter import Letter, has_news
from teamwright.core.data.team import Member, Team, split_address
from teamwright.core.ids import AgentId, SessionId
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.jobs.jobs import Tell
from teamwright.store.tables.teams import TeamTable


class Roster:
    def __init__(self, session: SessionId, table: TeamTable, supervisor: Supervisor, tell: Tell) -> None:
        """`tell` shows an event to watchers of this process."""
        self.session = session
        self._table, self._supervisor, self._tell = table, supervisor, tell
        self._members: dict[str, list[Member]] = {}  # by team
        self._current: dict[AgentId, list[str]] = {}  # teams of an agent, the current one first
        self._epochs: dict[str, int] = {}  # of teams that are led here
        self._noted = 0  # changes made to the copy by hand
        self._news = anyio.Event()

    # --- members

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._members)

    def member_of(self, agent: AgentId) -> Member | None:
        """The agent as a member of its current team."""
        return next(iter(self.memberships(agent)), None)

    def memberships(self, agent: AgentId) -> list[Member]:
        """The agent as a member of each of its teams, the current one first: a lead may have several."""
        found = [self._by_agent(team, agent) for team in self._current.get(agent, [])]
        return [member for member in found if member is not None]

    def member_beside(self, agent: AgentId, other: str) -> Member | None:
        """The agent as a member of the team that has a member `other`; of its current team if none has."""
        mine = self.memberships(agent)
        return next((member for member in mine if self.find(member.team, other)), mine[0] if mine else None)

    def team_of(self, agent: AgentId) -> str | None:
        """The current team of an agent, or of the agent that started it."""
        who: AgentId | None = agent
        while who is not None:
            if teams := self._current.get(who):
                return teams[0]
            living = self._supervisor.agent(who)
            who = living.parent if living is not None else None
        return None

    def color_of(self, agent: AgentId) -> str:
        """The color of a teammate, or of the one that an agent works for. The lead asks for itself and needs none."""
        living = self._supervisor.agent(agent)
        mate = self._supervisor.teammate_of(living) if living else None
        member = self.member_of(mate) if mate else None
        return member.color if member else ""

    def members(self, team: str) -> list[Member]:
        """Members that have not shut down, the lead first."""
        return [m for m in self._members.get(team, []) if m.state != "shutdown"]

    def everybody(self, team: str) -> list[Member]:
        """All members, also those that have shut down."""
        return self._members.get(team, [])

    def mates(self, team: str) -> list[Member]:
        """Members that have not shut down, without the lead."""
        return [m for m in self.members(team) if not m.is_lead]

    def find(self, team: str, name: str) -> Member | None:
        """Find a member by name, address or id, even if it has shut down."""
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

    def is_outdated(self, letter: Letter) -> bool:
        """Whether an idle notice says only that, and its sender is idle no more: it works again, or has shut down."""
        if has_news(letter):
            return False
        idle = {m.agent for team in self._epochs for m in self.members(team) if m.state == "idle"}
        return letter.sender.id is None or letter.sender.id not in idle

    def describe(self, agent: AgentId) -> list[str]:
        """What an agent whose conversation was shortened must still know of its teams."""
        lines: list[str] = []
        for member in self.memberships(agent):
            others = [f"{m.name} ({m.kind}, {m.state})" for m in self.members(member.team) if m.agent != agent]
            lines.append(f"You are {member.name} in the team {member.team}.")
            lines += [f"The others: {', '.join(others)}."] if others else []
        return lines

    # --- teams that are led here

    def led_here(self) -> list[str]:
        return list(self._epochs)

    def leads(self, team: str) -> bool:
        return team in self._epochs

    def epoch(self, team: str) -> int | None:
        return self._epochs.get(team)

    async def lead(self, team: Team) -> None:
        """Lead this team here from now on."""
        self._epochs[team.name] = team.epoch
        await self.refresh(team.name)

    def forget(self, team: str) -> None:
        self._members.pop(team, None)
        self._epochs.pop(team, None)
        for teams in self._current.values():
            if team in teams:
                teams.remove(team)

    # --- the copy of the store

    async def refresh(self, *teams: str) -> None:
        """Reload the roster, and the current team of each member."""
        for name in teams:
            noted, roster = -1, None
            while noted != self._noted:  # what was noted here while the store was read is newer
                noted, roster = self._noted, await self._table.roster(name)
            if roster is None:
                self.forget(name)
                continue
            self._members[name] = roster.members
            for member in roster.members:
                if member.state == "shutdown":
                    self._current.pop(member.agent, None)
                else:
                    # it may have left this very moment
                    self._current[member.agent] = roster.teams.get(member.agent, [])
        self.announce()

    async def refresh_all(self) -> None:
        await self.refresh(*list(self._members))

    def note(self, member: Member) -> None:
        """Take a member's change into the copy; the store has it already, or will at its next read."""
        self._noted += 1
        if (known := self._members.get(member.team)) is not None:
            self._members[member.team] = [member if m.agent == member.agent else m for m in known]
        self.announce()

    # --- news

    def announce(self) -> None:
        """Wake everybody who waits for a change in a team."""
        self._news.set()
        self._news = anyio.Event()

    async def news(self) -> None:
        await self._news.wait()

    def tell(
        self, member: Member, kind: TeamKind, text: str = "", *, to: str = "", task: str = "", message: str = ""
    ) -> None:
        """Show people what a member does."""
        self._tell(member.agent, TeamChanged(member.team, kind, member.address, text, to, task, message))

    def warn(self, agent: AgentId, words: str) -> None:
        self._tell(agent, Warned(words))
