"""Shared task lists in `state.db`, each change one transaction across processes."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.tasks import (
    Actor,
    Change,
    Done,
    Draft,
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
)
from teamwright.core.data.team import Mail
from teamwright.core.ids import AgentId, CallId
from teamwright.store.db.database import Database
from teamwright.store.db.statements import change, fetch_all, fetch_one
from teamwright.store.tables import task_rows as rows
from teamwright.store.tables.jobs import insert_letter
from teamwright.store.tables.mail_insert import LIMITS, MailLimits, post
from teamwright.store.tables.rounds import count_handed, note_team_progress, rounds_spent
from teamwright.store.tables.state import now_ms
from teamwright.store.tables.task_changes import (
    LetterFor,
    apply,
    delete,
    edges_of,
    ends_of,
    find_free,
    find_repeated,
    find_task,
    next_id,
    post_letters,
    record_call,
    refuse_new,
    refuse_waits,
    with_edges,
    with_words,
)


class Listing(Struct, frozen=True):
    """A list as it is now. `next` is the number that the next task will have."""

    tasks: tuple[Task, ...]
    problems: tuple[str, ...] = ()  # rows that are no tasks: skipped
    next: int = 1


class TaskTable:
    """One for a process: it knows under which epoch the agents here made their claims."""

    def __init__(self, database: Database, now: Callable[[], int] = now_ms, limits: MailLimits = LIMITS) -> None:
        self._db = database
        self._now, self._each = now, limits.answers
        self._held: dict[tuple[str, TaskId, AgentId], int] = {}

    # --- reading

    async def get(self, list: str, id: TaskId) -> Task | None:
        def work(db: sqlite3.Connection) -> Task | None:
            found = find_task(db, list, id)
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

    async def has_claimable(self, list: str, by: Iterable[Actor]) -> bool:
        """Could one of these be handed a task now?"""

        def work(db: sqlite3.Connection) -> bool:
            n = rows.list_number(db, list)
            if n is None or rounds_spent(db, list, self._each):
                return False
            return any(find_free(db, n, actor) is not None for actor in by)

        return await self._db.read(work)

    # --- changing tasks

    async def begin(self, list: str, origin: str) -> None:
        """An empty list; one that there is stays as it is."""
        await self._db.write(partial(rows.make_list, name=list, origin=origin))

    async def reserve(self, list: str) -> TaskId:
        """A number for a task that may be made."""

        def work(db: sqlite3.Connection) -> TaskId:
            return next_id(db, rows.make_list(db, list))

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
            if (before := find_repeated(db, by.agent, call)) is not None:
                return before
            n = rows.make_list(db, list)
            (count, following) = db.execute("SELECT count, next FROM task_lists WHERE n = ?", (n,)).fetchone()
            own = TaskId(following) if id is None else id
            edges = edges_of(own, draft.blocked_by, draft.blocks)
            refusal = refuse_new(db, n, own, edges, count) or refuse_waits(db, n, edges, by, own=own)
            if refusal is not None:
                return refusal
            if id is None:
                next_id(db, n)
            rows.insert(db, n, own, draft, by, now)
            note_team_progress(db, list)
            rows.connect(db, n, edges)
            others = ends_of(edges) - {own}
            rows.stamp(db, n, others, now)
            record_call(db, n, by.agent, call, own, f"Task #{own} had been created before the program ended.")
            done = Done(own, rows.load_good(db, n, own), None, (own, *sorted(others)))
            if owner is not None and done.task is not None:
                given = apply(db, n, done.task, Hold("pending", owner.name, owner.agent), now, by=by)
                done = replace(done, task=given.task)
                post_letters(db, list, done, by, letter, self._each)
            return done

        return await self._db.write(work)

    async def update(
        self, list: str, id: TaskId, ask: Change, by: Actor, call: CallId | None = None, letter: LetterFor | None = None
    ) -> Done | Refusal:
        """All of the change or nothing. The same call again changes nothing more."""
        now, held = self._now(), self._held.get((list, id, by.agent))

        def work(db: sqlite3.Connection) -> Done | Refusal:
            if (before := find_repeated(db, by.agent, call)) is not None:
                return before
            if (found := find_task(db, list, id)) is None:
                return not_found(id)
            n, task = found
            edges = edges_of(id, ask.add_blocked_by, ask.add_blocks)
            refusal = (
                refuse_edges(edges, rows.existing(db, n, ends_of(edges)), partial(rows.blocked, db, n))
                or refuse_waits(db, n, edges, by, own=id, held=held)
                or refuse_size(with_words(task, ask).metadata)
            )
            if refusal is not None:
                return refusal
            hold = decide(with_edges(db, n, task, ask), ask, by, held)
            if isinstance(hold, Refusal):
                return hold
            deleted = ask.status == "deleted"
            done = delete(db, n, task, now) if deleted else apply(db, n, task, hold, now, ask, edges, by)
            post_letters(db, list, done, by, letter, self._each)
            what = "deleted" if done.task is None else "changed"
            record_call(db, n, by.agent, call, id, f"Task #{id} had been {what} before the program ended.")
            return done

        done = await self._db.write(work)
        self._remember(list, done, by)
        return done

    async def claim(self, list: str, id: TaskId, by: Actor) -> Done | Refusal:
        """Owner and `in_progress` in one step."""
        return await self.update(list, id, Change(owner=Owner(by.name, by.agent)), by)

    async def claim_first(
        self, list: str, by: Actor, letter: LetterFor | None = None, *, kept: bool = False
    ) -> Done | None:
        """The first task that is pending, kept for it or nobody's, and waits for nothing; None if there is none.

        One that it gave back is none; with `kept` neither is one that is nobody's. `letter` is stored with the claim,
        so the new owner is sure to be told.
        """
        now = self._now()

        def work(db: sqlite3.Connection) -> Done | None:
            n = rows.list_number(db, list)
            task = None if n is None else find_free(db, n, by, kept=kept)
            if n is None or task is None or rounds_spent(db, list, self._each):
                return None
            done = apply(db, n, task, Hold("in_progress", by.name, by.agent), now)
            count_handed(db, list)
            if letter is not None and done.task is not None and (found := letter(done.task)) is not None:
                insert_letter(db, found)
            return done

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
            freed = [apply(db, n, task, Hold("pending"), now) for task in owned if n is not None]
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
