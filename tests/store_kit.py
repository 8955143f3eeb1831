"""Which store the tests run on, and single statements as acts, for tests that write rows by hand."""

import sqlite3
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from teamwright.store.acts.act import Context


class Chosen:
    """By `--store`."""

    engine = False


class Sql(Struct, frozen=True):
    text: str
    values: tuple[Any, ...] = ()

    def apply(self, db: sqlite3.Connection, ctx: Context) -> int:
        return db.execute(self.text, self.values).rowcount


class Run(Struct, frozen=True):
    work: Callable[[sqlite3.Connection], Any]

    def apply(self, db: sqlite3.Connection, ctx: Context) -> Any:
        return self.work(db)
