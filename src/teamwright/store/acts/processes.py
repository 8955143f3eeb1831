"""Acts on processes, and on which of them runs an agent."""

import sqlite3

from msgspec import Struct

from teamwright.core.data.team import ProcessId, Refused
from teamwright.core.ids import AgentId
from teamwright.core.policies.authority import Demand
from teamwright.store.acts.act import Context
from teamwright.store.tables.rows.agents import agent_number
from teamwright.store.tables.rows.processes import Lease, Process, find_lease, process_number


class RegisterProcess(Struct, frozen=True):
    """Register a process, or update a known one: its bell may have changed. Deletes the rows of dead ones and returns
    their ids."""

    process: Process

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand | None:
        return Demand() if self.process.id == ctx.process else None

    def apply(self, db: sqlite3.Connection, ctx: Context) -> list[ProcessId]:
        new = self.process
        known = () if ctx.keeps_dead else db.execute("SELECT id FROM processes ORDER BY n").fetchall()
        gone = [id for (id,) in known if not ctx.alive(id)]
        db.executemany("DELETE FROM processes WHERE id = ?", [(id,) for id in gone])
        sql = """
            INSERT INTO processes (id, session, pid, started, bell, at) VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT (id) DO UPDATE SET session = excluded.session, bell = excluded.bell
        """
        db.execute(sql, (new.id, new.session, new.pid, new.started, new.bell, ctx.now))
        return gone


class LeaveProcess(Struct, frozen=True):
    """A process leaves; whatever it held is free."""

    id: ProcessId

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand | None:
        return Demand() if self.id == ctx.process else None

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        db.execute("DELETE FROM processes WHERE id = ?", (self.id,))


class ClaimAgent(Struct, frozen=True):
    """Take the right to run an agent and to write its transcript; refused while another living process has it."""

    agent: AgentId
    process: ProcessId

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand | None:
        """A worker has the lease of what it was given, and may claim no other agent."""
        lease = find_lease(db, self.agent)
        mine = lease is not None and lease.process == ctx.process == self.process
        return Demand((self.agent,)) if mine else None

    def apply(self, db: sqlite3.Connection, ctx: Context) -> Lease | Refused:
        me, agent = process_number(db, self.process), agent_number(db, self.agent)
        lease = find_lease(db, self.agent)
        if lease is not None and lease.process == self.process:
            return lease
        if lease is not None and lease.process is not None and ctx.alive(lease.process):
            return Refused("held", f"Agent {self.agent} is run by another process, which lives.")
        sql = """
            INSERT INTO leases (agent, process, epoch) VALUES (?, ?, 1)
            ON CONFLICT (agent) DO UPDATE SET process = excluded.process, epoch = epoch + 1 RETURNING epoch
        """
        return Lease(self.process, db.execute(sql, (agent, me)).fetchone()[0])


class ReleaseAgent(Struct, frozen=True):
    """Release an agent. False if it was not this process's."""

    agent: AgentId
    process: ProcessId

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand((self.agent,))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool:
        sql = """
            UPDATE leases SET process = NULL WHERE agent = (SELECT n FROM agents WHERE id = ?)
                AND process = (SELECT n FROM processes WHERE id = ?)
        """
        return db.execute(sql, (self.agent, self.process)).rowcount > 0
