"""Scope of a session's task list, for agents that are in no team."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from teamwright.core.data.tasks import Actor, Done, Owner, Task
from teamwright.core.ids import AgentId, SessionId

if TYPE_CHECKING:
    from teamwright.runtime.extensions.hook_services import TeamHooks
    from teamwright.runtime.services import Services


class SessionTaskScope:
    """The list belongs to the session, and the main agent leads. Nobody waits, so nobody is woken."""

    def __init__(self, session: SessionId, services: "Services", hooks: "TeamHooks | None" = None) -> None:
        """`hooks` may refuse a task or its end."""
        self._session, self._services, self._hooks = session, services, hooks

    @property
    def guarded(self) -> bool:
        return self._hooks is not None

    def list_of(self, agent: AgentId) -> str:
        return self._session

    def actor(self, agent: AgentId) -> Actor:
        return Actor(agent, self._name(agent), lead=agent == self._session)

    def find(self, agent: AgentId, name: str) -> Owner | None:
        if name in (agent, self._name(agent)):
            return Owner(self._name(agent), agent)
        main = AgentId(self._session)
        return Owner(self._name(main), main) if name in (main, self._name(main)) else self._started(name)

    def names(self, agent: AgentId) -> Sequence[str]:
        """Agents that share a name are listed by id."""
        spawner = self._services.spawner
        started = [each.name if spawner.find(each.name) == each else each.id for each in spawner.known.values()]
        return list(dict.fromkeys([self._name(AgentId(self._session)), *started]))

    def _name(self, agent: AgentId) -> str:
        living = self._services.supervisor.agent(agent)
        return living.name if living else agent

    def _started(self, name: str) -> Owner | None:
        known = self._services.spawner.find(name)
        return Owner(known.name, known.id) if known else None

    async def assigned(self, task: Task, by: Actor) -> None:
        pass

    async def changed(self, list: str, done: Done, by: Actor) -> None:
        pass

    async def creating(self, task: Task, by: Actor) -> str | None:
        return None if self._hooks is None else await self._hooks.check("TaskCreated", task, by, None)

    async def completing(self, task: Task, by: Actor) -> str | None:
        return None if self._hooks is None else await self._hooks.check("TaskCompleted", task, by, None)
