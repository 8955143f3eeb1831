"""Registry of all background jobs: one set of states and exactly one notice of each end."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import anyio
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.event import Event, JobEnded, JobStarted
from teamwright.core.data.job import JobKind, JobResult
from teamwright.core.data.letter import SYSTEM, JobStatus, Letter, Notice, Prompt
from teamwright.core.data.letters.text import skill_output
from teamwright.core.data.message import Text
from teamwright.core.ids import AgentId, CallId, JobId, LetterId, SessionId
from teamwright.runtime.concurrency.latch import Latch
from teamwright.store.tables.jobs import CLAIMED, NONE, OWED, JobRow, JobTable, NewAgent
from teamwright.store.tables.state import now_ms

if TYPE_CHECKING:
    from teamwright.host.git.worktrees.worktree import KeptTree, Worktree

Tell = Callable[[AgentId, Event], None]
Ring = Callable[[AgentId], None]


class Remains(Protocol):
    """What agents of a process that is gone have left."""

    async def answered(self, row: JobRow) -> bool:
        """Whether the result of the call that claimed its notice is in its owner's transcript."""
        ...

    async def result(self, row: JobRow) -> JobResult:
        """What an agent at work had said since its last end, and what it had used."""
        ...

    async def kept(self, row: JobRow) -> str:
        """Words about an agent's worktree, for the end of its report."""
        ...

    def output(self, row: JobRow) -> Path:
        """The file with its output."""
        ...


class Job:
    """One run. `settled`: its caller need not wait any longer, because it has ended or was sent to the background."""

    def __init__(
        self,
        id: JobId,
        kind: JobKind,
        *,
        owner: AgentId,
        output: Path,
        description: str,
        call: CallId | None = None,
        background: bool = False,
        run: int = 1,
    ) -> None:
        self.id, self.owner, self.run = id, owner, run
        self.kind: JobKind = kind
        self.call, self.description, self.output = call, description, output
        self.background = background
        self.started = now_ms()
        self.status: JobStatus = "running"
        self.result = JobResult()
        self.settled, self.ended, self.closed = Latch(), Latch(), Latch()
        self.named = False  # to its owner, as one that still runs after a turn
        self.concluding = False  # its end is being recorded: it cannot be sent to the background any more
        self.scope = anyio.CancelScope()
        self.stopped_because = ""  # the reason, if one was given
        self.tree: Worktree | None = None  # its worktree, closed after its end
        self.kept: KeptTree | None = None
        self.url = ""  # of a job on a worker
        self.notes: tuple[str, ...] = ()  # for its starter

    def row(self) -> JobRow:
        return JobRow(
            self.id,
            self.run,
            self.owner,
            self.kind,
            self.call,
            self.description,
            self.status,
            self.background,
            NONE,
            None,
            self.result,
            self.started,
            None,
        )


