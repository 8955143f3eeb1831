"""Living processes and the agents that each of them runs; a process lives while it holds its lock in `run/`."""

import fcntl
import os
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec import Struct

from teamwright.core.data.team import ProcessId, Refused
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, SessionId
from teamwright.osfiles.locks import Lock, hold
from teamwright.osfiles.private import fault
from teamwright.store.db.database import Database
from teamwright.store.db.statements import change, fetch_all
from teamwright.store.tables.state import agent_number, now_ms


class Process(Struct, frozen=True):
    id: ProcessId
    session: SessionId
    pid: int
    started: int  # by the kernel's clock, 0 if unknown: tells it from a later process with the same pid
    bell: str  # the address of its bell


class Lease(Struct, frozen=True):
    """Which process runs an agent. Each change names the epoch, so that a late former holder is detected."""

    process: ProcessId | None
    epoch: int


class ProcessTable:
    def __init__(self, database: Database, run: Path, now: Callable[[], int] = now_ms) -> None:
        """`run` is the directory of locks."""
        self._db = database
        self._run = run
        self._now = now
        self._locks: dict[ProcessId, Lock] = {}

    async def register(self, session: SessionId, *, bell: str = "", started: int = 0) -> Process:
        """This process, alive for the others until `leave` or its end. The rows of dead ones are swept away."""
        me = Process(ProcessId("p" + os.urandom(8).hex()), session, os.getpid(), started, bell)
        # Nobody else makes or looks for a file of this name before the row is there, so the lock is free.
        lock = hold(self._lock_path(me.id))
        assert lock is not None
        self._locks[me.id] = lock
        at = self._now()

        def work(db: sqlite3.Connection) -> list[ProcessId]:
            gone = [id for (id,) in db.execute("SELECT id FROM processes") if not self.alive(id)]
            db.executemany("DELETE FROM processes WHERE id = ?", [(id,) for id in gone])
            db.execute(
                "INSERT INTO processes (id, session, pid, started, bell, at) VALUES (?, ?, ?, ?, ?, ?)",
                (me.id, me.session, me.pid, me.started, me.bell, at),
            )
            return gone

        for id in await self._db.write(work):
            self._lock_path(id).unlink(missing_ok=True)
        return me

    async def leave(self, process: ProcessId) -> None:
        """Whatever it held is free."""
        await self._db.write(change("DELETE FROM processes WHERE id = ?", (process,)))
        if lock := self._locks.pop(process, None):
            self._lock_path(process).unlink(missing_ok=True)
            lock.release()

    def alive(self, process: ProcessId) -> bool:
        """Asks the kernel. Once gone is gone for ever: a process's id is never given again."""
        path = self._lock_path(process)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise fault("open", path, error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two who ask do not take each other for the holder
        except BlockingIOError:
            return True
        except OSError as error:
            raise fault("lock", path, error) from error
        finally:
            os.close(fd)
        return False

    async def process(self, id: ProcessId) -> Process | None:
        rows = await self._select("WHERE id = ?", id)
        return rows[0] if rows else None

    async def living(self) -> list[Process]:
        """All that live now."""
        return [process for process in await self._select("ORDER BY n") if self.alive(process.id)]

    # --- who runs an agent

    async def claim_agent(self, agent: AgentId, process: ProcessId) -> Lease | Refused:
        """The right to run an agent and to write its transcript; refused while another living process has it."""

        def work(db: sqlite3.Connection) -> Lease | Refused:
            me, number = process_number(db, process), agent_number(db, agent)
            lease = _lease(db, agent)
            if lease is not None and lease.process == process:
                return lease
            if lease is not None and lease.process is not None and self.alive(lease.process):
                return Refused("held", f"Agent {agent} is run by another process, which lives.")
            sql = """
                INSERT INTO leases (agent, process, epoch) VALUES (?, ?, 1)
                ON CONFLICT (agent) DO UPDATE SET process = excluded.process, epoch = epoch + 1 RETURNING epoch
            """
            return Lease(process, db.execute(sql, (number, me)).fetchone()[0])

        return await self._db.write(work)

    async def release_agent(self, agent: AgentId, process: ProcessId) -> bool:
        """False if it was not this process's."""
        sql = """
            UPDATE leases SET process = NULL WHERE agent = (SELECT n FROM agents WHERE id = ?)
                AND process = (SELECT n FROM processes WHERE id = ?)
        """
        return await self._db.write(change(sql, (agent, process))) > 0

    async def lease(self, agent: AgentId) -> Lease | None:
        return await self._db.read(partial(_lease, agent=agent))

    async def epoch_of(self, agent: AgentId) -> int:
        return await self._db.read(partial(lease_epoch, agent=agent))

    async def holder(self, agent: AgentId) -> Process | None:
        """The living process that runs an agent."""
        lease = await self.lease(agent)
        if lease is None or lease.process is None or not self.alive(lease.process):
            return None
        return await self.process(lease.process)

    async def waited_for(self, team: str) -> list[AgentId]:
        """Members that no living process runs, though letters wait for them."""
        sql = """
            SELECT agents.id, processes.id FROM members JOIN agents ON agents.n = members.agent
                LEFT JOIN leases ON leases.agent = members.agent LEFT JOIN processes ON processes.n = leases.process
            WHERE members.team = (SELECT n FROM teams WHERE name = ?) AND members.state <> 'shutdown'
                AND EXISTS (SELECT 1 FROM letters WHERE letters.agent = members.agent AND delivered_at IS NULL)
        """
        rows = await self._db.read(fetch_all(sql, (team,)))
        return [AgentId(agent) for agent, process in rows if process is None or not self.alive(process)]

    async def of_team(self, team: str) -> list[Process]:
        """The living processes that run a member of a team, the lead's included: whom a change concerns."""
        found = await self._select(
            """
            WHERE n IN (
                SELECT leases.process FROM members JOIN leases ON leases.agent = members.agent
                WHERE members.team = (SELECT n FROM teams WHERE name = ?)
                UNION SELECT process FROM teams WHERE name = ?
            ) ORDER BY n
            """,
            team,
            team,
        )
        return [process for process in found if self.alive(process.id)]

    def _lock_path(self, process: str) -> Path:
        return self._run / f"process-{process}.lock"

    async def _select(self, where: str, *values: str) -> list[Process]:
        sql = f"SELECT id, session, pid, started, bell FROM processes {where}"  # noqa: S608
        return [Process(*row) for row in await self._db.read(fetch_all(sql, values))]


def process_number(db: sqlite3.Connection, id: ProcessId) -> int:
    row = db.execute("SELECT n FROM processes WHERE id = ?", (id,)).fetchone()
    if row is None:
        raise StoreError(f"Process {id} is not registered in the store: it has left, or the store is a new one.")
    return row[0]


def _lease(db: sqlite3.Connection, agent: AgentId) -> Lease | None:
    sql = """
        SELECT processes.id, epoch FROM leases LEFT JOIN processes ON processes.n = leases.process
        WHERE agent = (SELECT n FROM agents WHERE id = ?)
    """
    row = db.execute(sql, (agent,)).fetchone()
    return Lease(*row) if row else None


def lease_epoch(db: sqlite3.Connection, agent: AgentId) -> int:
    """0 where nobody ever claimed it."""
    lease = _lease(db, agent)
    return lease.epoch if lease else 0
