"""Single statements as work for `Database.read` and `Database.write`."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Values = Sequence[object] | Mapping[str, object]


def fetch_all(sql: str, values: Values = ()) -> Callable[[sqlite3.Connection], list[Any]]:
    def work(db: sqlite3.Connection) -> list[Any]:
        return db.execute(sql, values).fetchall()

    return work


def fetch_one(sql: str, values: Values = ()) -> Callable[[sqlite3.Connection], Any]:
    """The first row, or None."""

    def work(db: sqlite3.Connection) -> Any:
        return db.execute(sql, values).fetchone()

    return work
