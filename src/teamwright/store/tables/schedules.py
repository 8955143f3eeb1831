"""Scheduled prompts in `state.db`; one that comes due becomes a letter in the same transaction."""

import sqlite3
from collections.abc import Sequence
from functools import partial
from typing import Any

from teamwright.core.data.letter import Letter
from teamwright.core.data.schedule import Schedule, ScheduleId
from teamwright.core.ids import LetterId, SessionId
from teamwright.store.db.database import Database
from teamwright.store.db.statements import change, fetch_all
from teamwright.store.tables.jobs import insert_letter
from teamwright.store.tables.state import session_number

_COLUMNS = "schedules.id, prompt, cron, recurring, next, schedules.created, last"


class ScheduleTable:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def add(self, session: SessionId, schedule: Schedule, key: str, most: int) -> Schedule | None:
        """Durable on return; None if the session has `most` already. The same key again: the first one is given."""

        def work(db: sqlite3.Connection) -> Schedule | None:
            if found := _by_key(db, key):
                return found
            number = session_number(db, session)
            if db.execute("SELECT count(*) FROM schedules WHERE session = ?", (number,)).fetchone()[0] >= most:
                return None
            sql = """
                INSERT INTO schedules (id, session, prompt, cron, recurring, next, created, key)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)
            """
            values = (schedule.prompt, schedule.cron, schedule.recurring, schedule.next, schedule.created, key)
            db.execute(sql, (schedule.id, number, *values))
            return schedule

        return await self._db.write(work)

    async def made_by(self, key: str) -> Schedule | None:
        """What an earlier `add` of this key stored, as far as it is still there."""
        return await self._db.read(partial(_by_key, key=key))

    async def all(self, session: SessionId) -> list[Schedule]:
        """The next due one first."""
        sql = f"""
            SELECT {_COLUMNS} FROM schedules JOIN sessions ON sessions.n = session WHERE sessions.id = ?
            ORDER BY next, schedules.n
        """  # noqa: S608
        return [_schedule(row) for row in await self._db.read(fetch_all(sql, (session,)))]

    async def remove(self, session: SessionId, id: ScheduleId) -> bool:
        """False if the session has none of that id."""
        sql = "DELETE FROM schedules WHERE id = ? AND session = (SELECT n FROM sessions WHERE id = ?)"
        return await self._db.write(change(sql, (id, session))) > 0

    async def move(self, id: ScheduleId, before: int, after: int) -> bool:
        """It is due at another time than was thought. False if it is not as it was any more."""
        sql = "UPDATE schedules SET next = ? WHERE id = ? AND next = ?"
        return await self._db.write(change(sql, (after, id, before))) > 0

    async def fire(self, schedule: Schedule, letter: Letter, after: int | None) -> bool:
        """The letter is posted, and the schedule is due at `after` next, or gone; all or nothing.

        False if it was not due any more, or if its last letter has not been read yet: they do not pile up.
        """

        def work(db: sqlite3.Connection) -> bool:
            tell = schedule.last is None or not _waits(db, letter_id(schedule.id, schedule.last))
            if after is None:
                sql, values = "DELETE FROM schedules WHERE id = ? AND next = ?", (schedule.id, schedule.next)
            else:
                sql = "UPDATE schedules SET next = ?, last = ? WHERE id = ? AND next = ?"
                last = schedule.next if tell else schedule.last
                values = (after, last, schedule.id, schedule.next)
            if db.execute(sql, values).rowcount == 0 or not tell:
                return False
            insert_letter(db, letter)
            return True

        return await self._db.write(work)


def letter_id(id: ScheduleId, due: int) -> LetterId:
    """The same for the same due time, so that it cannot be told twice."""
    return LetterId(f"c-{id}-{due}")


def _waits(db: sqlite3.Connection, letter: LetterId) -> bool:
    sql = "SELECT 1 FROM letters WHERE id = ? AND delivered_at IS NULL"
    return db.execute(sql, (letter,)).fetchone() is not None


def _by_key(db: sqlite3.Connection, key: str) -> Schedule | None:
    row = db.execute(f"SELECT {_COLUMNS} FROM schedules WHERE key = ?", (key,)).fetchone()  # noqa: S608
    return _schedule(row) if row else None


def _schedule(row: Sequence[Any]) -> Schedule:
    id, prompt, cron, recurring, due, created, last = row
    return Schedule(id, prompt, cron, bool(recurring), due, created, last)
