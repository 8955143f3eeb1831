"""Rows of tasks and their dependencies, read and changed inside a transaction."""

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from teamwright.core.data.tasks import Actor, Draft, Edge, Hold, Task, TaskId
from teamwright.core.ids import AgentId

_COLUMNS = """
    id, subject, description, status, owner, agent, epoch, former, active_form, metadata, created, updated,
    author, maker, given_back, assigner
"""
_former = msgspec.json.Decoder(tuple[AgentId, ...])
_metadata = msgspec.json.Decoder(dict[str, Any])
_encoder = msgspec.json.Encoder()
_MOST_FORMER = 50  # former owners that are remembered


class Broken(msgspec.Struct, frozen=True):
    """A row that is no task."""

    id: int
    fault: str


def list_number(db: sqlite3.Connection, name: str) -> int | None:
    row = db.execute("SELECT n FROM task_lists WHERE name = ?", (name,)).fetchone()
    return row[0] if row else None


def make_list(db: sqlite3.Connection, name: str, origin: str | None = None) -> int:
    """The list's number; the list is begun if there is none. A list named after a session is deleted with it."""
    sql = """
        INSERT INTO task_lists (name, session, origin)
        VALUES (:name, (SELECT n FROM sessions WHERE id = :name), :origin)
        ON CONFLICT (name) DO NOTHING
    """
    db.execute(sql, {"name": name, "origin": origin or name})
    return db.execute("SELECT n FROM task_lists WHERE name = ?", (name,)).fetchone()[0]


# --- tasks


def load(db: sqlite3.Connection, n: int, id: int) -> Task | Broken | None:
    row = db.execute(f"SELECT {_COLUMNS} FROM tasks WHERE list = ? AND id = ?", (n, id)).fetchone()  # noqa: S608
    return None if row is None else _task(row, blockers(db, n, id), blocked(db, n, id))


def load_good(db: sqlite3.Connection, n: int, id: int) -> Task | None:
    task = load(db, n, id)
    return task if isinstance(task, Task) else None


def load_all(db: sqlite3.Connection, n: int) -> list[Task | Broken]:
    before: dict[int, tuple[TaskId, ...]] = {}
    after: dict[int, tuple[TaskId, ...]] = {}
    sql = """
        SELECT blocker, blocked, status = 'completed' FROM task_edges
        JOIN tasks ON tasks.list = task_edges.list AND tasks.id = blocker
        WHERE task_edges.list = ? ORDER BY blocker, blocked
    """
    for blocker, blocks, done in db.execute(sql, (n,)):
        after[blocker] = (*after.get(blocker, ()), blocks)
        if not done:
            before[blocks] = (*before.get(blocks, ()), blocker)
    rows = db.execute(f"SELECT {_COLUMNS} FROM tasks WHERE list = ? ORDER BY id", (n,)).fetchall()  # noqa: S608
    return [_task(row, before.get(row[0], ()), after.get(row[0], ())) for row in rows]


def _task(row: Sequence[Any], before: tuple[TaskId, ...], after: tuple[TaskId, ...]) -> Task | Broken:
    record = dict(zip(_COLUMNS.replace(",", " ").split(), row, strict=True))
    try:
        record["former"] = _former.decode(record["former"])
        record["given_back"] = _former.decode(record["given_back"])
        record["metadata"] = _metadata.decode(record["metadata"])
        return msgspec.convert(record | {"blocked_by": before, "blocks": after}, Task)
    except (msgspec.MsgspecError, TypeError, UnicodeDecodeError) as error:
        return Broken(row[0], str(error))


def insert(db: sqlite3.Connection, n: int, id: TaskId, draft: Draft, by: Actor, now: int) -> None:
    sql = """
        INSERT INTO tasks (list, id, subject, description, active_form, metadata, created, updated, author, maker)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    """
    metadata = _encoder.encode(draft.metadata).decode()
    words = (draft.subject, draft.description, draft.active_form, metadata)
    db.execute(sql, (n, id, *words, now, now, by.name, by.agent))
    db.execute("UPDATE task_lists SET count = count + 1 WHERE n = ?", (n,))


def write(db: sqlite3.Connection, n: int, task: Task) -> None:
    """Write words and metadata of a task."""
    sql = "UPDATE tasks SET subject = ?, description = ?, active_form = ?, metadata = ? WHERE list = ? AND id = ?"
    metadata = _encoder.encode(task.metadata).decode()
    db.execute(sql, (task.subject, task.description, task.active_form, metadata, n, task.id))


