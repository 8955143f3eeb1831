"""Shared task lists in `state.db`, each change one transaction across processes."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.letter import Letter
from teamwright.core.data.tasks import (
    MOST_TASKS,
    Actor,
    Change,
    Done,
    Draft,
    Edge,
    Hold,
    Owner,
    Refusal,
    Task,
    TaskId,
    claim_id,
    decide,
    not_found,
    refuse_edges,
    refuse_size,
    refuse_wait,
)
from teamwright.core.data.team import Mail
from teamwright.core.ids import AgentId, CallId
from teamwright.store.db.database import Database
from teamwright.store.db.statements import change, fetch_all, fetch_one
from teamwright.store.tables import task_rows as rows
from teamwright.store.tables.jobs import insert_letter
from teamwright.store.tables.mail_insert import LIMITS, post
from teamwright.store.tables.state import now_ms

LetterFor = Callable[[Task], Letter | None]  # what the owner of a task is to be told, in the same transaction


class Listing(Struct, frozen=True):
    """A list as it is now. `next` is the number that the next task will have."""

    tasks: tuple[Task, ...]
    problems: tuple[str, ...] = ()  # rows that are no tasks: skipped
    next: int = 1


class TaskTable:
    """One for a process: it knows under which epoch the agents here made their claims."""

    def __init__(self, database: Database, now: Callable[[], int] = now_ms) -> None:
        self._db = database
        self._now = now
        self._held: dict[tuple[str, TaskId, AgentId], int] = {}

    # --- reading

    async def get(self, list: str, id: TaskId) -> Task | None:
        def work(db: sqlite3.Connection) -> Task | None:
            found = _find(db, list, id)
            return found and found[1]

        return await self._db.read(work)

    async def some(self, list: str, ids: Sequence[TaskId]) -> dict[TaskId, Task | None]:
        """As they are now; None for one that is gone."""

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
        """The names of all lists, or of those that a session began; the newest last."""
        sql = "SELECT name FROM task_lists WHERE :origin IS NULL OR origin = :origin ORDER BY n"
        found = await self._db.read(fetch_all(sql, {"origin": origin}))
        return [name for (name,) in found]

    async def applied(self, agent: AgentId, call: CallId) -> str | None:
        """What a call that was in flight at a crash had done; None if it had changed nothing."""
        sql = "SELECT result FROM task_calls WHERE agent = ? AND call = ?"
        row = await self._db.read(fetch_one(sql, (agent, call)))
        return row[0] if row else None

    async def has_claimable(self, list: str) -> bool:
        sql = f"SELECT 1 FROM tasks JOIN task_lists l ON l.n = list WHERE l.name = ? AND {_FREE} LIMIT 1"  # noqa: S608
        return await self._db.read(fetch_one(sql, (list,))) is not None

    # --- changing tasks

    async def begin(self, list: str, origin: str) -> None:
        """An empty list; one that there is stays as it is."""
        await self._db.write(partial(rows.make_list, name=list, origin=origin))

    async def reserve(self, list: str) -> TaskId:
        """A number for a task that may be made."""

        def work(db: sqlite3.Connection) -> TaskId:
            return _next_id(db, rows.make_list(db, list))

        return await self._db.write(work)

    async def create(
        self,
        list: str,
        draft: Draft,
        by: Actor,
        call: CallId | None = None,
        *,
        id: TaskId | None = None,
        owner: Owner | None = None,
        letter: LetterFor | None = None,
    ) -> Done | Refusal:
        """`id` was reserved before. The same call again gives the same task. With an owner nobody else can claim it."""
        now = self._now()

        def work(db: sqlite3.Connection) -> Done | Refusal:
            if (before := _repeated(db, by.agent, call)) is not None:
                return before
            n = rows.make_list(db, list)
            (count, following) = db.execute("SELECT count, next FROM task_lists WHERE n = ?", (n,)).fetchone()
            own = TaskId(following) if id is None else id
            edges = _edges(own, draft.blocked_by, draft.blocks)
            refusal = _refuse_new(db, n, own, edges, count) or _refuse_waits(db, n, edges, by, own=own)
            if refusal is not None:
                return refusal
            if id is None:
                _next_id(db, n)
            rows.insert(db, n, own, draft, by, now)
            rows.connect(db, n, edges)
            others = _ends(edges) - {own}
            rows.stamp(db, n, others, now)
            _record_call(db, n, by.agent, call, own, f"Task #{own} had been created before the program ended.")
            done = Done(own, rows.load_good(db, n, own), None, (own, *sorted(others)))
            if owner is not None and done.task is not None:
                given = _apply(db, n, done.task, Change(), Hold("pending", owner.name, owner.agent), [], now)
                done = replace(done, task=given.task)
                _post_letters(db, done, by, letter)
            return done

        return await self._db.write(work)

    async def update(
        self, list: str, id: TaskId, ask: Change, by: Actor, call: CallId | None = None, letter: LetterFor | None = None
    ) -> Done | Refusal:
        """All of the change or nothing. The same call again changes nothing more."""
        now, held = self._now(), self._held.get((list, id, by.agent))

        def work(db: sqlite3.Connection) -> Done | Refusal:
            if (before := _repeated(db, by.agent, call)) is not None:
                return before
            if (found := _find(db, list, id)) is None:
                return not_found(id)
            n, task = found
            edges = _edges(id, ask.add_blocked_by, ask.add_blocks)
            refusal = (
                refuse_edges(edges, rows.existing(db, n, _ends(edges)), partial(rows.blocked, db, n))
                or _refuse_waits(db, n, edges, by, own=id, held=held)
                or refuse_size(_with_words(task, ask).metadata)
            )
            if refusal is not None:
                return refusal
            hold = decide(_with_edges(db, n, task, ask), ask, by, held)
            if isinstance(hold, Refusal):
                return hold
            done = _delete(db, n, task, now) if ask.status == "deleted" else _apply(db, n, task, ask, hold, edges, now)
            _post_letters(db, done, by, letter)
            what = "deleted" if done.task is None else "changed"
            _record_call(db, n, by.agent, call, id, f"Task #{id} had been {what} before the program ended.")
            return done

        done = await self._db.write(work)
        self._remember(list, done, by)
        return done

    async def claim(self, list: str, id: TaskId, by: Actor) -> Done | Refusal:
        """Owner and `in_progress` in one step."""
        return await self.update(list, id, Change(owner=Owner(by.name, by.agent)), by)

    async def claim_first(self, list: str, by: Actor, letter: LetterFor | None = None) -> Done | None:
        """The first task that is pending, nobody's and waits for nothing; None if there is none.

        `letter` is stored with the claim, so the new owner is sure to be told.
        """
        now = self._now()

        def work(db: sqlite3.Connection) -> Done | None:
            if (n := rows.list_number(db, list)) is None:
                return None
            sql = f"SELECT id FROM tasks WHERE list = ? AND {_FREE} ORDER BY id"  # noqa: S608
            for (id,) in db.execute(sql, (n,)):
                if (task := rows.load_good(db, n, id)) is not None:  # a row that cannot be read is passed over
                    done = _apply(db, n, task, Change(), Hold("in_progress", by.name, by.agent), [], now)
                    if letter is not None and done.task is not None and (found := letter(done.task)) is not None:
                        insert_letter(db, found)
                    return done
            return None

        done = await self._db.write(work)
        if done is not None:
            self._remember(list, done, by)
        return done

    async def release_all(
        self, list: str, agent: AgentId, tell: Callable[[Sequence[Task]], Mail | None] | None = None
    ) -> "list[Done]":
        """Everything open that this incarnation owns goes back to pending; what `tell` says of it is stored with it.

        The word about a claim that it has not read yet is taken back.
        """
        now = self._now()

        def work(db: sqlite3.Connection) -> "list[Done]":
            n = rows.list_number(db, list)
            sql = "SELECT id FROM tasks WHERE list = ? AND agent = ? AND status <> 'completed' ORDER BY id"
            ids = [] if n is None else [id for (id,) in db.execute(sql, (n, agent)).fetchall()]
            owned = [task for id in ids if n is not None and (task := rows.load_good(db, n, id)) is not None]
            freed = [_apply(db, n, task, Change(), Hold("pending"), [], now) for task in owned if n is not None]
            unread = "DELETE FROM letters WHERE id = ? AND delivered_at IS NULL"
            db.executemany(unread, [(claim_id(list, task),) for task in owned])
            if tell is not None and (mail := tell(owned)) is not None:
                post(db, mail, LIMITS, now)
            return freed

        return await self._db.write(work)

    def _remember(self, list: str, done: Done | Refusal, by: Actor) -> None:
        if isinstance(done, Refusal) or done.repeated:
            return
        if done.task is not None and done.task.agent == by.agent:
            self._held[list, done.id, by.agent] = done.task.epoch
        else:
            self._held.pop((list, done.id, by.agent), None)

    # --- changing lists

    async def adopt(self, source: str, into: str) -> bool:
        """A team takes over the list of its session, numbers and all. False: the team has tasks of its own already."""

        def work(db: sqlite3.Connection) -> bool:
            sql = "SELECT n, next, session FROM task_lists WHERE name = ?"
            old, new = db.execute(sql, (source,)).fetchone(), db.execute(sql, (into,)).fetchone()
            if new is not None and new[1] > 1:
                return False
            if old is None:
                rows.make_list(db, into, source)
                return True
            db.execute("DELETE FROM task_lists WHERE name = ?", (into,))
            db.execute("UPDATE task_lists SET name = ?, session = NULL WHERE n = ?", (into, old[0]))
            # The session's own list keeps counting: a number never means two tasks.
            sql = "INSERT INTO task_lists (name, session, origin, next) VALUES (?, ?, ?, ?)"
            db.execute(sql, (source, old[2], source, old[1]))
            return True

        return await self._db.write(work)

    async def drop(self, list: str) -> bool:
        """The list with all its tasks. False if there was none."""
        return await self._db.write(change("DELETE FROM task_lists WHERE name = ?", (list,))) > 0


_FREE = "status = 'pending' AND agent IS NULL AND waits = 0"  # as the index `tasks_free` has it


def _find(db: sqlite3.Connection, list: str, id: TaskId) -> tuple[int, Task] | None:
    """The list's number and the task."""
    n = rows.list_number(db, list)
    task = None if n is None else rows.load_good(db, n, id)
    return None if n is None or task is None else (n, task)


