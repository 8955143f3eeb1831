"""Changes of tasks, each inside a transaction: what may be changed, what is written, and what follows for others."""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import partial

from msgspec.structs import replace

from teamwright.core.data.letter import Letter, Signal
from teamwright.core.data.letters.tasks import assignment_letter
from teamwright.core.data.tasks import (
    MOST_TASKS,
    Actor,
    Change,
    Done,
    Edge,
    Hold,
    Refusal,
    Task,
    TaskId,
    given_back,
    refuse_edges,
    refuse_wait,
)
from teamwright.core.ids import AgentId, CallId
from teamwright.store.tables.rounds import count_round_by_name, note_team_progress, rounds_spent
from teamwright.store.tables.rows import tasks as rows
from teamwright.store.tables.rows.agents import insert_letter
from teamwright.store.tables.rows.teams import find_by_name, is_member

NOTHING = Change()
_OPEN = "SELECT id FROM tasks WHERE list = :n AND status = 'pending' AND agent IS NULL AND waits = 0"
_NOT_GIVEN_BACK = "instr(given_back, :me) = 0 ORDER BY id"
# as the index `tasks_kept` has it
KEPT = f"{_OPEN} AND owner IS NOT NULL AND owner = :name COLLATE NOCASE AND {_NOT_GIVEN_BACK}"
FREE = f"{_OPEN} AND owner IS NULL AND {_NOT_GIVEN_BACK}"  # as the index `tasks_free` has it


def find_task(db: sqlite3.Connection, list: str, id: TaskId) -> tuple[int, Task] | None:
    """The list's number and the task."""
    n = rows.list_number(db, list)
    task = None if n is None else rows.load_good(db, n, id)
    return None if n is None or task is None else (n, task)


def next_id(db: sqlite3.Connection, n: int) -> TaskId:
    return db.execute("UPDATE task_lists SET next = next + 1 WHERE n = ? RETURNING next - 1", (n,)).fetchone()[0]


def edges_of(own: TaskId, before: Iterable[TaskId], after: Iterable[TaskId]) -> list[Edge]:
    return [*((own, later) for later in after), *((earlier, own) for earlier in before)]


def ends_of(edges: Iterable[Edge]) -> set[TaskId]:
    return {end for edge in edges for end in edge}


def find_repeated(db: sqlite3.Connection, agent: AgentId, call: CallId | None) -> Done | None:
    row = db.execute("SELECT list, task FROM task_calls WHERE agent = ? AND call = ?", (agent, call)).fetchone()
    return None if row is None else Done(row[1], rows.load_good(db, row[0], row[1]), repeated=True)


def record_call(db: sqlite3.Connection, n: int, agent: AgentId, call: CallId | None, id: TaskId, words: str) -> None:
    if call is not None:
        sql = "INSERT INTO task_calls (agent, call, list, task, result) VALUES (?, ?, ?, ?, ?)"
        db.execute(sql, (agent, call, n, id, words))


def refuse_new(db: sqlite3.Connection, n: int, own: TaskId, edges: Sequence[Edge], count: int) -> Refusal | None:
    if count >= MOST_TASKS:
        return Refusal("list_full", f"the list has {count} tasks, and no more fit. Delete those that are done.")
    known = rows.existing(db, n, ends_of(edges) - {own})
    return refuse_edges(edges, {*known, own}, partial(rows.blocked, db, n))


def refuse_waits(
    db: sqlite3.Connection, n: int, edges: Sequence[Edge], by: Actor, *, own: TaskId, held: int | None = None
) -> Refusal | None:
    """Refuse if one of the tasks that would have to wait is another's. `held` is for the task `own` alone."""
    for id in dict.fromkeys(after for _, after in edges):
        task = rows.load_good(db, n, id)
        if task is not None and (refusal := refuse_wait(task, by, held if id == own else None)) is not None:
            return refusal
    return None


