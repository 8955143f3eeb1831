"""Agents on workers, and the workers, as a replica of an engine knows them."""

import sqlite3
from collections.abc import Collection
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from teamwright.core.data.job import JobResult
from teamwright.core.data.letter import JobStatus
from teamwright.core.data.team import Member, ProcessId, Refused
from teamwright.core.ids import AgentId
from teamwright.store.acts.remotes import (
    PASSED_OVER,
    AnswerWorker,
    AskLead,
    BeginRemote,
    ClaimRemote,
    DrainWorker,
    DropQuestion,
    EndRemote,
    ExpireRemote,
    OfferSlots,
    SaveRemote,
    StartRemote,
    StopRemote,
)
from teamwright.store.db.database import Database
from teamwright.store.db.statements import fetch_all
from teamwright.store.tables.rows.processes import Lease
from teamwright.store.tables.rows.remotes import (
    Remote,
    find_remote,
    select_of_worker,
    select_open,
    select_remotes,
    wait_words,
)

__all__ = ["BeginRemote", "Consult", "OfferSlots", "Remote", "RemoteTable", "Worker"]


class Worker(Struct, frozen=True):
    """A process that runs agents for others."""

    process: ProcessId
    name: str
    host: str
    version: str
    slots: int
    used: int
    labels: dict[str, str]
    providers: tuple[str, ...]
    state: str  # ready, draining, lost
    since: int  # milliseconds: joined, or gone
    agents: tuple[AgentId, ...]


class Consult(Struct, frozen=True):
    """A worker's question to the process that leads. `answer` is None until there is one."""

    id: str
    agent: AgentId
    kind: str
    body: dict[str, Any]
    at: int
    answer: dict[str, Any] | None = None


class RemoteTable(Struct, frozen=True):
    _db: Database

    # --- for leads

    async def begin(self, begun: BeginRemote) -> Member | Refused | None:
        return await self._db.write(begun)

    async def stop(self, agent: AgentId, why: str = "") -> bool:
        """False if it had already ended."""
        return await self._db.write(StopRemote(agent, why))

    async def expire(self, agent: AgentId, seconds: float) -> bool:
        return await self._db.write(ExpireRemote(agent, seconds))

    async def answer(self, id: str, answer: dict[str, Any]) -> bool:
        return await self._db.write(AnswerWorker(id, answer))

    async def now(self) -> int:
        """The time of the last entry, by the engine's clock, which all times in rows are from."""
        return await self._db.read(lambda db: db.execute("SELECT at FROM space").fetchone()[0])

    async def of_team(self, team: str) -> list[Remote]:
        return await self._db.read(lambda db: select_remotes(db, "team = ?", team))

    async def questions(self, agents: Collection[AgentId]) -> list[Consult]:
        """Open questions of these agents."""
        return [found for found in await self._db.read(_open_consults) if found.agent in agents]

    # --- for workers

    async def offer(self, offer: OfferSlots) -> None:
        await self._db.write(offer)

    async def drain(self) -> None:
        await self._db.write(DrainWorker())

    async def given(self, process: ProcessId) -> list[Remote]:
        """Agents that a worker runs, or is to run."""
        return await self._db.read(lambda db: select_of_worker(db, process))

    async def is_passed_over(self, process: ProcessId) -> bool:
        """Whether it failed to claim what it was given. It gets nothing more until it offers its slots again."""
        sql = "SELECT 1 FROM workers WHERE process = ? AND draining = ?"
        return bool(await self._db.read(fetch_all(sql, (process, PASSED_OVER))))

    async def claim(self, agent: AgentId) -> Lease | Refused:
        return await self._db.write(ClaimRemote(agent))

    async def started(self, agent: AgentId, progress: int) -> None:
        await self._db.write(StartRemote(agent, progress))

    async def saved(self, agent: AgentId, branch: str) -> None:
        await self._db.write(SaveRemote(agent, branch))

    async def ended(self, agent: AgentId, status: JobStatus, result: JobResult, branch: str = "") -> bool:
        """False: it had already ended, or something is left to read."""
        return await self._db.write(EndRemote(agent, status, result, branch))

    async def ask(self, id: str, agent: AgentId, kind: Any, body: dict[str, Any]) -> None:
        await self._db.write(AskLead(id, agent, kind, body))

    async def asked(self, id: str) -> Consult | None:
        return await self._db.read(partial(_consult, id=id))

    async def drop(self, id: str) -> None:
        await self._db.write(DropQuestion(id))

    # --- for everybody

    async def find(self, agent: AgentId) -> Remote | None:
        return await self._db.read(partial(find_remote, agent=agent))

    async def all_open(self) -> list[Remote]:
        """Agents that have not ended."""
        return await self._db.read(select_open)

    async def waits_for(self, remote: Remote) -> str:
        """Why it has no worker, in words; empty if it has one."""
        return await self._db.read(partial(wait_words, remote=remote))

    async def workers(self) -> list[Worker]:
        return await self._db.read(_workers)


def _consult(db: sqlite3.Connection, id: str) -> Consult | None:
    row = db.execute("SELECT id, agent, kind, body, at, answer FROM consults WHERE id = ?", (id,)).fetchone()
    return None if row is None else _read_consult(row)


def _open_consults(db: sqlite3.Connection) -> list[Consult]:
    sql = "SELECT id, agent, kind, body, at, answer FROM consults WHERE answer IS NULL ORDER BY at, id"
    return [_read_consult(row) for row in db.execute(sql)]


def _read_consult(row: tuple[Any, ...]) -> Consult:
    id, agent, kind, body, at, answer = row
    return Consult(id, agent, kind, msgspec.json.decode(body), at, msgspec.json.decode(answer) if answer else None)


def _workers(db: sqlite3.Connection) -> list[Worker]:
    sql = """
        SELECT workers.process, workers.name, host, version, slots, labels, providers, draining, joined, gone
        FROM workers JOIN hosts ON hosts.process = workers.process ORDER BY workers.n
    """
    found: list[Worker] = []
    for process, name, host, version, slots, labels, providers, draining, joined, gone in db.execute(sql).fetchall():
        agents = tuple(remote.agent for remote in select_of_worker(db, process))
        state = "lost" if gone else "draining" if draining else "ready"
        told = dict(msgspec.json.decode(labels, type=list[tuple[str, str]]))
        keys = tuple(msgspec.json.decode(providers, type=list[str]))
        worker = Worker(process, name, host, version, slots, len(agents), told, keys, state, gone or joined, agents)
        found.append(worker)
    return found
