"""Rows of processes and of the agents that each of them runs."""

import sqlite3

from msgspec import Struct

from teamwright.core.data.team import ProcessId
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, SessionId


class Process(Struct, frozen=True):
    id: ProcessId
    session: SessionId
    pid: int
    started: int  # by the kernel's clock, 0 if unknown; tells the process from a later one with the same pid
    bell: str  # address of its bell


class Lease(Struct, frozen=True):
    """Which process runs an agent. Each change names the epoch, so that a late former holder is detected."""

    process: ProcessId | None
    epoch: int


def process_number(db: sqlite3.Connection, id: ProcessId) -> int:
    row = db.execute("SELECT n FROM processes WHERE id = ?", (id,)).fetchone()
    if row is None:
        raise StoreError(f"Process {id} is not registered in the store: it has left, or the store is a new one.")
    return row[0]


def find_lease(db: sqlite3.Connection, agent: AgentId) -> Lease | None:
    sql = """
        SELECT processes.id, epoch FROM leases LEFT JOIN processes ON processes.n = leases.process
        WHERE agent = (SELECT n FROM agents WHERE id = ?)
    """
    row = db.execute(sql, (agent,)).fetchone()
    return Lease(*row) if row else None


def lease_epoch(db: sqlite3.Connection, agent: AgentId) -> int:
    """0 if nobody has ever claimed it."""
    lease = find_lease(db, agent)
    return lease.epoch if lease else 0
