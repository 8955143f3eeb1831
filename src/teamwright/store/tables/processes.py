"""Living processes and the agents that each runs. On one machine a process holds a lock in `run/` while it lives."""

import os
from functools import partial
from pathlib import Path

from teamwright.core.data.team import ProcessId, Refused
from teamwright.core.ids import AgentId, SessionId
from teamwright.osfiles.locks import Lock
from teamwright.store.acts.processes import ClaimAgent, LeaveProcess, RegisterProcess, ReleaseAgent
from teamwright.store.db.database import Database
from teamwright.store.db.liveness import lock_path
from teamwright.store.db.statements import fetch_all
from teamwright.store.tables.rows.processes import Lease, Process, find_lease, lease_epoch

__all__ = ["Lease", "Process", "ProcessTable"]


class ProcessTable:
    def __init__(self, database: Database, run: Path) -> None:
        """`run` is the directory of locks, beside the database."""
        self._db = database
        self._run = run
        self._locks: dict[ProcessId, Lock] = {}

    async def register(self, session: SessionId, *, bell: str = "", started: int = 0) -> Process:
        """Register this process: it is alive for the others until `leave` or its end. Deletes the rows of dead ones."""
        id, lock = self._db.own_process()
        me = Process(id, session, os.getpid(), started, bell)
        if lock is not None:
            self._locks[me.id] = lock
        for id in await self._db.write(RegisterProcess(me)):
            self._lock_path(id).unlink(missing_ok=True)
        return me

    async def leave(self, process: ProcessId) -> None:
        """Leave; whatever the process held is free."""
        await self._db.write(LeaveProcess(process))
        if lock := self._locks.pop(process, None):
            self._lock_path(process).unlink(missing_ok=True)
            lock.release()

    def alive(self, process: ProcessId) -> bool:
        """On one machine the kernel is asked. A process's id is never used again."""
        return self._db.alive(process)

    async def note_deaths(self) -> None:
        """Call this before asking about a process that has just ended here."""
        await self._db.note_deaths()

    async def process(self, id: ProcessId) -> Process | None:
        rows = await self._select("WHERE id = ?", id)
        return rows[0] if rows else None

    async def living(self) -> list[Process]:
        """All living processes."""
        return [process for process in await self._select("ORDER BY n") if self.alive(process.id)]

    # --- leases of agents

    async def claim_agent(self, agent: AgentId, process: ProcessId) -> Lease | Refused:
        """Take the right to run an agent and to write its transcript; refused while another living process has it."""
        return await self._db.write(ClaimAgent(agent, process))

    async def release_agent(self, agent: AgentId, process: ProcessId) -> bool:
        """False if it was not this process's."""
        return await self._db.write(ReleaseAgent(agent, process))

    async def lease(self, agent: AgentId) -> Lease | None:
        return await self._db.read(partial(find_lease, agent=agent))

    async def epoch_of(self, agent: AgentId) -> int:
        return await self._db.read(partial(lease_epoch, agent=agent))

    async def holder(self, agent: AgentId) -> Process | None:
        """The living process that runs an agent."""
        lease = await self.lease(agent)
        if lease is None or lease.process is None or not self.alive(lease.process):
            return None
        return await self.process(lease.process)

    async def held(self) -> list[AgentId]:
        """Agents that living processes run."""
        sql = """
            SELECT agents.id, processes.id FROM processes
                CROSS JOIN leases ON leases.process = processes.n JOIN agents ON agents.n = leases.agent
        """  # in this order: leases of all earlier agents stay
        rows = await self._db.read(fetch_all(sql))
        return [AgentId(agent) for agent, process in rows if self.alive(process)]

    async def waited_for(self, team: str) -> list[AgentId]:
        """Members with waiting letters that no living process runs."""
        sql = """
            SELECT agents.id, processes.id FROM members JOIN agents ON agents.n = members.agent
                LEFT JOIN leases ON leases.agent = members.agent LEFT JOIN processes ON processes.n = leases.process
            WHERE members.team = (SELECT n FROM teams WHERE name = ?) AND members.state <> 'shutdown'
                AND EXISTS (SELECT 1 FROM letters WHERE letters.agent = members.agent AND delivered_at IS NULL)
        """
        rows = await self._db.read(fetch_all(sql, (team,)))
        return [AgentId(agent) for agent, process in rows if process is None or not self.alive(process)]

    async def of_team(self, team: str) -> list[Process]:
        """The living processes that run a member of a team, including the lead's: a change concerns them."""
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

    def _lock_path(self, process: ProcessId) -> Path:
        return lock_path(self._run, process)

    async def _select(self, where: str, *values: str) -> list[Process]:
        sql = f"SELECT id, session, pid, started, bell FROM processes {where}"  # noqa: S608
        return [Process(*row) for row in await self._db.read(fetch_all(sql, values))]
