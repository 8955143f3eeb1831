"""The task list of a team, or of the session where there is none; and who is told of what happens there."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from teamwright.core.data.letter import Letter, Sender, Signal
from teamwright.core.data.tasks import Actor, Done, Owner, Task
from teamwright.core.data.team import iso
from teamwright.core.ids import AgentId, LetterId
from teamwright.runtime.teams.roster import Teams
from teamwright.runtime.teams.task_scope import SessionTaskScope, TaskScope
from teamwright.store.tables.state import now_ms

Check = Callable[[str, Task, Actor], Awaitable[str | None]]  # TaskCreated or TaskCompleted: a refusal in words


class TeamTaskScope(TaskScope):
    def __init__(self, teams: Teams, alone: SessionTaskScope, check: Check | None = None) -> None:
        self._teams = teams
        self._alone = alone
        self._check = check

    @property
    def guarded(self) -> bool:
        return self._check is not None

    def list_of(self, agent: AgentId) -> str:
        return self._teams.team_of(agent) or self._alone.list_of(agent)

    def actor(self, agent: AgentId) -> Actor:
        member = self._teams.member_of(agent)
        if member is None:
            return self._alone.actor(agent)
        return Actor(agent, member.name, lead=member.is_lead)

    def find(self, agent: AgentId, name: str) -> Owner | None:
        team = self._teams.team_of(agent)
        if team is None:
            return self._alone.find(agent, name)
        member = self._teams.find(team, name)
        if member is None or member.state == "shutdown":
            return self._alone.find(agent, name) if self._teams.member_of(agent) is None else None
        return Owner(member.name, member.agent)

    def names(self, agent: AgentId) -> Sequence[str]:
        team = self._teams.team_of(agent)
        return self._alone.names(agent) if team is None else [m.name for m in self._teams.members(team)]

    def letter(self, task: Task, by: Actor) -> Letter | None:
        member = self._teams.member_of(task.agent) if task.agent else None
        if member is None or task.agent is None:
            return None
        said = {
            "type": "task_assignment",
            "taskId": str(task.id),
            "subject": task.subject,
            "description": task.description,
            "assignedBy": by.name,
            "timestamp": iso(now_ms()),
        }
        line = msgspec.json.encode(said).decode()
        id = LetterId(f"a-{member.team}-{task.id}-{task.epoch}-{len(task.former)}")
        return Letter(id, task.agent, Sender("agent", by.name, by.agent), Signal("task_assignment", line))

    async def assigned(self, task: Task, by: Actor) -> None:
        member = self._teams.member_of(task.agent) if task.agent else None
        if member is not None:
            await self._teams.ring(member)

    async def changed(self, list: str, done: Done, by: Actor) -> None:
        if list not in self._teams.names:
            return
        member = self._teams.member_of(by.agent)
        if member is not None and done.claimed:
            self._teams.tell(member, "claim", done.task.subject if done.task else "", task=str(done.id))
        if member is not None and done.completed:
            self._teams.tell(member, "completed", done.task.subject if done.task else "", task=str(done.id))
        if done.claimable:
            await self._teams.ring_all(list)
        self._teams.announce()

    async def creating(self, task: Task, by: Actor) -> str | None:
        return await self._check("TaskCreated", task, by) if self._check else None

    async def completing(self, task: Task, by: Actor) -> str | None:
        return await self._check("TaskCompleted", task, by) if self._check else None
