"""Events of teammates in other processes, read from their transcripts and the store."""

from pathlib import Path

from teamwright.core.data.event import LettersTaken, Record, TeamChanged, ToolEnded, TurnEnded
from teamwright.core.data.tasks import claimed_in
from teamwright.core.data.team import Member, State
from teamwright.core.ids import AgentId
from teamwright.runtime.agents.factory import AgentFactory
from teamwright.runtime.teams.teammates.life import idle_reason
from teamwright.runtime.teams.teammates.state import TeammateDeps
from teamwright.store.files.transcripts import TranscriptTail


class RemoteEvents:
    def __init__(self, deps: TeammateDeps, agents: AgentFactory, *, since: int) -> None:
        """`since` is when this process began: what happened before is not reported."""
        self._tables, self._tasks, self._since = deps.tables, deps.board.table, since
        self._roster, self._supervisor = deps.roster, deps.supervisor
        self._files, self._bus = agents.files_of, agents.bus
        self._begun: set[AgentId] = set()  # those that have read their first letters
        self._tails: dict[AgentId, TranscriptTail] = {}
        self._states: dict[AgentId, State] = {}
        self._ends: dict[AgentId, list[tuple[int, TurnEnded]]] = {}  # ended turns not yet reported, with their times
        self._mail: dict[str, int] = {}
        agents.bus.tap(self._heard)

    def _heard(self, record: Record) -> None:
        if isinstance(record.event, TeamChanged) and record.event.kind == "died":
            self._states[record.agent] = "idle"  # of which nobody is told: the next news of it is that it works again

    async def look(self) -> None:
        """Report members in other processes. Agents of this process report themselves; only the lead's process shows
        others."""
        for team in self._roster.led_here():
            for member in [m for m in self._roster.everybody(team) if not m.is_lead]:
                if self._supervisor.agent(member.agent) is None and member.backend != "in-process":
                    self.meet(member)
                    await self._tell_events(member)
                    await self._tell_states(member)
            await self._tell_mail(team)

    def meet(self, member: Member) -> None:
        """A member from before this process: its past is in its transcript, so start at the end of that."""
        if member.backend == "in-process" or member.agent in self._tails or member.joined_at >= self._since:
            return
        path = self._files(member.agent).agent(member.agent)
        lines = path.read_bytes().count(b"\n") if path.is_file() else 0
        self._bus.first.setdefault(member.agent, lines)
        self._tails[member.agent] = TranscriptTail(path, self._bus.agents.setdefault(member.agent, lines))
        self._states[member.agent] = member.state
        self._begun.add(member.agent)

    async def _tell_events(self, member: Member) -> None:
        path = self._files(member.agent).agent(member.agent)
        if not path.is_file():
            return
        for n, line in self._tail(member.agent, path).read():
            self._bus.publish(Record(member.agent, n, line.at, line.event), elsewhere=True)
            if isinstance(line.event, TurnEnded):
                self._ends.setdefault(member.agent, []).append((line.at, line.event))
            elif isinstance(line.event, LettersTaken):
                await self._tell_claims(member, line.event)
            elif isinstance(line.event, ToolEnded):
                self._tell_change(member, line.event.data)

    def _tail(self, agent: AgentId, path: Path) -> TranscriptTail:
        tail = self._tails.get(agent)
        if tail is None or tail.path != path:  # once its team was taken over, the file is found in its own session
            tail = self._tails[agent] = TranscriptTail(path, tail.lines if tail else 0)
        return tail

    async def _tell_claims(self, member: Member, taken: LettersTaken) -> None:
        """Report the tasks that its process claimed for it. What it reads first was claimed, and reported, here."""
        if member.agent not in self._begun:
            self._begun.add(member.agent)
            return
        for letter in taken.letters:
            id = claimed_in(member.team, letter)
            task = await self._tasks.get(member.team, id) if id is not None else None
            if task is not None:
                self._roster.tell(member, "claim", task.subject, task=str(task.id))

    def _tell_change(self, member: Member, data: object) -> None:
        """Report what a call of it did to a task."""
        match data:
            case {"statusChange": {"to": str(to)}, "task": {"id": str(id), "subject": str(subject)}}:
                self._roster.tell(member, "completed" if to == "completed" else "claim", subject, task=id)
            case _:
                pass

    async def _tell_states(self, member: Member) -> None:
        """Report its states since the last look, from the turns that have ended and its state now."""
        ends = self._ends.pop(member.agent, [])
        if ends:  # the roster may be older than these
            member = await self._tables.teams.member(member.agent, member.team) or member
            if member.state == "running" and member.since < ends[-1][0]:  # the end of that turn is not stored yet
                self._ends[member.agent] = [ends.pop()]
        state = self._states.get(member.agent, "created")
        for _, end in ends:
            if state == "idle":
                self._roster.tell(member, "wake")
            self._roster.tell(member, "idle", idle_reason(end))
            state = "idle"
        if member.state != state:
            if member.state == "shutdown":
                self._roster.tell(member, "shutdown")
            elif member.state == "running" and state == "idle":  # it is never idle without the end of a turn
                self._roster.tell(member, "wake")
        self._states[member.agent] = member.state

    async def _tell_mail(self, team: str) -> None:
        known = {m.agent: m for m in self._roster.members(team)}
        for entry in await self._tables.mail.audit(team, since=self._mail.get(team, 0)):
            self._mail[team] = entry.n
            sender = known.get(entry.sender) if entry.sender else None
            elsewhere = sender is not None and self._supervisor.agent(sender.agent) is None
            told = entry.summary and entry.state != "refused" and entry.sent_at >= self._since
            if sender is not None and elsewhere and told:
                to = f"{entry.to_name}@{team}"
                self._roster.tell(sender, "message", entry.summary, to=to, message=entry.text)
