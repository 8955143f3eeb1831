"""Scope of an agent's task list: its team's, with the lead and the members to notify, or the session's."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from teamwright.core.data.tasks import Actor, Done, Owner, Task
from teamwright.core.ids import AgentId

if TYPE_CHECKING:
    from teamwright.runtime.extensions.hook_services import TeamHooks
    from teamwright.runtime.teams.roster import Roster
    from teamwright.runtime.teams.wakeups import Wakeups


class TaskScope(Protocol):
    @property
    def guarded(self) -> bool:
        """Whether `creating` must see every task before it is stored. Only then is a number reserved for it."""
        ...

    def list_of(self, agent: AgentId) -> str:
        """The name of the list that this agent works on now."""
        ...

    def actor(self, agent: AgentId) -> Actor:
        """The agent, under its name in the list."""
        ...

    def find(self, agent: AgentId, name: str) -> Owner | None:
        """The owner that the agent means by a name or an id."""
        ...

    def names(self, agent: AgentId) -> Sequence[str]:
        """Who can own a task of the agent's list."""
        ...

    async def assigned(self, task: Task, by: Actor) -> None:
        """Wake the reader of a letter that is stored."""
        ...

    async def changed(self, list: str, done: Done, by: Actor) -> None:
        """Called after each stored change, before the files follow. `done.claimable`: ring for everybody."""
        ...

    async def creating(self, task: Task, by: Actor) -> str | None:
        """Why the task may not be made, or None."""
        ...

    async def completing(self, task: Task, by: Actor) -> str | None:
        """Why the task may not be completed, or None."""
        ...


class TeamTaskScope(TaskScope):
    """The list of a team, or of the session for agents without a team."""

    def __init__(
        self, roster: "Roster", wakeups: "Wakeups", alone: TaskScope, hooks: "TeamHooks | None" = None
    ) -> None:
        """`hooks` may refuse a task or its end."""
        self._roster, self._wakeups, self._alone, self._hooks = roster, wakeups, alone, hooks

    @property
    def guarded(self) -> bool:
        return self._hooks is not None

    def list_of(self, agent: AgentId) -> str:
        return self._roster.team_of(agent) or self._alone.list_of(agent)

    def actor(self, agent: AgentId) -> Actor:
        member = self._roster.member_of(agent)
        if member is None:
            return self._alone.actor(agent)
        return Actor(agent, member.name, lead=member.is_lead)

    def find(self, agent: AgentId, name: str) -> Owner | None:
        team = self._roster.team_of(agent)
        if team is None:
            return self._alone.find(agent, name)
        member = self._roster.find(team, name)
        if member is None or member.state == "shutdown":
            return self._alone.find(agent, name) if self._roster.member_of(agent) is None else None
        return Owner(member.name, member.agent)

    def names(self, agent: AgentId) -> Sequence[str]:
        team = self._roster.team_of(agent)
        return self._alone.names(agent) if team is None else [m.name for m in self._roster.members(team)]

    async def assigned(self, task: Task, by: Actor) -> None:
        member = self._roster.member_of(task.agent) if task.agent else None
        if member is not None:
            await self._wakeups.ring(member)

    async def changed(self, list: str, done: Done, by: Actor) -> None:
        if list not in self._roster.names:
            return
        member = self._roster.member_of(by.agent)
        if member is not None and done.claimed:
            self._roster.tell(member, "claim", done.task.subject if done.task else "", task=str(done.id))
        if member is not None and done.completed:
            self._roster.tell(member, "completed", done.task.subject if done.task else "", task=str(done.id))
        if done.claimable:
            await self._wakeups.ring_all(list)
        for waits in [mate for mate in self._roster.mates(list) if mate.state == "created"]:
            await self._wakeups.ring(waits)  # its tasks may not wait for others any more
        self._roster.announce()

    async def creating(self, task: Task, by: Actor) -> str | None:
        return await self._check("TaskCreated", task, by)

    async def completing(self, task: Task, by: Actor) -> str | None:
        return await self._check("TaskCompleted", task, by)

    async def _check(self, event: str, task: Task, by: Actor) -> str | None:
        if self._hooks is None:
            return None
        return await self._hooks.check(event, task, by, self._roster.team_of(by.agent))
