"""Scheduled prompts in `state.db`. One that is due becomes a letter in the same transaction."""

from functools import partial

from teamwright.core.data.letter import Letter
from teamwright.core.data.schedule import Schedule, ScheduleId
from teamwright.core.ids import SessionId
from teamwright.store.acts.schedules import AddSchedule, FireSchedule, MoveSchedule, RemoveSchedule
from teamwright.store.db.database import Database
from teamwright.store.db.statements import fetch_all
from teamwright.store.tables.rows.schedules import COLUMNS, letter_id, read_schedule, schedule_by_key

__all__ = ["ScheduleTable", "letter_id"]


class ScheduleTable:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def add(self, session: SessionId, schedule: Schedule, key: str, most: int) -> Schedule | None:
        """Durable on return; None if the session already has `most`. A known key returns the first one."""
        return await self._db.write(AddSchedule(session, schedule, key, most))

    async def made_by(self, key: str) -> Schedule | None:
        """What an earlier `add` with this key stored, if it is still there."""
        return await self._db.read(partial(schedule_by_key, key=key))

    async def all(self, session: SessionId) -> list[Schedule]:
        """The next one due comes first."""
        sql = f"""
            SELECT {COLUMNS} FROM schedules JOIN sessions ON sessions.n = session WHERE sessions.id = ?
            ORDER BY next, schedules.n
        """  # noqa: S608
        return [read_schedule(row) for row in await self._db.read(fetch_all(sql, (session,)))]

    async def remove(self, session: SessionId, id: ScheduleId) -> bool:
        """False if the session has none of that id."""
        return await self._db.write(RemoveSchedule(session, id))

    async def move(self, id: ScheduleId, before: int, after: int) -> bool:
        """Change when a schedule is due. False if it has changed meanwhile."""
        return await self._db.write(MoveSchedule(id, before, after))

    async def fire(self, schedule: Schedule, letter: Letter, after: int | None) -> bool:
        """Post the letter, and make the schedule due at `after` or delete it; all or nothing.

        False if it was no longer due, or if its last letter has not been read yet: they do not pile up.
        """
        return await self._db.write(FireSchedule(schedule, letter, after))
