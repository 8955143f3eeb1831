"""Acts on tasks."""

import sqlite3
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.letters.tasks import claim_letter, freed_mail
from teamwright.core.data.tasks import (
    Actor,
    Change,
    Done,
    Draft,
    Hold,
    Owner,
    Refusal,
    TaskId,
    claim_id,
    decide,
    not_found,
    refuse_edges,
    refuse_size,
)
from teamwright.core.data.team import LEAD_NAME
from teamwright.core.ids import AgentId, CallId
from teamwright.core.policies.authority import Demand, demand_actor
from teamwright.store.acts.act import Context
from teamwright.store.tables.mail_insert import LIMITS, post
from teamwright.store.tables.rounds import count_handed, note_team_progress, rounds_spent
from teamwright.store.tables.rows import tasks as rows
from teamwright.store.tables.rows.agents import insert_letter, names_of
from teamwright.store.tables.rows.teams import find_by_name, is_member
from teamwright.store.tables.task_changes import (
    change_task,
    delete_task,
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

_GONE = "{} has shut down"


class ReserveTask(Struct, frozen=True):
    """Reserve a number for a task that may be made."""

    list: str

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand()

    def apply(self, db: sqlite3.Connection, ctx: Context) -> TaskId:
        return next_id(db, rows.make_list(db, self.list))


class CreateTask(Struct, frozen=True):
    """Create a task; `id` was reserved before. The same call again returns the same task. With an owner nobody else can
    claim it."""

    list: str
    draft: Draft
    by: Actor
    call: CallId | None = None
    id: TaskId | None = None
    owner: Owner | None = None
    each: int = LIMITS.answers  # rounds for every member, after which nobody is woken

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand | None:
        return demand_actor(self.by)

    def apply(self, db: sqlite3.Connection, ctx: Context) -> Done | Refusal:
        draft, by = self.draft, self.by
        if (before := find_repeated(db, by.agent, self.call)) is not None:
            return before
        n = rows.make_list(db, self.list)
        (count, following) = db.execute("SELECT count, next FROM task_lists WHERE n = ?", (n,)).fetchone()
        own = TaskId(following) if self.id is None else self.id
        edges = edges_of(own, draft.blocked_by, draft.blocks)
        refusal = refuse_new(db, n, own, edges, count) or refuse_waits(db, n, edges, by, own=own)
        if refusal is not None:
            return refusal
        if self.id is None:
            next_id(db, n)
        rows.insert(db, n, own, draft, by, ctx.now)
        note_team_progress(db, self.list)
        rows.connect(db, n, edges)
        others = ends_of(edges) - {own}
        rows.stamp(db, n, others, ctx.now)
        record_call(db, n, by.agent, self.call, own, f"Task #{own} had been created before the program ended.")
        return self._given(db, n, Done(own, rows.load_good(db, n, own), None, (own, *sorted(others))), ctx)

    def _given(self, db: sqlite3.Connection, n: int, done: Done, ctx: Context) -> Done:
        if self.owner is None or done.task is None:
            return done
        hold = Hold("pending", self.owner.name, self.owner.agent)
        done = replace(done, task=change_task(db, n, done.task, hold, ctx.now, by=self.by).task)
        post_letters(db, self.list, done, self.by, self.each, ctx.now)
        return done


class UpdateTask(Struct, frozen=True):
    """Change a task, all or nothing. The same call again changes nothing more."""

    list: str
    id: TaskId
    ask: Change
    by: Actor
    call: CallId | None = None
    held: int | None = None  # the epoch under which the caller takes itself for the owner
    each: int = LIMITS.answers

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand | None:
        return demand_actor(self.by)

    def apply(self, db: sqlite3.Connection, ctx: Context) -> Done | Refusal:
        id, ask, by = self.id, self.ask, self.by
        if (before := find_repeated(db, by.agent, self.call)) is not None:
            return before
        if (found := find_task(db, self.list, id)) is None:
            return not_found(id)
        n, task = found
        edges = edges_of(id, ask.add_blocked_by, ask.add_blocks)
        refusal = (
            refuse_edges(edges, rows.existing(db, n, ends_of(edges)), partial(rows.blocked, db, n))
            or refuse_waits(db, n, edges, by, own=id, held=self.held)
            or refuse_size(with_words(task, ask).metadata)
        )
        if refusal is not None:
            return refusal
        hold = decide(with_edges(db, n, task, ask), ask, by, self.held)
        if isinstance(hold, Refusal):
            return hold
        if ask.status == "deleted":
            done = delete_task(db, n, task, ctx.now)
        else:
            done = change_task(db, n, task, hold, ctx.now, ask, edges, by)
        post_letters(db, self.list, done, by, self.each, ctx.now)
        what = "deleted" if done.task is None else "changed"
        record_call(db, n, by.agent, self.call, id, f"Task #{id} had been {what} before the program ended.")
        return done


class ClaimFirst(Struct, frozen=True):
    """Claim the first task that is pending, kept for this agent or nobody's, and waits for nothing; None if there is
    none.

    Tasks that the agent gave back are left out; with `kept`, so are those that are nobody's. A letter tells a member of
    the team.
    """

    list: str
    by: Actor
    kept: bool = False
    each: int = LIMITS.answers

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand | None:
        return demand_actor(self.by)

    def apply(self, db: sqlite3.Connection, ctx: Context) -> Done | None:
        list, by = self.list, self.by
        n = rows.list_number(db, list)
        task = None if n is None else find_free(db, n, by, kept=self.kept)
        if n is None or task is None or rounds_spent(db, list, self.each):
            return None
        done = change_task(db, n, task, Hold("in_progress", by.name, by.agent), ctx.now)
        count_handed(db, list)
        if done.task is not None and is_member(db, list, by.agent):
            insert_letter(db, claim_letter(done.task, list, by.agent), ctx.now)
        return done


class ReleaseTasks(Struct, frozen=True):
    """Set everything open that this incarnation owns back to pending.

    The letter about a claim that it has not read yet is taken back. `why` is for the lead, who hears of the tasks; with
    `always` even if there were none.
    """

    list: str
    agent: AgentId
    why: str = ""
    always: bool = False

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand((self.agent,))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> "list[Done]":
        n = rows.list_number(db, self.list)
        sql = "SELECT id FROM tasks WHERE list = ? AND agent = ? AND status <> 'completed' ORDER BY id"
        ids = [] if n is None else [id for (id,) in db.execute(sql, (n, self.agent)).fetchall()]
        owned = [task for id in ids if n is not None and (task := rows.load_good(db, n, id)) is not None]
        freed = [change_task(db, n, task, Hold("pending"), ctx.now) for task in owned if n is not None]
        unread = "DELETE FROM letters WHERE id = ? AND delivered_at IS NULL"
        db.executemany(unread, [(claim_id(self.list, task),) for task in owned])
        # The program tells the lead in its own name, so a worker's words are replaced: its agent has shut down.
        why = (
            self.why
            if ctx.role == "lead" or not self.why
            else _GONE.format(max(names_of(db, self.agent), default=self.agent))
        )
        lead = find_by_name(db, self.list, LEAD_NAME) if why and (owned or self.always) else None
        if lead is not None:
            post(db, freed_mail(lead, self.agent, why, owned, ctx.now), LIMITS, ctx.now)
        return freed


class BeginList(Struct, frozen=True):
    """Begin an empty list. An existing one stays as it is."""

    list: str
    origin: str

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        rows.make_list(db, self.list, self.origin)


class AdoptList(Struct, frozen=True):
    """Give a team the list of its session, numbers and all. False: the team already has tasks of its own."""

    source: str
    into: str

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool:
        sql = "SELECT n, next, session FROM task_lists WHERE name = ?"
        old, new = db.execute(sql, (self.source,)).fetchone(), db.execute(sql, (self.into,)).fetchone()
        if new is not None and new[1] > 1:
            return False
        if old is None:
            rows.make_list(db, self.into, self.source)
            return True
        db.execute("DELETE FROM task_lists WHERE name = ?", (self.into,))
        db.execute("UPDATE task_lists SET name = ?, session = NULL WHERE n = ?", (self.into, old[0]))
        # The session's own list keeps counting, so that a number never means two tasks.
        sql = "INSERT INTO task_lists (name, session, origin, next) VALUES (?, ?, ?, ?)"
        db.execute(sql, (self.source, old[2], self.source, old[1]))
        return True


class DropList(Struct, frozen=True):
    """Delete a list with all its tasks. False if there was none."""

    list: str

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool:
        return db.execute("DELETE FROM task_lists WHERE name = ?", (self.list,)).rowcount > 0
