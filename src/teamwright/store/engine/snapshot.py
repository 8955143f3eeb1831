"""Snapshots: all rows of a replica after some entry, in one file, so that newcomers need not apply the whole log."""

import contextlib
import os
import sqlite3
from pathlib import Path

import anyio
import anyio.to_thread

from teamwright.store.db.database import Database
from teamwright.store.db.schema import STEPS
from teamwright.store.engine.port import Objects
from teamwright.store.engine.tables import read_cursor

EVERY = 5_000  # entries between two snapshots


_LATEST = "snap/latest"  # holds the numbers of the last two, in one line


async def put_snapshot(database: Path, objects: Objects) -> int:
    """Store the rows as they are now; returns the number of their last entry. The last two snapshots are kept."""
    draft = _draft(database)
    try:
        known = await _known(objects, draft)
        await anyio.Path(draft).unlink(missing_ok=True)
        seq = await anyio.to_thread.run_sync(_copy, database, draft)
        await objects.put(f"snap/{seq}", draft)
        await anyio.Path(draft).write_text(" ".join(str(n) for n in (seq, *known[:1])))
        await objects.put(_LATEST, draft)
    finally:
        draft.unlink(missing_ok=True)
    for old in known[1:]:
        await objects.remove(f"snap/{old}")
    return seq


async def take_snapshot(database: Database, objects: Objects) -> bool:
    """Begin with the last snapshot. False: there is none that this program could use."""
    draft = _draft(database.path)
    try:
        known = await _known(objects, draft)
        if not known or not await objects.get(f"snap/{known[0]}", draft):
            return False
        return await adopt(database, draft)
    finally:
        draft.unlink(missing_ok=True)


async def _known(objects: Objects, draft: Path) -> list[int]:
    if not await objects.get(_LATEST, draft):
        return []
    text = await anyio.Path(draft).read_text()
    return [int(word) for word in text.split()]


async def adopt(database: Database, file: Path) -> bool:
    """Replace all rows by those of another file, at once. False: its tables are those of another version."""

    def copy(db: sqlite3.Connection) -> bool:
        with contextlib.closing(sqlite3.connect(file)) as source:
            if source.execute("PRAGMA user_version").fetchone()[0] != len(STEPS):
                return False
            source.backup(db)
        return True

    return await database.read(copy)


def _draft(database: Path) -> Path:
    return database.with_name(f"snapshot-{os.getpid()}-{os.urandom(4).hex()}.db")


def _copy(database: Path, draft: Path) -> int:
    os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with contextlib.closing(sqlite3.connect(database)) as source, contextlib.closing(sqlite3.connect(draft)) as copy:
        source.backup(copy)
        return read_cursor(copy).seq
