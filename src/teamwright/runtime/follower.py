"""What teammates in other processes do, as watchers here see it: read from their transcripts and the store."""

from collections.abc import Callable

from teamwright.core.event import Record
from teamwright.core.ids import AgentId
from teamwright.core.team import Member, State
from teamwright.runtime.teams import Teams
from teamwright.store import transcripts
from teamwright.store.paths import SessionFiles


class Follower:
    def __init__(
        self, teams: Teams, files: Callable[[AgentId], SessionFiles], publish: Callable[[Record], None]
    ) -> None:
        self._teams, self._files, self._publish = teams, files, publish
        self._lines: dict[AgentId, int] = {}
        self._states: dict[AgentId, State] = {}
        self._mail: dict[str, int] = {}

    async def look(self) -> None:
        """Whoever lives here tells of itself; only the lead's process shows the others."""
        for team in self._teams.led_here():
            for member in [m for m in self._teams.everybody(team) if not m.is_lead]:
                if self._teams.supervisor.agent(member.agent) is None and member.backend != "in-process":
                    self._tell_events(member)
                    self._tell_state(member)
            await self._tell_mail(team)

    def _tell_events(self, member: Member) -> None:
        path = self._files(member.agent).agent(member.agent)
        if not path.is_file():
            return
        for n, line in transcripts.read(path, self._lines.get(member.agent, 0)):
            self._lines[member.agent] = n
            self._publish(Record(member.agent, n, line.at, line.event))

    def _tell_state(self, member: Member) -> None:
        before = self._states.get(member.agent, "created")
        self._states[member.agent] = member.state
        if member.state == before:
            return
        if member.state == "shutdown":
            self._teams.tell(member, "shutdown")
        elif member.state == "idle":
            self._teams.tell(member, "idle")
        elif before == "idle":
            self._teams.tell(member, "wake")

    async def _tell_mail(self, team: str) -> None:
        known = {m.agent: m for m in self._teams.members(team)}
        for entry in await self._teams.tables.mail.audit(team, since=self._mail.get(team, 0)):
            self._mail[team] = entry.n
            sender = known.get(entry.sender) if entry.sender else None
            elsewhere = sender is not None and self._teams.supervisor.agent(sender.agent) is None
            if sender is not None and elsewhere and entry.summary and entry.state != "refused":
                self._teams.tell(sender, "message", entry.summary, to=f"{entry.to_name}@{team}")