def with_edges(db: sqlite3.Connection, n: int, task: Task, ask: Change) -> Task:
    """The task with what it is to wait for."""
    more = [id for id in ask.add_blocked_by if id not in task.blocked_by]
    open_ones = [id for id in more if (other := rows.load_good(db, n, id)) and other.status != "completed"]
    return replace(task, blocked_by=(*task.blocked_by, *open_ones)) if open_ones else task


def change_task(
    db: sqlite3.Connection,
    n: int,
    task: Task,
    hold: Hold,
    now: int,
    ask: Change = NOTHING,
    edges: Sequence[Edge] = (),
    by: Actor | None = None,
) -> Done:
    """`by` asked for it; None if its owner is gone, or if it is handed to a free member."""
    if (worded := with_words(task, ask)) != task:
        rows.write(db, n, worded)
    passed = given_back(task, ask, hold, by) if by else task.given_back
    rows.give(db, n, task, hold, passed, _assigner(task, hold, by))
    rows.connect(db, n, edges)
    touched = ends_of(edges) | {task.id}
    freed: list[TaskId] = []
    if (task.status == "completed") != (hold.status == "completed"):
        freed = rows.count_waits(db, n, task.blocks)
        touched.update(task.blocks)
    rows.stamp(db, n, touched, now)
    if hold.status == "completed" and rows.credit(db, n, task.id):
        note_team_progress(db, rows.name_of(db, n))
    loose = tuple(other for id in freed if (other := rows.load_good(db, n, id)))
    return Done(task.id, rows.load_good(db, n, task.id), task, tuple(sorted(touched)), loose)


def _assigner(task: Task, hold: Hold, by: Actor | None) -> str:
    if hold.owner is None or (by is not None and hold.agent == by.agent and hold.agent != task.agent):
        return ""
    changed = by is not None and (hold.owner, hold.agent) != (task.owner, task.agent)
    return by.name if by is not None and changed else task.assigner


def with_words(task: Task, ask: Change) -> Task:
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


def delete_task(db: sqlite3.Connection, n: int, task: Task, now: int) -> Done:
    others = {*rows.all_blockers(db, n, task.id), *task.blocks}
    rows.remove(db, n, task.id)
    freed = rows.count_waits(db, n, task.blocks)
    rows.stamp(db, n, others, now)
    loose = tuple(other for id in freed if (other := rows.load_good(db, n, id)))
    return Done(task.id, None, task, (task.id, *sorted(others)), loose)


def post_letters(db: sqlite3.Connection, list: str, done: Done, by: Actor, each: int, now: int) -> None:
    """Post letters to owners. If the team goes round, they wait for what starts the owner's next turn.

    They are kept from a turn that runs as well: two members that hand a task to and fro would never end theirs.
    """
    told = [letter for task in done.to_tell(by) if (letter := _letter_about(db, list, task, by, now)) is not None]
    spent = bool(told) and rounds_spent(db, list, each) > 0
    for letter in told:
        if spent and isinstance(letter.body, Signal):
            letter = replace(letter, body=replace(letter.body, quiet=True))  # noqa: PLW2901
        insert_letter(db, letter, now)
    if told:
        count_round_by_name(db, list, by.agent)


def _letter_about(db: sqlite3.Connection, list: str, task: Task, by: Actor, now: int) -> Letter | None:
    """A letter to the owner, if it is a member of the list's team. It comes from whoever gave it the task, not from the
    one that completed a blocker."""
    if task.agent is None or not is_member(db, list, task.agent):
        return None
    giver = find_by_name(db, list, task.assigner) if task.assigner else None
    return assignment_letter(task, list, task.agent, Actor(giver.agent, giver.name) if giver else by, now)


def find_free(db: sqlite3.Connection, n: int, by: Actor, *, kept: bool = False) -> Task | None:
    """The first task kept for this actor, or else nobody's; without those that cannot be read, or that it gave back."""
    for sql in (KEPT,) if kept else (KEPT, FREE):
        for (id,) in db.execute(sql, {"n": n, "name": by.name, "me": f'"{by.agent}"'}):
            if (task := rows.load_good(db, n, id)) is not None:
                return task
    return None