def _next_id(db: sqlite3.Connection, n: int) -> TaskId:
    return db.execute("UPDATE task_lists SET next = next + 1 WHERE n = ? RETURNING next - 1", (n,)).fetchone()[0]


def _edges(own: TaskId, before: Iterable[TaskId], after: Iterable[TaskId]) -> list[Edge]:
    return [*((own, later) for later in after), *((earlier, own) for earlier in before)]


def _ends(edges: Iterable[Edge]) -> set[TaskId]:
    return {end for edge in edges for end in edge}


def _repeated(db: sqlite3.Connection, agent: AgentId, call: CallId | None) -> Done | None:
    row = db.execute("SELECT list, task FROM task_calls WHERE agent = ? AND call = ?", (agent, call)).fetchone()
    return None if row is None else Done(row[1], rows.load_good(db, row[0], row[1]), repeated=True)


def _record_call(db: sqlite3.Connection, n: int, agent: AgentId, call: CallId | None, id: TaskId, words: str) -> None:
    if call is not None:
        sql = "INSERT INTO task_calls (agent, call, list, task, result) VALUES (?, ?, ?, ?, ?)"
        db.execute(sql, (agent, call, n, id, words))


def _refuse_new(db: sqlite3.Connection, n: int, own: TaskId, edges: Sequence[Edge], count: int) -> Refusal | None:
    if count >= MOST_TASKS:
        return Refusal("list_full", f"the list has {count} tasks, and no more fit. Delete those that are done.")
    known = rows.existing(db, n, _ends(edges) - {own})
    return refuse_edges(edges, {*known, own}, partial(rows.blocked, db, n))


