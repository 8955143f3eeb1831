"""The landing queue in `state.db`. Each change is one transaction across processes."""

import sqlite3
from collections.abc import Sequence

from teamwright.core.data.landing import LandDraft, LandEntry, LandId, LandState
from teamwright.core.policies.landing import Blockers
from teamwright.store.acts.landing import ChangeLanding, QueueBranch, SendBack, SentBack
from teamwright.store.db.database import Database
from teamwright.store.tables.rows.landing import COLUMNS, find_entry, read_entry

# What can keep another entry from landing. An entry that was sent back does so until its branch is queued again.
_BLOCKING = f"""
    SELECT {COLUMNS} FROM landing AS own WHERE repo = ? AND target = ? AND (state IN ('waiting', 'trying') OR
        state = 'sent_back' AND NOT EXISTS (
            SELECT 1 FROM landing AS later
            WHERE later.repo = own.repo AND later.target = own.target AND later.branch = own.branch AND later.n > own.n
        ))
    ORDER BY n
"""  # noqa: S608
_ABOVE = """
    WITH RECURSIVE above (id) AS (
        SELECT blocker FROM task_edges WHERE list = :n AND blocked = :id
        UNION SELECT blocker FROM task_edges JOIN above ON blocked = above.id WHERE list = :n
    ) SELECT id FROM above
"""


class LandTable:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def queue(self, draft: LandDraft, *, told: bool = True) -> LandEntry:
        """Durable on return. See `QueueBranch`."""
        return await self._db.write(QueueBranch(draft, told))

    async def change(
        self, id: LandId, before: LandState, after: LandState, reason: str = "", commit: str = ""
    ) -> LandEntry | None:
        """None if it is in another state than `before` by now."""
        return await self._db.write(ChangeLanding(id, before, after, reason, commit))

    async def send_back(self, id: LandId, reason: str, output: str = "") -> SentBack | None:
        """Change the entry, its owner's letter and its task in one transaction. None: it is not tried any more."""
        return await self._db.write(SendBack(id, reason, output))

    async def get(self, id: LandId) -> LandEntry | None:
        def work(db: sqlite3.Connection) -> LandEntry | None:
            return find_entry(db, id)

        return await self._db.read(work)

    async def entries(self, repo: str, most: int = 200, only: str = "") -> list[LandEntry]:
        """Entries of a repository, the newest last: all open ones, and the last `most` that are decided; `only` those
        that this session queued."""
        found = "repo = :repo AND :only IN ('', json_extract(record, '$.session'))"
        sql = f"""
            SELECT {COLUMNS} FROM landing WHERE {found} AND (state IN ('waiting', 'trying') OR n IN (
                SELECT n FROM landing WHERE {found} AND state NOT IN ('waiting', 'trying')
                ORDER BY n DESC LIMIT :most
            )) ORDER BY n
        """  # noqa: S608

        def work(db: sqlite3.Connection) -> list[LandEntry]:
            return [read_entry(row) for row in db.execute(sql, {"repo": repo, "most": most, "only": only})]

        return await self._db.read(work)

    async def blocking(self, repo: str, target: str) -> tuple[list[LandEntry], Blockers]:
        """Entries that wait, are tried, or came back and keep others waiting; and who depends on whom."""

        def work(db: sqlite3.Connection) -> tuple[list[LandEntry], Blockers]:
            entries = [read_entry(row) for row in db.execute(_BLOCKING, (repo, target))]
            return entries, _blockers(db, entries)

        return await self._db.read(work)


def _blockers(db: sqlite3.Connection, entries: Sequence[LandEntry]) -> Blockers:
    by_task: dict[tuple[str, int], list[LandId]] = {}
    for entry in entries:
        if entry.draft.task is not None:
            by_task.setdefault((entry.draft.list, entry.draft.task), []).append(entry.id)
    found: dict[LandId, set[LandId]] = {}
    for (name, task), ids in by_task.items():
        row = db.execute("SELECT n FROM task_lists WHERE name = ?", (name,)).fetchone()
        above = db.execute(_ABOVE, {"n": row[0], "id": task}).fetchall() if row else []
        before = {id for (other,) in above for id in by_task.get((name, other), ())}
        found |= {id: before for id in ids if before}
    return found
