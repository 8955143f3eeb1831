"""Background jobs in `state.db`: their status, result and whether the owner has been notified."""

from collections.abc import Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from teamwright.core.data.job import JobKind, JobResult
from teamwright.core.data.letter import JobStatus, Letter, Prompt, Said
from teamwright.core.ids import AgentId, CallId, JobId, LetterId, SessionId
from teamwright.store.acts.jobs import (
    CLAIMED,
    NONE,
    OWED,
    POSTED,
    BeginJob,
    ClaimNotice,
    FinishJob,
    MoveToBackground,
    OweAgain,
    PostNotice,
)
from teamwright.store.db.database import Database
from teamwright.store.db.statements import fetch_all
from teamwright.store.tables.rows.agents import NewAgent

__all__ = ["CLAIMED", "NONE", "OWED", "POSTED", "JobRow", "JobTable", "NewAgent"]


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
    session: SessionId | None = None  # in which it began; None: the one at hand
    home: SessionId | None = None  # the session that its owner belongs to


class JobTable(Struct, eq=False):
    _db: Database

    async def begin(
        self, job: "JobRow", session: SessionId, *, agent: NewAgent | None = None, letter: Letter | None = None
    ) -> None:
        """Store a job's row, its agent's row and its first letter, all or nothing."""
        what = (job.kind, job.call, job.description, job.background, job.started)
        await self._db.write(BeginJob(job.id, job.run, session, job.owner, *what, agent, letter))

    async def send_to_background(self, job: JobId, run: int) -> None:
        await self._db.write(MoveToBackground(job, run))

    async def finish(self, job: JobId, run: int, status: JobStatus, result: JobResult, *, owed: bool) -> bool:
        """Store the final state and, in the same transaction, whether the owner is owed a notice. False: it was already
        final."""
        return await self._db.write(FinishJob(job, run, status, result, owed))

    async def post_notice(self, job: JobId, run: int, letter: Letter) -> bool:
        """Post the letter, unless the notice was claimed or posted meanwhile."""
        return await self._db.write(PostNotice(job, run, letter))

    async def claim(self, job: JobId, run: int, call: CallId, letter: LetterId) -> bool:
        """The owner has read the end by itself. False if a letter has already told it."""
        return await self._db.write(ClaimNotice(job, run, call, letter))

    async def owe_again(self, job: JobId, run: int) -> None:
        """Owe the notice again: a claim did not reach its reader's transcript."""
        await self._db.write(OweAgain(job, run))

    async def all(self, session: SessionId) -> list[JobRow]:
        """Every run of every job of a session, in the order of their start."""
        return await self._select("jobs.session = (SELECT n FROM sessions WHERE id = ?)", session)

    async def untold_below(self, agent: AgentId) -> list[JobRow]:
        """Runs of an agent, and of those that it has started, whose end the owner may not have read."""
        where = f"""
            (status = 'running' OR notice IN ({OWED}, {CLAIMED})) AND jobs.owner IN (
                WITH RECURSIVE below (n, id) AS (
                    SELECT n, id FROM agents WHERE id = ?
                    UNION SELECT agents.n, agents.id FROM agents JOIN below ON agents.parent = below.id
                ) SELECT n FROM below
            )
        """  # noqa: S608
        return await self._select(where, agent)

    async def begun_by(self, owner: AgentId, call: CallId) -> JobRow | None:
        """The last run that a call has begun."""
        return next(reversed(await self._select("agents.id = ? AND call = ?", owner, call)), None)

    async def find(self, job: JobId, run: int) -> JobRow | None:
        return next(iter(await self._select("jobs.id = ? AND run = ?", job, run)), None)

    async def _select(self, where: str, *values: object) -> list[JobRow]:
        sql = f"""
            SELECT jobs.id, run, agents.id, jobs.kind, call, description, status, background, notice, claim, data,
                started, ended, (SELECT id FROM sessions WHERE n = jobs.session),
                (SELECT id FROM sessions WHERE n = agents.session)
            FROM jobs JOIN agents ON agents.n = jobs.owner WHERE {where} ORDER BY jobs.n
        """  # noqa: S608
        return [_row(row) for row in await self._db.read(fetch_all(sql, values))]

    async def agents(self, session: SessionId) -> list[NewAgent]:
        """Every agent that a session has started, without the main one."""
        sql = """
            SELECT agents.id, sessions.id, parent, kind, name, depth FROM agents
            JOIN sessions ON sessions.n = agents.session WHERE sessions.id = ? AND parent IS NOT NULL ORDER BY agents.n
        """
        rows = await self._db.read(fetch_all(sql, (session,)))
        return [NewAgent(*row) for row in rows]

    async def waited_for(self, session: SessionId) -> list[AgentId]:
        """Agents whose last run was over when words were stored for them that nobody has read."""
        sql = """
            SELECT agents.id, letter FROM letters JOIN agents ON agents.n = letters.agent
            JOIN jobs ON jobs.id = agents.id AND run = (SELECT max(run) FROM jobs WHERE id = agents.id)
            WHERE agents.session = (SELECT n FROM sessions WHERE id = ?) AND delivered_at IS NULL
                AND (ended <= sent_at OR status IN ('completed', 'failed'))
        """
        rows = await self._db.read(fetch_all(sql, (session,)))
        return list(dict.fromkeys(AgentId(id) for id, letter in rows if _is_words(letter)))


def _is_words(letter: bytes) -> bool:
    with suppress(msgspec.DecodeError):  # its reader sets it aside
        return isinstance(msgspec.json.decode(letter, type=Letter).body, Said | Prompt)
    return False


def _row(row: Sequence[object]) -> JobRow:
    values = list(row)
    values[7] = bool(values[7])
    data = values[10]
    values[10] = msgspec.json.decode(data, type=JobResult) if isinstance(data, bytes) else JobResult()
    return JobRow(*values)  # pyright: ignore[reportArgumentType] -- the columns of `_select`, in their order
