"""Acts on background jobs: their status, their result, and the notice of their end."""

import sqlite3

import msgspec
from msgspec import Struct

from teamwright.core.data.job import JobKind, JobResult
from teamwright.core.data.letter import JobStatus, Letter
from teamwright.core.ids import AgentId, CallId, JobId, LetterId, SessionId
from teamwright.core.policies.authority import Demand
from teamwright.store.acts.act import Context
from teamwright.store.tables.rows.agents import NewAgent, agent_number, insert_agent, insert_letter, session_number

NONE, OWED, POSTED, CLAIMED = range(4)  # states of the notice of its end


class BeginJob(Struct, frozen=True):
    """Store a job, its agent's row and its first letter, all or nothing."""

    id: JobId
    run: int
    session: SessionId
    owner: AgentId
    kind: JobKind
    call: CallId | None
    description: str
    background: bool
    started: int
    agent: NewAgent | None = None
    letter: Letter | None = None

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        started = () if self.agent is None else (self.agent.parent,)
        return Demand((self.owner, *started), letters=() if self.letter is None else (self.letter,))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        session = session_number(db, self.session)
        if self.agent is not None:
            insert_agent(db, self.agent)
        sql = """
            INSERT INTO jobs (id, run, session, owner, kind, call, description, status, background, started)
            VALUES (?, ?, ?, ?, ?, ?, ?, 'running', ?, ?)
        """
        what = (self.kind, self.call, self.description, self.background, self.started)
        db.execute(sql, (self.id, self.run, session, agent_number(db, self.owner), *what))
        if self.letter is not None:
            insert_letter(db, self.letter, ctx.now)


class MoveToBackground(Struct, frozen=True):
    id: JobId
    run: int

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand(_owner(db, self.id, self.run))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        db.execute("UPDATE jobs SET background = 1 WHERE id = ? AND run = ?", (self.id, self.run))


class FinishJob(Struct, frozen=True):
    """Store the final state, and whether the owner is owed a notice. False: it was already final."""

    id: JobId
    run: int
    status: JobStatus
    result: JobResult
    owed: bool

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand(_owner(db, self.id, self.run))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool:
        sql = """
            UPDATE jobs SET status = ?, notice = ?, data = ?, ended = ? WHERE id = ? AND run = ? AND status = 'running'
        """
        notice, data = OWED if self.owed else NONE, msgspec.json.encode(self.result)
        return db.execute(sql, (self.status, notice, data, ctx.now, self.id, self.run)).rowcount > 0


class PostNotice(Struct, frozen=True):
    """Post the letter, unless the notice was claimed or posted meanwhile."""

    id: JobId
    run: int
    letter: Letter

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand(_owner(db, self.id, self.run), letters=(self.letter,))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool:
        sql = "UPDATE jobs SET notice = ? WHERE id = ? AND run = ? AND notice = ?"
        if db.execute(sql, (POSTED, self.id, self.run, OWED)).rowcount == 0:
            return False
        insert_letter(db, self.letter, ctx.now)
        return True


class ClaimNotice(Struct, frozen=True):
    """The owner has read the end by itself. False if a letter has already told it."""

    id: JobId
    run: int
    call: CallId
    letter: LetterId

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand(_owner(db, self.id, self.run))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool:
        row = db.execute("SELECT notice FROM jobs WHERE id = ? AND run = ?", (self.id, self.run)).fetchone()
        if row is None or row[0] in (NONE, CLAIMED):
            return row is not None
        unread = "DELETE FROM letters WHERE id = ? AND delivered_at IS NULL"
        if row[0] == POSTED and db.execute(unread, (self.letter,)).rowcount == 0:
            return False
        sql = "UPDATE jobs SET notice = ?, claim = ? WHERE id = ? AND run = ?"
        db.execute(sql, (CLAIMED, self.call, self.id, self.run))
        return True


class OweAgain(Struct, frozen=True):
    """Owe the notice again: a claim did not reach its reader's transcript."""

    id: JobId
    run: int

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand(_owner(db, self.id, self.run))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        sql = "UPDATE jobs SET notice = ?, claim = NULL WHERE id = ? AND run = ?"
        db.execute(sql, (OWED, self.id, self.run))


def _owner(db: sqlite3.Connection, id: JobId, run: int) -> tuple[AgentId, ...]:
    sql = "SELECT agents.id FROM jobs JOIN agents ON agents.n = owner WHERE jobs.id = ? AND run = ?"
    return tuple(AgentId(owner) for (owner,) in db.execute(sql, (id, run)))
