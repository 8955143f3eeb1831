"""Acts on scheduled prompts."""

import sqlite3

from msgspec import Struct

from teamwright.core.data.letter import Letter
from teamwright.core.data.schedule import Schedule, ScheduleId
from teamwright.core.ids import LetterId, SessionId
from teamwright.store.acts.act import Context
from teamwright.store.tables.rows.agents import insert_letter, session_number
from teamwright.store.tables.rows.schedules import letter_id, schedule_by_key


class AddSchedule(Struct, frozen=True):
    """Add a schedule; None if the session already has `most`. A known key returns the first one."""

    session: SessionId
    schedule: Schedule
    key: str
    most: int

    def apply(self, db: sqlite3.Connection, ctx: Context) -> Schedule | None:
        if found := schedule_by_key(db, self.key):
            return found
        session, new = session_number(db, self.session), self.schedule
        if db.execute("SELECT count(*) FROM schedules WHERE session = ?", (session,)).fetchone()[0] >= self.most:
            return None
        sql = """
            INSERT INTO schedules (id, session, prompt, cron, recurring, next, created, key)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)
        """
        db.execute(sql, (new.id, session, new.prompt, new.cron, new.recurring, new.next, new.created, self.key))
        return new


class RemoveSchedule(Struct, frozen=True):
    """Remove a schedule. False if the session has none of that id."""

    session: SessionId
    id: ScheduleId

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool:
        sql = "DELETE FROM schedules WHERE id = ? AND session = (SELECT n FROM sessions WHERE id = ?)"
        return db.execute(sql, (self.id, self.session)).rowcount > 0


class MoveSchedule(Struct, frozen=True):
    """Change when a schedule is due. False if it has changed meanwhile."""

    id: ScheduleId
    before: int
    after: int

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool:
        sql = "UPDATE schedules SET next = ? WHERE id = ? AND next = ?"
        return db.execute(sql, (self.after, self.id, self.before)).rowcount > 0


class FireSchedule(Struct, frozen=True):
    """Post the letter, and make the schedule due at `after` or delete it; all or nothing.

    False if it was no longer due, or if its last letter has not been read yet: they do not pile up.
    """

    schedule: Schedule
    letter: Letter
    after: int | None

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool:
        due = self.schedule
        tell = due.last is None or not _waits(db, letter_id(due.id, due.last))
        if self.after is None:
            sql, values = "DELETE FROM schedules WHERE id = ? AND next = ?", (due.id, due.next)
        else:
            sql = "UPDATE schedules SET next = ?, last = ? WHERE id = ? AND next = ?"
            values = (self.after, due.next if tell else due.last, due.id, due.next)
        if db.execute(sql, values).rowcount == 0 or not tell:
            return False
        insert_letter(db, self.letter, ctx.now)
        return True


def _waits(db: sqlite3.Connection, letter: LetterId) -> bool:
    sql = "SELECT 1 FROM letters WHERE id = ? AND delivered_at IS NULL"
    return db.execute(sql, (letter,)).fetchone() is not None