def _refuse_waits(
    db: sqlite3.Connection, n: int, edges: Sequence[Edge], by: Actor, *, own: TaskId, held: int | None = None
) -> Refusal | None:
    """One of those that would have to wait is another's. `held` is of the task `own` alone."""
    for id in dict.fromkeys(after for _, after in edges):
        task = rows.load_good(db, n, id)
        if task is not None and (refusal := refuse_wait(task, by, held if id == own else None)) is not None:
            return refusal
    return None


def _with_edges(db: sqlite3.Connection, n: int, task: Task, ask: Change) -> Task:
    """As it will be with what it is to wait for."""
    more = [id for id in ask.add_blocked_by if id not in task.blocked_by]
    open_ones = [id for id in more if (other := rows.load_good(db, n, id)) and other.status != "completed"]
    return replace(task, blocked_by=(*task.blocked_by, *open_ones)) if open_ones else task


def _apply(
    db: sqlite3.Connection, n: int, task: Task, ask: Change, hold: Hold, edges: Sequence[Edge], now: int
) -> Done:
    if (worded := _with_words(task, ask)) != task:
        rows.write(db, n, worded)
    rows.give(db, n, task, hold)
    rows.connect(db, n, edges)
    touched = _ends(edges) | {task.id}
    freed: list[TaskId] = []
    if (task.status == "completed") != (hold.status == "completed"):
        freed = rows.count_waits(db, n, task.blocks)
        touched.update(task.blocks)
    rows.stamp(db, n, touched, now)
    loose = tuple(other for id in freed if (other := rows.load_good(db, n, id)))
    return Done(task.id, rows.load_good(db, n, task.id), task, tuple(sorted(touched)), loose)


def _with_words(task: Task, ask: Change) -> Task:
    metadata = dict(task.metadata)
    for key, value in (ask.metadata or {}).items():
        if value is None:
            metadata.pop(key, None)
        else:
            metadata[key] = value
    return replace(
        task,
        subject=task.subject if ask.subject is None else ask.subject,
        description=task.description if ask.description is None else ask.description,
        active_form=task.active_form if ask.active_form is None else ask.active_form,
        metadata=metadata,
    )


def _delete(db: sqlite3.Connection, n: int, task: Task, now: int) -> Done:
    others = {*rows.all_blockers(db, n, task.id), *task.blocks}
    rows.remove(db, n, task.id)
    freed = rows.count_waits(db, n, task.blocks)
    rows.stamp(db, n, others, now)
    loose = tuple(other for id in freed if (other := rows.load_good(db, n, id)))
    return Done(task.id, None, task, (task.id, *sorted(others)), loose)


def _post_letters(db: sqlite3.Connection, done: Done, by: Actor, letter: LetterFor | None) -> None:
    if letter is not None:
        for task in done.to_tell(by):
            if (found := letter(task)) is not None:
                insert_letter(db, found)
