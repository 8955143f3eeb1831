"""Whose task list an agent works on, who leads there, and who is told what. Without a team it is the session's."""

from collections.abc import Callable, Sequence
from typing import Protocol

from teamwright.core.data.letter import Letter
from teamwright.core.data.tasks import Actor, Done, Owner, Task
from teamwright.core.ids import AgentId, SessionId


class TaskScope(Protocol):
    @property
    def guarded(self) -> bool:
        """Must `creating` see every task before it is stored? Only then is a number reserved for it."""
        ...

    def list_of(self, agent: AgentId) -> str:
        """The name of the list that this agent works on now."""
        ...

    def actor(self, agent: AgentId) -> Actor:
        """The agent under the name that it has in its list."""
        ...

    def find(self, agent: AgentId, name: str) -> Owner | None:
        """Whom the agent means by a name or an id."""
        ...

    def names(self, agent: AgentId) -> Sequence[str]:
        """Those who can own a task of its list."""
        ...

    def letter(self, task: Task, by: Actor) -> Letter | None:
        """What the owner of this task is told; stored with the change itself."""
        ...

    async def assigned(self, task: Task, by: Actor) -> None:
        """The letter is stored: wake its reader."""
        ...

    async def changed(self, list: str, done: Done, by: Actor) -> None:
        """After each stored change, before the files follow. `done.claimable`: ring for everybody."""
        ...

    async def creating(self, task: Task, by: Actor) -> str | None:
        """May it be made? A refusal in words, or None."""
        ...

    async def completing(self, task: Task, by: Actor) -> str | None:
        """May it be completed? A refusal in words, or None."""
        ...


class SessionTaskScope:
    """No team: the list belongs to the session, and the main agent leads. Nobody waits, so nobody is woken."""

    guarded = False

    def __init__(
        self,
        session: SessionId,
        name: Callable[[AgentId], str],
        find: Callable[[str], Owner | None],
        names: Callable[[], Sequence[str]],
    ) -> None:
        self._session, self._name, self._find, self._names = session, name, find, names

    def list_of(self, agent: AgentId) -> str:
        return self._session

    def actor(self, agent: AgentId) -> Actor:
        return Actor(agent, self._name(agent), lead=agent == self._session)

    def find(self, agent: AgentId, name: str) -> Owner | None:
        if name in (agent, self._name(agent)):
            return Owner(self._name(agent), agent)
        main = AgentId(self._session)
        return Owner(self._name(main), main) if name in (main, self._name(main)) else self._find(name)

    def names(self, agent: AgentId) -> Sequence[str]:
        return list(dict.fromkeys([self._name(AgentId(self._session)), *self._names()]))

    def letter(self, task: Task, by: Actor) -> Letter | None:
        return None

    async def assigned(self, task: Task, by: Actor) -> None:
        pass

    async def changed(self, list: str, done: Done, by: Actor) -> None:
        pass

    async def creating(self, task: Task, by: Actor) -> str | None:
        return None

    async def completing(self, task: Task, by: Actor) -> str | None:
        return None
