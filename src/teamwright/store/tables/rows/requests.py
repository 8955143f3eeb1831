"""Rows of requests."""

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from teamwright.core.data.team import TeamRequest

COLUMNS = """
    SELECT requests.id, requests.kind, teams.name, askers.id, answerers.id, body, asked_at, state, answer, answered_at,
        handled
    FROM requests JOIN teams ON teams.n = requests.team JOIN agents AS askers ON askers.n = asker
        JOIN agents AS answerers ON answerers.n = answerer
"""


def find_request(db: sqlite3.Connection, where: str, value: str) -> TeamRequest | None:
    row = db.execute(f"{COLUMNS} WHERE {where}", (value,)).fetchone()
    return read_request(row) if row else None


def read_request(row: Sequence[Any]) -> TeamRequest:
    values = list(row)
    values[5] = msgspec.json.decode(values[5])
    values[8] = None if values[8] is None else msgspec.json.decode(values[8])
    values[10] = bool(values[10])
    return TeamRequest(*values)
