"""Background jobs in `state.db`: their status, result and whether the owner has been notified."""

import sqlite3
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from teamwright.core.data.job import JobKind, JobResult
from teamwright.core.data.letter import JobStatus, Letter
from teamwright.core.ids import AgentId, CallId, JobId, LetterId, SessionId
from teamwright.store.db.database import Database
from teamwright.store.db.statements import change, fetch_all
from teamwright.store.tables.state import agent_number, now_ms, session_number

NONE, OWED, POSTED, CLAIMED = range(4)
_letter = msgspec.json.Encoder()


class JobRow(Struct, frozen=True):
    """One run of a job as the store knows it."""

    id: JobId
    run: int
    owner: AgentId
    kind: JobKind
    call: CallId | None
    description: str
    status: JobStatus
    background: bool
    notice: int
    claim: CallId | None
    result: JobResult
    started: int
    ended: int | None


class NewAgent(Struct, frozen=True):
    """A row for an agent that is about to start."""

    id: AgentId
    session: SessionId
    parent: AgentId
    kind: str
    name: str
    depth: int


class JobTable:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def begin(
        self, job: "JobRow", session: SessionId, *, agent: NewAgent | None = None, letter: Letter | None = None
    ) -> None:
        """A job begins: its row, its agent's row and its first letter, all or nothing."""

        def work(db: sqlite3.Connection) -> None:
            number = session_number(db, session)
            if agent is not None:
                insert_agent(db, agent)
            db.execute(
                """
                INSERT INTO jobs (id, run, session, owner, kind, call, description, status, background, started)
                VALUES (?, ?, ?, ?, ?, ?, ?, 'running', ?, ?)
                """,
                (
                    job.id,
                    job.run,
                    number,
                    agent_number(db, job.owner),
                    job.kind,
                    job.call,
                    job.description,
                    job.background,
                    job.started,
                ),
            )
            if letter is not None:
                insert_letter(db, letter)

        await self._db.write(work)

    async def send_to_background(self, job: JobId, run: int) -> None:
        await self._db.write(change("UPDATE jobs SET background = 1 WHERE id = ? AND run = ?", (job, run)))

    async def finish(self, job: JobId, run: int, status: JobStatus, result: JobResult, *, owed: bool) -> bool:
        """Final state and, in the same transaction, whether its owner is owed a notice. False: it was final already."""
        data = msgspec.json.encode(result)
        values = (status, OWED if owed else NONE, data, now_ms(), job, run)
        sql = """
            UPDATE jobs SET status = ?, notice = ?, data = ?, ended = ? WHERE id = ? AND run = ? AND status = 'running'
        """
        return await self._db.write(change(sql, values)) > 0

    async def post_notice(self, job: JobId, run: int, letter: Letter) -> bool:
        """Post the letter, unless the notice was claimed or posted meanwhile."""

        def work(db: sqlite3.Connection) -> bool:
            sql = "UPDATE jobs SET notice = ? WHERE id = ? AND run = ? AND notice = ?"
            if db.execute(sql, (POSTED, job, run, OWED)).rowcount == 0:
                return False
            insert_letter(db, letter)
            return True

        return await self._db.write(work)

    async def claim(self, job: JobId, run: int, call: CallId, letter: LetterId) -> bool:
        """The owner has read the end by itself. False if it has been told by a letter already."""

        def work(db: sqlite3.Connection) -> bool:
            row = db.execute("SELECT notice FROM jobs WHERE id = ? AND run = ?", (job, run)).fetchone()
            if row is None or row[0] in (NONE, CLAIMED):
                return row is not None
            sql = "DELETE FROM letters WHERE id = ? AND delivered_at IS NULL"
            if row[0] == POSTED and db.execute(sql, (letter,)).rowcount == 0:
                return False
            db.execute("UPDATE jobs SET notice = ?, claim = ? WHERE id = ? AND run = ?", (CLAIMED, call, job, run))
            return True

        return await self._db.write(work)

    async def owe_again(self, job: JobId, run: int) -> None:
        """A claim did not reach its reader's transcript."""
        sql = "UPDATE jobs SET notice = ?, claim = NULL WHERE id = ? AND run = ?"
        await self._db.write(change(sql, (OWED, job, run)))

    async def all(self, session: SessionId) -> list[JobRow]:
        """Every run of every job of a session, in the order of their start."""
        sql = """
            SELECT jobs.id, run, agents.id, jobs.kind, call, description, status, background, notice, claim, data,
                started, ended
            FROM jobs JOIN agents ON agents.n = jobs.owner
            WHERE jobs.session = (SELECT n FROM sessions WHERE id = ?) ORDER BY jobs.n
        """
        rows = await self._db.read(fetch_all(sql, (session,)))
        return [_row(row) for row in rows]

    async def agents(self, session: SessionId) -> list[NewAgent]:
        """Every agent that a session has started, the main one left out."""
        sql = """
            SELECT agents.id, sessions.id, parent, kind, name, depth FROM agents
            JOIN sessions ON sessions.n = agents.session WHERE sessions.id = ? AND parent IS NOT NULL ORDER BY agents.n
        """
        rows = await self._db.read(fetch_all(sql, (session,)))
        return [NewAgent(*row) for row in rows]


def insert_letter(db: sqlite3.Connection, letter: Letter) -> None:
    sql = "INSERT INTO letters (id, agent, letter, sent_at) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
    db.execute(sql, (letter.id, agent_number(db, letter.to), _letter.encode(letter), now_ms()))


def insert_agent(db: sqlite3.Connection, agent: NewAgent) -> None:
    sql = "INSERT INTO agents (id, session, parent, kind, name, depth) VALUES (?, ?, ?, ?, ?, ?)"
    db.execute(sql, (agent.id, session_number(db, agent.session), agent.parent, agent.kind, agent.name, agent.depth))


def _row(row: Sequence[object]) -> JobRow:
    values = list(row)
    values[7] = bool(values[7])
    data = values[10]
    values[10] = msgspec.json.decode(data, type=JobResult) if isinstance(data, bytes) else JobResult()
    return JobRow(*values)  # pyright: ignore[reportArgumentType] -- the columns of `all`, in its order
