"""Records every act that reaches a database, and applies them all to an empty one: the rows must be equal."""

import sqlite3
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from teamwright.core.data.team import ProcessId
from teamwright.core.errors import StoreError
from teamwright.store.acts.act import Act, Context
from teamwright.store.acts.registry import decode_acts, encode_acts
from teamwright.store.db.database import Database, open_database


class Entry(Struct):
    """One act as JSON, with its context and its outcome."""

    data: bytes
    now: int
    lived: dict[ProcessId, bool]
    outcome: Any


class _Written(Struct, frozen=True):
    act: Act[Any]
    entries: list[Entry]

    def apply(self, db: sqlite3.Connection, ctx: Context) -> Any:
        entry = Entry(encode_acts([self.act]), ctx.now, {}, None)
        self.entries.append(entry)

        def alive(process: ProcessId) -> bool:
            return entry.lived.setdefault(process, ctx.alive(process))

        try:
            entry.outcome = self.act.apply(db, Context(ctx.now, alive))
        except StoreError as error:
            entry.outcome = str(error)
            raise
        return entry.outcome


class _Again(Struct, frozen=True):
    entry: Entry

    def apply(self, db: sqlite3.Connection, ctx: Context) -> Any:
        (act,) = decode_acts(self.entry.data)
        return act.apply(db, Context(self.entry.now, self.entry.lived.__getitem__))


class Journal:
    """A database that keeps a journal; `database` is the same for the tables."""

    def __init__(self, database: Database, entries: list[Entry] | None = None) -> None:
        """`entries` are those of an earlier process."""
        self._inner, self.entries = database, [] if entries is None else entries

    @property
    def database(self) -> Database:
        return cast("Database", self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def write(self, act: Act[Any]) -> Any:
        return await self._inner.write(_Written(act, self.entries))

    def write_soon(self, act: Act[Any]) -> None:
        self._inner.write_soon(_Written(act, self.entries))

    async def replay(self) -> None:
        """Apply everything to an empty store: every outcome and every row must be the same."""
        await self._inner.flush()
        with tempfile.TemporaryDirectory() as root:
            other = await open_database(Path(root) / "state.db")
            for entry in self.entries:
                try:
                    found = await other.write(_Again(entry))
                except StoreError as error:
                    found = str(error)
                assert found == entry.outcome, (entry.data, found, entry.outcome)
            ours, theirs = await self._inner.read(all_rows), await other.read(all_rows)
            await other.close()
        assert ours == theirs


@asynccontextmanager
async def journaled(database: Database) -> AsyncIterator[Journal]:
    """Replays the journal at the end, unless another writer has used the same file meanwhile."""
    journal, version = Journal(database), await database.data_version()
    yield journal
    if await database.data_version() == version:
        await journal.replay()


def all_rows(db: sqlite3.Connection) -> dict[str, list[Any]]:
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {name: sorted(db.execute(f'SELECT * FROM "{name}"').fetchall(), key=repr) for name in names}
