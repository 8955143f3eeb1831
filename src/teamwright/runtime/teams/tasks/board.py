"""Changes task lists, then notifies owners, wakes waiting teammates and rewrites the mirrors."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from teamwright.core.data.tasks import Actor, Change, Done, Draft, Owner, Refusal, Task, TaskId
from teamwright.core.errors import StoreError, ToolError
from teamwright.core.ids import AgentId, CallId
from teamwright.runtime.concurrency.unbroken import following, unbroken
from teamwright.store.mirrors.task import TaskMirror
from teamwright.store.tables.tasks import Listing, TaskTable

if TYPE_CHECKING:
    from teamwright.runtime.teams.deps import TeammateControl
    from teamwright.runtime.teams.tasks.scope import TaskScope


class TaskBoard:
    def __init__(
        self,
        table: TaskTable,
        mirror: TaskMirror,
        scope: "TaskScope",
        report: Callable[[str], None],
        control: "TeammateControl | None" = None,
    ) -> None:
        """`report` tells a person if the files could not follow the store."""
        self.table, self.mirror, self.scope = table, mirror, scope
        self._report, self._control = report, control

    def shared(self, scope: "TaskScope", control: "TeammateControl") -> "TaskBoard":
        """The same lists, also for an agent's team."""
        return TaskBoard(self.table, self.mirror, scope, self._report, control)

    # --- requests by agents

    async def create(
        self,
        agent: AgentId,
        draft: Draft,
        call: CallId | None = None,
        *,
        list: str | None = None,
        owner: Owner | None = None,
    ) -> Done | Refusal:
        """Create a task on `list`, or on the list that the agent works on now."""
        list, by = list or self.scope.list_of(agent), self.scope.actor(agent)
        id = None
        if self.scope.guarded:
            id = await self.table.reserve(list)
            task = Task(id, draft.subject, draft.description, active_form=draft.active_form, metadata=draft.metadata)
            if words := await self.scope.creating(task, by):
                raise ToolError(f"The task was not made: {words}")
        done = await unbroken(self.table.create(list, draft, by, call, id=id, owner=owner))
        return await self._follow(list, by, done)

    async def update(self, agent: AgentId, id: TaskId, ask: Change, call: CallId | None = None) -> Done | Refusal:
        list, by = self.scope.list_of(agent), self.scope.actor(agent)
        if ask.status == "completed" and self.scope.guarded:
            task = await self.table.get(list, id)
            if task and task.status != "completed" and (words := await self.scope.completing(task, by)):
                raise ToolError(f"#{id} is not completed: {words}")
        done = await unbroken(self.table.update(list, id, ask, by, call))
        return await self._follow(list, by, done)

    async def get(self, agent: AgentId, id: TaskId) -> Task | None:
        return await self.table.get(self.scope.list_of(agent), id)

    async def listing(self, agent: AgentId) -> Listing:
        listing = await self.table.list(self.scope.list_of(agent))
        for problem in listing.problems:
            self._report(problem)
        return listing

    # --- changes by the runtime itself

    async def claim_first(self, list: str, by: Actor, *, kept: bool = False) -> Task | None:
        """Claim a task for an agent with nothing else to do or, with `kept`, for one that has just joined. A letter
        tells it."""
        done = await unbroken(self.table.claim_first(list, by, kept=kept))
        if done is None:
            return None
        await self._follow(list, by, done)
        return done.task

    async def release_all(
        self, list: str, gone: AgentId, by: Actor, why: str = "", *, always: bool = False
    ) -> list[Task]:
        """The owner is gone: give its open tasks back to the list. With `why` the lead is told, as the table says."""
        freed = await self.table.release_all(list, gone, why, always=always)
        for done in freed:
            await self._follow(list, by, done)
        return [done.task for done in freed if done.task is not None]

    async def take_over(self, source: str, into: str) -> bool:
        """Give a new team the tasks of its session. False: the team has tasks of its own, and keeps them."""
        moved = await self.table.adopt(source, into)
        with self._reported():
            if moved:
                await self.mirror.remove(source)
        for note in await self.rebuild(into):
            self._report(note)
        return moved

    async def drop(self, list: str) -> None:
        """Remove a list along with its team."""
        await self.table.drop(list)
        with self._reported():
            await self.mirror.remove(list)

    async def rebuild(self, name: str) -> list[str]:
        """At a start: write the files from the store. Returns what a person should know of others' changes there."""
        with self._reported():
            return await self.mirror.rebuild(name)
        return []

    # --- follow-ups

    async def _follow(self, list: str, by: Actor, done: Done | Refusal) -> Done | Refusal:
        """Runs to its end even if the caller is cancelled: the change is stored. A repeated call notifies nobody."""
        if isinstance(done, Refusal):
            return done
        with following():
            if done.completed and done.task is not None and self._control is not None:
                self._control.finished(by.agent, done.task)
            if not done.repeated:
                for task in done.to_tell(by):
                    await self.scope.assigned(task, by)
                await self.scope.changed(list, done, by)
            with self._reported():
                await self.mirror.write(list, done.touched or (done.id,))
        return done

    @contextmanager
    def _reported(self) -> Generator[None, None, None]:
        """The files only show the store: if they cannot follow, that is reported, and nothing fails."""
        try:
            yield
        except StoreError as error:
            self._report(f"The files of the task list are behind: {error}")