def give(db: sqlite3.Connection, n: int, task: Task, hold: Hold, given_back: Sequence[AgentId], assigner: str) -> None:
    """Set status and owner. A new owner means a new epoch, and the previous one is remembered as a former one."""
    former = [agent for agent in task.former if agent != hold.agent]
    if task.agent is not None and task.agent != hold.agent:
        former = [*(agent for agent in former if agent != task.agent), task.agent]
    epoch = task.epoch + (task.agent != hold.agent)
    sql = """
        UPDATE tasks SET status = ?, owner = ?, agent = ?, epoch = ?, former = ?, given_back = ?, assigner = ?
        WHERE list = ? AND id = ?
    """
    lists = [_encoder.encode(agents[-_MOST_FORMER:]).decode() for agents in (former, given_back)]
    db.execute(sql, (hold.status, hold.owner, hold.agent, epoch, *lists, assigner, n, task.id))


def name_of(db: sqlite3.Connection, n: int) -> str:
    return db.execute("SELECT name FROM task_lists WHERE n = ?", (n,)).fetchone()[0]


def credit(db: sqlite3.Connection, n: int, id: TaskId) -> bool:
    """Count its completion as progress. False if it was counted before."""
    sql = "UPDATE tasks SET credited = 1 WHERE list = ? AND id = ? AND credited = 0"
    return db.execute(sql, (n, id)).rowcount > 0


def stamp(db: sqlite3.Connection, n: int, ids: Iterable[TaskId], now: int) -> None:
    """Mark tasks as changed. The time grows even if the clock was set back."""
    sql = "UPDATE tasks SET updated = max(updated + 1, ?) WHERE list = ? AND id = ?"
    db.executemany(sql, [(now, n, id) for id in ids])


def remove(db: sqlite3.Connection, n: int, id: TaskId) -> None:
    """Remove a task with every edge to it or from it."""
    db.execute("DELETE FROM task_edges WHERE list = ? AND (blocker = ? OR blocked = ?)", (n, id, id))
    db.execute("DELETE FROM tasks WHERE list = ? AND id = ?", (n, id))
    db.execute("UPDATE task_lists SET count = count - 1 WHERE n = ?", (n,))


# --- edges


def blockers(db: sqlite3.Connection, n: int, id: int) -> tuple[TaskId, ...]:
    """Blockers that are not completed."""
    sql = """
        SELECT blocker FROM task_edges JOIN tasks ON tasks.list = task_edges.list AND tasks.id = blocker
        WHERE task_edges.list = ? AND blocked = ? AND status <> 'completed' ORDER BY blocker
    """
    return tuple(row[0] for row in db.execute(sql, (n, id)))


def all_blockers(db: sqlite3.Connection, n: int, id: int) -> tuple[TaskId, ...]:
    sql = "SELECT blocker FROM task_edges WHERE list = ? AND blocked = ? ORDER BY blocker"
    return tuple(row[0] for row in db.execute(sql, (n, id)))


def blocked(db: sqlite3.Connection, n: int, id: int) -> tuple[TaskId, ...]:
    sql = "SELECT blocked FROM task_edges WHERE list = ? AND blocker = ? ORDER BY blocked"
    return tuple(row[0] for row in db.execute(sql, (n, id)))


def existing(db: sqlite3.Connection, n: int, ids: Iterable[TaskId]) -> set[TaskId]:
    sql = "SELECT 1 FROM tasks WHERE list = ? AND id = ?"
    return {id for id in ids if db.execute(sql, (n, id)).fetchone()}


def connect(db: sqlite3.Connection, n: int, edges: Collection[Edge]) -> None:
    sql = "INSERT INTO task_edges (list, blocker, blocked) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
    db.executemany(sql, [(n, before, after) for before, after in edges])
    count_waits(db, n, {after for _, after in edges})


def count_waits(db: sqlite3.Connection, n: int, ids: Iterable[int]) -> list[TaskId]:
    """Recount what each waits for; returns those that no longer wait for anything."""
    freed: list[TaskId] = []
    for id in ids:
        row = db.execute("SELECT waits FROM tasks WHERE list = ? AND id = ?", (n, id)).fetchone()
        now = len(blockers(db, n, id))
        if row is not None and row[0] != now:
            db.execute("UPDATE tasks SET waits = ? WHERE list = ? AND id = ?", (now, n, id))
            if now == 0:
                freed.append(TaskId(id))
    return freed
