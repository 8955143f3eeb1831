"""Rows of scheduled prompts."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from teamwright.core.data.schedule import Schedule, ScheduleId
from teamwright.core.ids import LetterId

COLUMNS = "schedules.id, prompt, cron, recurring, next, schedules.created, last"


def letter_id(id: ScheduleId, due: int) -> LetterId:
    """The same id for the same due time, so that it cannot be told twice."""
    return LetterId(f"c-{id}-{due}")


def schedule_by_key(db: sqlite3.Connection, key: str) -> Schedule | None:
    row = db.execute(f"SELECT {COLUMNS} FROM schedules WHERE key = ?", (key,)).fetchone()  # noqa: S608
    return read_schedule(row) if row else None


def read_schedule(row: Sequence[Any]) -> Schedule:
    id, prompt, cron, recurring, due, created, last = row
    return Schedule(id, prompt, cron, bool(recurring), due, created, last)