class Jobs(Struct, eq=False):
    _table: JobTable
    _session: SessionId
    _tell: Tell
    _ring: Ring
    _jobs: dict[JobId, Job] = {}
    _by_call: dict[tuple[AgentId, CallId], Job] = {}
    _open: dict[AgentId, dict[JobId, Job]] = {}  # unfinished ones, by owner: thousands may have ended

    def get(self, id: str) -> Job | None:
        return self._jobs.get(JobId(id))

    def begun_by(self, owner: AgentId, call: CallId) -> Job | None:
        return self._by_call.get((owner, call))

    def all(self) -> list[Job]:
        return list(self._jobs.values())

    def running(self, owner: AgentId | None = None) -> list[Job]:
        return [j for j in self._jobs.values() if j.status == "running" and (owner is None or j.owner == owner)]

    def unfinished(self, owner: AgentId) -> list[Job]:
        """Jobs whose end, or the letter about it, is still to come."""
        return list(self._open.get(owner, {}).values())

    async def begin(self, job: Job, *, agent: NewAgent | None = None, letter: Letter | None = None) -> None:
        before = self._jobs.get(job.id)  # an earlier run
        self._keep(job)
        try:
            await self._table.begin(job.row(), self._session, agent=agent, letter=letter)
        except BaseException:
            del self._jobs[job.id], self._open[job.owner][job.id]
            if before is not None:
                self._jobs[job.id] = before
            raise
        self.adopt(job)

    def adopt(self, job: Job) -> None:
        """Take in a job whose row is stored. A job on a worker is ended by others."""
        self._keep(job)
        if job.call is not None:
            self._by_call[job.owner, job.call] = job
        self._tell(job.owner, JobStarted(job.id, job.kind, job.description, job.call, job.background))

    def _keep(self, job: Job) -> None:
        self._jobs[job.id] = self._open.setdefault(job.owner, {})[job.id] = job

    def settled(self, job: Job, status: JobStatus, result: JobResult) -> None:
        """Somebody else has stored the end; `notify` is still to come."""
        job.concluding, job.status, job.result = True, status, result
        job.ended.set()
        job.settled.set()

    async def send_to_background(self, job: Job) -> bool:
        """Let its caller stop waiting; the same run continues. False if it has ended or is already in the
        background."""
        if job.status != "running" or job.concluding or job.background:
            return False
        job.background = True
        await self._table.send_to_background(job.id, job.run)
        job.settled.set()
        return True

    async def finish(self, job: Job, status: JobStatus, result: JobResult) -> None:
        """Store the final state and the owed notice in one transaction, then wake waiters. Slow work comes after
        this."""
        job.concluding = True
        try:
            await self._table.finish(job.id, job.run, status, result, owed=job.background)
        finally:
            job.status, job.result = status, result
            job.ended.set()
            job.settled.set()

    async def notify(self, job: Job, extra: str = "", warning: str = "") -> None:
        """Report the end: an event for watchers, and a letter for an owner that did not wait.

        `warning` is put before the result, `extra` after it.
        """
        result = job.result
        if extra or warning:
            whole = "\n\n".join(part for part in (warning, result.result, extra) if part)
            result = job.result = replace(result, result=whole)
        if job.background:
            await self._post(job.row(), job.output)
        ended = JobEnded(job.id, job.status, result.summary, str(job.output), result.usage, job.call)
        self._tell(job.owner, ended)
        self.close(job)

    def close(self, job: Job) -> None:
        """Nothing more comes of the job; an owner that waits for its jobs looks again."""
        job.closed.set()
        still = self._open.get(job.owner, {})
        if still.get(job.id) is job:
            del still[job.id]
        self._ring(job.owner)

    async def claim(self, job: Job, call: CallId) -> bool:
        """A reader has seen the end itself and needs no letter. False if the letter came first."""
        return await self._table.claim(job.id, job.run, call, letter_id(job.id, job.run))

    async def settle_after_crash(self, remains: Remains, *, held: Collection[AgentId] = ()) -> list[JobRow]:
        """At resume: end what was running, post what is owed, and owe again what was claimed by a call without a
        result.

        Jobs of agents in `held` are left alone. Returns every run of every job.
        """
        rows = await self._table.all(self._session)
        return [row if row.owner in held else await self._settle(row, remains) for row in rows]

    async def settle_below(self, agent: AgentId, remains: Remains) -> None:
        """The same for an agent whose own process is gone, and for those that it has started."""
        for row in await self._table.untold_below(agent):
            await self._settle(row, remains)

    async def _settle(self, row: JobRow, remains: Remains) -> JobRow:
        if row.kind == "remote":  # it goes on elsewhere, and its end is reported along with what it has made
            return row
        settled = await self._end(row, remains)
        if row.kind == "agent" and (row.status == "running" or settled.notice == OWED):  # nobody was told of it
            settled = _with(settled, await remains.kept(row))
        if settled.notice == OWED:
            await self._post(settled, remains.output(row))
        return settled

    async def _end(self, row: JobRow, remains: Remains) -> JobRow:
        """The row as it is stored then."""
        if row.status == "running":
            what = "It can be continued by SendMessage." if row.kind == "agent" else "It was stopped."
            error = f"The program ended while this was running. {what}"
            had = await remains.result(row) if row.kind == "agent" else row.result
            result = replace(had, error=error, summary=f"{row.description}: ended with the program")
            await self._table.finish(row.id, row.run, "killed", result, owed=row.background)
            return replace(row, status="killed", result=result, notice=OWED if row.background else NONE)
        if row.notice == CLAIMED and not await remains.answered(row):
            await self._table.owe_again(row.id, row.run)
            return replace(row, notice=OWED)
        return row

    async def _post(self, row: JobRow, output: Path) -> None:
        """Post the notice, if it is owed."""
        result = row.result
        known = not result.error or result.error.rstrip(".").casefold() in result.summary.casefold()
        text = result.result if known else f"{result.error}\n\n{result.result}".strip()
        # A monitor's lines were passed on one by one, so its normal end is no news.
        quiet = row.kind == "monitor" and row.status == "completed"
        body = Notice(row.id, row.status, result.summary, text, str(output), row.call, result.usage, quiet)
        if (
            row.call is None and row.run == 1 and row.description.startswith("/")
        ):  # a person's /name: no call has begun it
            body = Prompt((Text(skill_output(row.id, row.description, result.summary, text)),))
        letter = Letter(letter_id(row.id, row.run), row.owner, SYSTEM, body)
        if await self._table.post_notice(row.id, row.run, letter):
            self._ring(row.owner)


def _with(row: JobRow, extra: str) -> JobRow:
    whole = "\n\n".join(part for part in (row.result.result, extra) if part)
    return replace(row, result=replace(row.result, result=whole))


def letter_id(job: JobId, run: int) -> LetterId:
    """The same id for the same end, so that it cannot be told twice."""
    return LetterId(f"n-{job}-{run}")
