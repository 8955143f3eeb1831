"""Single statements as work for `Database.read` and `Database.write`."""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
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


def change(sql: str, values: Values = ()) -> Callable[[sqlite3.Connection], int]:
    """How many rows were changed."""

    def work(db: sqlite3.Connection) -> int:
        return db.execute(sql, values).rowcount

    return work


def change_each(sql: str, rows: Iterable[Sequence[object]]) -> Callable[[sqlite3.Connection], None]:
    values = list(rows)

    def work(db: sqlite3.Connection) -> None:
        db.executemany(sql, values)

    return work
