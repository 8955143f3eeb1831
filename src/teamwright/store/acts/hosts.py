"""Acts on the processes that share a log: who joins, who was silent for too long, who comes back.

All times are those of the log's entries. A process that was silent for its lease is marked as gone: it keeps what it
held until somebody else takes it, and may come back until then.
"""

import sqlite3

from msgspec import Struct

from teamwright.core.data.team import ProcessId
from teamwright.core.policies.authority import Demand
from teamwright.store.acts.act import Context
from teamwright.store.tables.rows.remotes import forgive_worker, place_waiting, select_doubted, take_back

DOUBT = 3  # leases of silence after which a worker is taken to have died with what it ran
LEASES = 3000, 300_000  # milliseconds, at least and at most: with a shorter one all others would write all the time
KEPT = 24 * 60 * 60 * 1000  # milliseconds for which a process that is gone is remembered


class JoinHost(Struct, frozen=True):
    """The first act of a process. Processes that have been gone for a day are forgotten."""

    host: str
    version: str
    lease: int  # milliseconds of silence after which it counts as dead

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand()

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        old = db.execute("SELECT process FROM hosts WHERE gone > 0 AND gone < ?", (ctx.now - KEPT,)).fetchall()
        for (process,) in old:
            remove_host(db, process, ctx.now)
        sql = """
            INSERT INTO hosts (process, role, name, host, version, lease, beat, joined)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)
        """
        who = (ctx.process, ctx.role, ctx.name, self.host, self.version)
        lease = max(LEASES[0], min(self.lease, LEASES[1]))
        db.execute(sql, (*who, lease, ctx.now, ctx.now))


class Beat(Struct, frozen=True):
    """A sign of life, with the digest of what the process has applied, for the others to compare."""

    seq: int
    digest: str

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand()

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        db.execute("UPDATE hosts SET seen = ? WHERE process = ?", (self.seq, ctx.process))


class BuryHost(Struct, frozen=True):
    """Mark a process as gone. False if it was heard within its lease: then the process that asks is wrong, or late.

    Repeated for a worker that stays silent, it fails the agents that were left in doubt.
    """

    process: ProcessId

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand()

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool:
        sql = "UPDATE hosts SET gone = ? WHERE process = ? AND gone = 0 AND beat + lease <= ?"
        if db.execute(sql, (ctx.now, self.process, ctx.now)).rowcount == 0:
            return self._settle(db, ctx)
        take_back(db, self.process, ctx.now, lost=True)  # what a worker ran goes on elsewhere at once
        db.execute("UPDATE hosts SET held = ? WHERE process = ?", (_held(db, self.process), self.process))
        return True

    def _settle(self, db: sqlite3.Connection, ctx: Context) -> bool:
        sql = "SELECT 1 FROM hosts WHERE process = ? AND gone > 0 AND beat + lease * ? <= ?"
        late = db.execute(sql, (self.process, DOUBT, ctx.now)).fetchone() is not None
        if not late or self.process not in select_doubted(db):
            return False
        take_back(db, self.process, ctx.now, lost=True)
        return True


class LeaveHost(Struct, frozen=True):
    """A process leaves; or a lead removes one of its own machine that the kernel knows to be dead."""

    process: ProcessId

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand | None:
        return Demand() if self.process == ctx.process else None

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        if self.process != ctx.process:  # it may have died of what it ran
            take_back(db, self.process, ctx.now, lost=True)
        remove_host(db, self.process, ctx.now)


class ReturnHost(Struct, frozen=True):
    """A process that was taken for dead goes on as if nothing had happened. False if somebody has taken anything of
    its."""

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand()

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool:
        assert ctx.process is not None
        sql = "UPDATE hosts SET gone = 0, beat = ? WHERE process = ? AND (gone = 0 OR held = ?)"
        back = db.execute(sql, (ctx.now, ctx.process, _held(db, ctx.process))).rowcount > 0
        if back:
            forgive_worker(db, ctx.process, ctx.now)
        place_waiting(db, ctx.now)
        return back


class SnapshotMade(Struct, frozen=True):
    """The engine has an object with all rows as they were after this entry."""

    seq: int

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        db.execute("UPDATE space SET snapshot = max(snapshot, ?)", (self.seq,))


def remove_host(db: sqlite3.Connection, process: ProcessId, now: int) -> None:
    """Free whatever it held. The number of its last entry stays, so that none of its entries is ever applied again."""
    db.execute("UPDATE workers SET draining = 1 WHERE process = ?", (process,))
    take_back(db, process, now, lost=False)
    db.execute("DELETE FROM workers WHERE process = ?", (process,))
    db.execute("DELETE FROM blames WHERE worker = ?", (process,))
    db.execute("DELETE FROM processes WHERE id = ?", (process,))
    db.execute("DELETE FROM hosts WHERE process = ?", (process,))
    db.execute("UPDATE writers SET outcomes = x'' WHERE process = ?", (process,))


def _held(db: sqlite3.Connection, process: ProcessId) -> int:
    """How many agents a process runs and teams it leads."""
    sql = """
        SELECT (SELECT count(*) FROM leases WHERE process = processes.n)
            + (SELECT count(*) FROM teams WHERE process = processes.n) FROM processes WHERE id = ?
    """
    row = db.execute(sql, (process,)).fetchone()
    return row[0] if row else 0
