"""What teammates in other processes do, as watchers here see it: read from their transcripts and the store."""

from collections.abc import Callable

from teamwright.core.event import Record, TurnEnded
from teamwright.core.ids import AgentId
from teamwright.core.team import Member, State
from teamwright.runtime.bus import Bus
from teamwright.runtime.resident import idle_reason
from teamwright.runtime.teams import Teams
from teamwright.store import transcripts
from teamwright.store.paths import SessionFiles


class Follower:
    def __init__(self, teams: Teams, files: Callable[[AgentId], SessionFiles], bus: Bus, *, since: int) -> None:
        """What lies before `since`, when this process began, is no news."""
        self._teams, self._files, self._bus, self._since = teams, files, bus, since
        self._lines: dict[AgentId, int] = {}
        self._states: dict[AgentId, State] = {}
        self._ends: dict[AgentId, TurnEnded] = {}
        self._mail: dict[str, int] = {}

    async def look(self) -> None:
        """Whoever lives here tells of itself; only the lead's process shows the others."""
        for team in self._teams.led_here():
            for member in [m for m in self._teams.everybody(team) if not m.is_lead]:
                if self._teams.supervisor.agent(member.agent) is None and member.backend != "in-process":
                    self._meet(member)
                    await self._tell_state(member, ended=self._tell_events(member))
            await self._tell_mail(team)

    def _meet(self, member: Member) -> None:
        """One that was there before this process: whoever wants its past reads its transcript."""
        if member.agent in self._lines or member.joined_at >= self._since:
            return
        path = self._files(member.agent).agent(member.agent)
        lines = path.read_bytes().count(b"\n") if path.is_file() else 0
        self._lines[member.agent] = self._bus.agents.setdefault(member.agent, lines)
        self._states[member.agent] = member.state

    def _tell_events(self, member: Member) -> bool:
        """Has a turn of it ended since the last look?"""
        path, ended = self._files(member.agent).agent(member.agent), False
        if not path.is_file():
            return False
        for n, line in transcripts.read(path, self._lines.get(member.agent, 0)):
            self._lines[member.agent] = n
            self._bus.publish(Record(member.agent, n, line.at, line.event))
            if isinstance(line.event, TurnEnded):
                self._ends[member.agent], ended = line.event, True
        return ended

    async def _tell_state(self, member: Member, *, ended: bool) -> None:
        if ended and member.state == "idle":  # before that turn, or after it?
            member = await self._teams.tables.teams.member(member.agent, member.team) or member
        before = self._states.get(member.agent, "created")
        self._states[member.agent] = member.state
        again = ended and member.state == before == "idle"  # it woke and rested between two looks
        if member.state == before and not again:
            return
        if again or (before == "idle" and member.state == "running"):
            self._teams.tell(member, "wake")
        if member.state == "idle":
            end = self._ends.get(member.agent)
            self._teams.tell(member, "idle", idle_reason(end) if end is not None else "")
        elif member.state == "shutdown":
            self._teams.tell(member, "shutdown")

    async def _tell_mail(self, team: str) -> None:
        known = {m.agent: m for m in self._teams.members(team)}
        for entry in await self._teams.tables.mail.audit(team, since=self._mail.get(team, 0)):
            self._mail[team] = entry.n
            sender = known.get(entry.sender) if entry.sender else None
            elsewhere = sender is not None and self._teams.supervisor.agent(sender.agent) is None
            told = entry.summary and entry.state != "refused" and entry.sent_at >= self._since
            if sender is not None and elsewhere and told:
                self._teams.tell(sender, "message", entry.summary, to=f"{entry.to_name}@{team}")
