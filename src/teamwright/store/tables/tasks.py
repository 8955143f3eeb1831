"""Shared task lists in `state.db`. Each change is one transaction across processes."""

import sqlite3
from collections.abc import Iterable, Sequence

from msgspec import Struct

from teamwright.core.data.tasks import Actor, Change, Done, Draft, Owner, Refusal, Task, TaskId, owns
from teamwright.core.ids import AgentId, CallId
from teamwright.store.acts.tasks import (
    AdoptList,
    BeginList,
    ClaimFirst,
    CreateTask,
    DropList,
    ReleaseTasks,
    ReserveTask,
    UpdateTask,
)
from teamwright.store.db.database import Database
from teamwright.store.db.statements import fetch_all, fetch_one
from teamwright.store.tables.mail_insert import LIMITS, MailLimits
from teamwright.store.tables.rounds import rounds_spent
from teamwright.store.tables.rows import tasks as rows
from teamwright.store.tables.task_changes import find_free, find_task


class Listing(Struct, frozen=True):
    """A list as it is now. `next` is the number of the next task."""

    tasks: tuple[Task, ...]
    problems: tuple[str, ...] = ()  # about rows that are no tasks, which are skipped
    next: int = 1


class TaskTable:
    """One per process: it remembers the epochs of the claims that agents made here."""

    def __init__(self, database: Database, limits: MailLimits = LIMITS) -> None:
        self._db = database
        self._each = limits.answers
        self._held: dict[tuple[str, TaskId, AgentId], int] = {}

    # --- reading

    async def get(self, list: str, id: TaskId) -> Task | None:
        def work(db: sqlite3.Connection) -> Task | None:
            found = find_task(db, list, id)
            return found and found[1]

        return await self._db.read(work)

    async def some(self, list: str, ids: Sequence[TaskId]) -> dict[TaskId, Task | None]:
        """Tasks as they are now; None for one that is gone."""

        def work(db: sqlite3.Connection) -> dict[TaskId, Task | None]:
            n = rows.list_number(db, list)
            return {id: None if n is None else rows.load_good(db, n, id) for id in ids}

        return await self._db.read(work)

    async def list(self, name: str) -> Listing:
        def work(db: sqlite3.Connection) -> Listing:
            found = db.execute("SELECT n, next FROM task_lists WHERE name = ?", (name,)).fetchone()
            if found is None:
                return Listing(())
            every = rows.load_all(db, found[0])
            broken = [task for task in every if isinstance(task, rows.Broken)]
            problems = tuple(f"task #{b.id} of {name} cannot be read and is left out: {b.fault}" for b in broken)
            return Listing(tuple(task for task in every if isinstance(task, Task)), problems, found[1])

        return await self._db.read(work)

    async def lists(self, origin: str | None = None) -> "list[str]":
        """The names of all lists, or of those that a session began, newest last."""
        sql = "SELECT name FROM task_lists WHERE :origin IS NULL OR origin = :origin ORDER BY n"
        found = await self._db.read(fetch_all(sql, {"origin": origin}))
        return [name for (name,) in found]

    async def applied(self, agent: AgentId, call: CallId) -> str | None:
        """What a call in flight at a crash had done; None if it had changed nothing."""
        sql = "SELECT result FROM task_calls WHERE agent = ? AND call = ?"
        row = await self._db.read(fetch_one(sql, (agent, call)))
        return row[0] if row else None

    async def has_claimable(self, list: str, by: Iterable[Actor]) -> bool:
        """Whether one of these could be handed a task now."""

        def work(db: sqlite3.Connection) -> bool:
            n = rows.list_number(db, list)
            if n is None or rounds_spent(db, list, self._each):
                return False
            return any(find_free(db, n, actor) is not None for actor in by)

        return await self._db.read(work)

    # --- changing tasks

    async def begin(self, list: str, origin: str) -> None:
        """Begin an empty list. An existing one stays as it is."""
        await self._db.write(BeginList(list, origin))

    async def reserve(self, list: str) -> TaskId:
        """Reserve a number for a task that may be made."""
        return await self._db.write(ReserveTask(list))

    async def create(
        self,
        list: str,
        draft: Draft,
        by: Actor,
        call: CallId | None = None,
        *,
        id: TaskId | None = None,
        owner: Owner | None = None,
    ) -> Done | Refusal:
        """Create a task; `id` was reserved before. The same call again returns the same task. With an owner nobody else
        can claim it.

        An owner that is a member of the list's team is told by a letter, in the same transaction.
        """
        return await self._db.write(CreateTask(list, draft, by, call, id, owner, self._each))

    async def update(self, list: str, id: TaskId, ask: Change, by: Actor, call: CallId | None = None) -> Done | Refusal:
        """Change a task, all or nothing. The same call again changes nothing more. Owners are told as by `create`."""
        held = self._held.get((list, id, by.agent))
        done = await self._db.write(UpdateTask(list, id, ask, by, call, held, self._each))
        self._remember(list, done, by)
        return done

    async def claim(self, list: str, id: TaskId, by: Actor) -> Done | Refusal:
        """Set owner and `in_progress` in one step."""
        return await self.update(list, id, Change(owner=Owner(by.name, by.agent)), by)

    async def claim_first(self, list: str, by: Actor, *, kept: bool = False) -> Done | None:
        """Claim the first task that is pending, kept for this agent or nobody's, and waits for nothing; None if there
        is none.

        Tasks that the agent gave back are left out; with `kept`, so are those that are nobody's. The letter about it is
        stored with the claim, so a member of the team is sure to be told.
        """
        if self._db.is_replica and await self._first_free(list, by, kept=kept) is None:
            return None  # idle agents ask after every change, and asking must not be another one
        done = await self._db.write(ClaimFirst(list, by, kept, self._each))
        if done is not None:
            self._remember(list, done, by)
        return done

    async def held_up(self, list: str, by: Actor) -> tuple[TaskId, ...]:
        """The open tasks of an agent, if all of them wait for others and there is none that it could take."""
        own = [task for task in (await self.list(list)).tasks if task.status != "completed" and owns(task, by)]
        if not all(task.blocked_by for task in own) or await self.first_free(list, by) is not None:
            return ()
        return tuple(task.id for task in own)

    async def first_free(self, list: str, by: Actor) -> Task | None:
        """The task that `claim_first` would take now. Another agent may be quicker."""
        return await self._first_free(list, by, kept=False)

    async def _first_free(self, list: str, by: Actor, *, kept: bool) -> Task | None:
        def work(db: sqlite3.Connection) -> Task | None:
            n = rows.list_number(db, list)
            return None if n is None or rounds_spent(db, list, self._each) else find_free(db, n, by, kept=kept)

        return await self._db.read(work)

    async def release_all(self, list: str, agent: AgentId, why: str = "", *, always: bool = False) -> "list[Done]":
        """Set everything open that this incarnation owns back to pending; unread letters about its claims are taken
        back.

        With `why` the lead of the team hears of the tasks in the same transaction; `always`: even if there were none.
        """
        return await self._db.write(ReleaseTasks(list, agent, why, always))

    def _remember(self, list: str, done: Done | Refusal, by: Actor) -> None:
        if isinstance(done, Refusal) or done.repeated:
            return
        if done.task is not None and done.task.agent == by.agent:
            self._held[list, done.id, by.agent] = done.task.epoch
        else:
            self._held.pop((list, done.id, by.agent), None)

    # --- changing lists

    async def adopt(self, source: str, into: str) -> bool:
        """Give a team the list of its session, numbers and all. False: the team already has tasks of its own."""
        return await self._db.write(AdoptList(source, into))

    async def drop(self, list: str) -> bool:
        """Delete a list with all its tasks. False if there was none."""
        return await self._db.write(DropList(list))
