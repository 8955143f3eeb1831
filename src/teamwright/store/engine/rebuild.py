"""Rebuilds a replica that disagrees with the other machines, and checks that the log is still the same one."""

import os
from contextlib import aclosing
from functools import partial
from pathlib import Path

import anyio.to_thread

from teamwright.store.db.database import Database, open_database
from teamwright.store.engine.entry import ApplyEntries, digest_of
from teamwright.store.engine.port import EngineError, Log
from teamwright.store.engine.snapshot import adopt
from teamwright.store.engine.tables import Cursor, Prepare

_GRACE = 15_000  # milliseconds in which others may still send digests from before they were rebuilt


class Rebuilder:
    def __init__(self, database: Database, log: Log) -> None:
        self._db, self._log = database, log
        self._done_at: int | None = None  # by the engine's clock

    async def heed(self, seq: int, cursor: Cursor) -> bool:
        """Another process has another digest at entry `seq`. Rebuild the replica, once; True if that was done."""
        if self._done_at is None:
            await self._rebuild(cursor.seq)
            self._done_at = cursor.at
            return True
        if cursor.at > self._done_at + _GRACE:
            raise EngineError(
                f"What this machine has applied of the engine's log differs from the others' at entry {seq}, also "
                "after it was built again. Nothing more is stored from here. Update all to the same version."
            )
        return False

    async def _rebuild(self, last: int) -> None:
        """Apply the log from its first entry to a new file, which then replaces the rows in use at once."""
        if (await self._log.extent()).first > 1:
            raise EngineError("The replica cannot be built again: the engine no longer has the log's first entries.")
        draft = self._db.path.with_name(f"rebuilt-{os.getpid()}-{os.urandom(4).hex()}.db")
        fresh = await open_database(draft)
        try:
            await fresh.write(Prepare())
            async with aclosing(self._log.entries(0)) as found:
                async for entries in found:
                    done = await fresh.write(ApplyEntries([entry for entry in entries if entry.seq <= last]))
                    if done.cursor.seq >= last:
                        break
            await fresh.close()
            await adopt(self._db, draft)
        finally:
            await fresh.close()
            await anyio.to_thread.run_sync(partial(_remove, draft))


def _remove(draft: Path) -> None:
    for end in ("", "-wal", "-shm"):
        draft.with_name(draft.name + end).unlink(missing_ok=True)


async def check_history(log: Log, cursor: Cursor) -> bool:
    """Check that the log is still the same one, and has what was applied here. False while it does not answer."""
    try:
        extent = await log.extent()
        found = await log.entry(cursor.seq) if cursor.seq and extent.last >= cursor.seq >= extent.first else None
    except EngineError:
        return False
    if not extent.space:
        raise EngineError(
            f"The engine has no space at its address any more, of which this machine has applied {cursor.seq} entries "
            f"({log.space}). Nothing was changed here. Restore the engine's own backup."
        )
    if extent.space != log.space:
        raise EngineError(
            f"There is another space at the engine's address now ({extent.space}, with {extent.last} entries) than the "
            f"one of which this machine has applied {cursor.seq} entries ({log.space}). Nothing was changed here. "
            "Restore the engine's own backup."
        )
    if cursor.seq < extent.first or cursor.seq == 0:
        return True
    what = "lacks" if found is None else "has changed" if digest_of(found) != cursor.last else ""
    if what:
        raise EngineError(
            f"The engine {what} entry {cursor.seq} of space {log.space}, which this machine has applied. Nothing was "
            "changed here. Restore the engine's own backup."
        )
    return True
