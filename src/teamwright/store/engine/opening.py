"""Opens the replica of a space, which is below `engines` and shared by all processes of the machine."""

import os
import platform
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from teamwright import __version__
from teamwright.core.data.team import ProcessId
from teamwright.core.errors import UsageError
from teamwright.osfiles.locks import hold
from teamwright.store.acts.hosts import LEASES, JoinHost
from teamwright.store.db.database import open_database
from teamwright.store.db.liveness import lock_path
from teamwright.store.engine.port import EngineError, Log, Objects
from teamwright.store.engine.presence import Living
from teamwright.store.engine.rebuild import Rebuilder, check_history
from teamwright.store.engine.replica import Parts, Replica
from teamwright.store.engine.snapshot import EVERY, take_snapshot
from teamwright.store.engine.tables import Prepare, read_cursor

LEASE = 15.0  # seconds
# A sync is needed only when the write-ahead log is copied back, which is seldom. Notes of changes are in memory.
_RELAXED = ("synchronous = NORMAL", "wal_autocheckpoint = 4000", "temp_store = MEMORY", "cache_size = -8000")
_FAR = 2000  # missing entries from which on a snapshot is fetched instead


def read_lease(env: Mapping[str, str]) -> float:
    said = env.get("TEAMWRIGHT_LEASE_SECONDS", "")
    try:
        lease = float(said) if said else LEASE
    except ValueError:
        lease = 0.0
    if not LEASES[0] <= lease * 1000 <= LEASES[1]:
        raise UsageError(f"TEAMWRIGHT_LEASE_SECONDS is {said!r}: it is a number of seconds from 3 to 300.")
    return lease


async def open_replica(
    engines: Path, log: Log, objects: Objects | None = None, *, lease: float = LEASE, joins: bool = True
) -> Replica:
    """Without `joins` it only reads, and nobody knows of it."""
    database = await open_database(engines / log.space / "state.db")
    try:
        await database.read(relax)
        cursor = await database.write(Prepare())
        await check_history(log, cursor)
        extent = await log.extent()
        if objects is not None and extent.last - cursor.seq > _FAR and cursor.seq <= extent.last - EVERY:
            await take_snapshot(database, objects)
            await database.write(Prepare())  # a snapshot of an earlier version lacks tables
        cursor = await database.read(read_cursor)
        if cursor.seq + 1 < extent.first:
            raise EngineError(f"The engine has no entries before {extent.first}, and no snapshot that could be used.")
        process = ProcessId("p" + os.urandom(8).hex())
        lock = hold(lock_path(database.path.parent / "run", process)) if joins else None
        living, host = Living(database.path, objects), JoinHost(platform.node(), __version__, round(lease * 1000))
        return Replica(Parts(database, log, process, lock, living, host, Rebuilder(database, log)), cursor.seq)
    except BaseException:
        await database.close()
        raise


def relax(db: sqlite3.Connection) -> None:
    """Sync seldom: the replica can be rebuilt from the log, and the write-ahead log keeps it from being torn.

    Call this before any table in memory is made: it drops those.
    """
    for setting in _RELAXED:
        db.execute(f"PRAGMA {setting}")
