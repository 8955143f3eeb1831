"""Each end of a background job is reported exactly once, in any order of end, read, stop, crash and resume."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from teamwright.core.data.event import Event, JobEnded
from teamwright.core.data.job import JobResult
from teamwright.core.data.letter import Notice
from teamwright.core.ids import AgentId, CallId, JobId, SessionId
from teamwright.runtime.agents.inbox import AgentInbox
from teamwright.runtime.jobs.jobs import Job, Jobs, letter_id
from teamwright.store.tables.jobs import JobRow, JobTable
from teamwright.store.tables.state import StateStore

SESSION, OWNER = SessionId("11111111-1111-4111-8111-111111111111"), AgentId("11111111-1111-4111-8111-111111111111")
ENDS = st.sampled_from(["completed", "failed", "killed"])
Run = tuple[JobId, int]


class Telling(RuleBasedStateMachine):
    """The owner's transcript is `delivered` and `recorded`: these are durable, and a crash takes everything else."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.dir = Path(tempfile.mkdtemp())
        self.delivered: set[str] = set()  # letters in the transcript
        self.recorded: set[CallId] = set()  # calls whose results are
        self.seen: dict[Run, list[str]] = {}  # who told the owner about an end
        self.background: set[Run] = set()
        self.final: dict[Run, str] = {}
        self.events: list[JobEnded] = []
        self.numbers = iter(range(10_000))
        self.do(self._open())

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    async def _open(self) -> None:
        self.state = await StateStore.open(self.dir / "state.db")
        await self.state.register_session(SESSION, str(self.dir), 1)
        await self.state.register_agent(OWNER, SESSION, None, "main", "main", 0)
        self.table = JobTable(self.state.database)
        self.inbox = AgentInbox(OWNER, self.state, self.delivered)
        self.jobs = Jobs(self.table, SESSION, self._tell, lambda _: self.inbox.ring())
        self.running: list[Job] = []  # of this process; lost in a crash
        self.finished: list[Job] = []
        self.closed: list[Job] = []

    def _tell(self, _: AgentId, event: Event) -> None:
        if isinstance(event, JobEnded):
            self.events.append(event)

    # --- what may happen

    def draw(self, data: Any, jobs: list[Job]) -> Job:
        return data.draw(st.sampled_from(jobs))

    @rule(background=st.booleans())
    def begin(self, background: bool) -> None:
        self.do(self._begin(JobId(f"j{next(self.numbers)}"), 1, background=background))

    @precondition(lambda self: self.closed)
    @rule(data=st.data())
    def begin_again(self, data: Any) -> None:
        """As SendMessage does with an agent that has ended."""
        job = self.draw(data, self.closed)
        if not any(other.id == job.id for other in (*self.running, *self.finished)):
            last = max(run for id, run in self.seen if id == job.id)
            self.do(self._begin(job.id, last + 1, background=True))

    async def _begin(self, id: JobId, run: int, *, background: bool) -> None:
        job = Job(id, "agent", owner=OWNER, output=self.dir / id, description=id, background=background, run=run)
        await self.jobs.begin(job)
        self.running.append(job)
        self.seen[id, run] = []
        if background:
            self.background.add((id, run))

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def send_to_background(self, data: Any) -> None:
        job = self.draw(data, self.running)
        if self.do(self.jobs.send_to_background(job)):
            self.background.add((job.id, job.run))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), status=ENDS, tells=st.booleans())
    def end(self, data: Any, status: Any, tells: bool) -> None:
        job = self.draw(data, self.running)
        self.do(self.jobs.finish(job, status, JobResult("the report")))
        self.running.remove(job)
        self.finished.append(job)
        if tells:
            self._clean_up(job)

    @precondition(lambda self: self.finished)
    @rule(data=st.data())
    def clean_up_and_tell(self, data: Any) -> None:
        self._clean_up(self.draw(data, self.finished))

    def _clean_up(self, job: Job) -> None:
        self.do(self.jobs.notify(job))
        self.finished.remove(job)
        self.closed.append(job)

    @precondition(lambda self: self.finished or self.closed)
    @rule(data=st.data(), kept=st.booleans())
    def read_the_end(self, data: Any, kept: bool) -> None:
        """A blocking read; only some processes survive to record its result in the transcript."""
        job = self.draw(data, self.finished + self.closed)
        if not any(word.startswith("call") for word in self.seen[job.id, job.run]):
            call = self.do(self._claim(job))
            if call and kept:
                self._keep(job, call)
            elif call:
                self.crash_and_resume()

    async def _claim(self, job: Job) -> CallId | None:
        """None if it has the letter already."""
        call = CallId(f"call{next(self.numbers)}")
        if not await self.jobs.claim(job, call):
            return None
        self.inbox.forget(letter_id(job.id, job.run))
        return call

    def _keep(self, job: Job, call: CallId) -> None:
        self.recorded.add(call)
        self.seen[job.id, job.run].append(call)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), status=ENDS, sends=st.booleans(), reads=st.booleans())
    def end_among_others(self, data: Any, status: Any, sends: bool, reads: bool) -> None:
        """The end, a blocking read and a move to the background, all at once."""
        job = self.draw(data, self.running)
        call = self.do(self._race(job, status, sends=sends, reads=reads))
        if call is not None:
            self._keep(job, call)
        self.running.remove(job)
        self.closed.append(job)

    async def _race(self, job: Job, status: Any, *, sends: bool, reads: bool) -> CallId | None:
        calls: list[CallId | None] = [None]

        async def read() -> None:
            await job.ended.wait()
            calls.append(await self._claim(job))

        async def send() -> None:
            if await self.jobs.send_to_background(job):
                self.background.add((job.id, job.run))

        async with anyio.create_task_group() as group:
            if reads:
                group.start_soon(read)
            if sends:
                group.start_soon(send)
            await self.jobs.finish(job, status, JobResult("the report"))
            await self.jobs.notify(job)
        return calls[-1]

    @rule(acknowledge=st.booleans())
    def hand_over(self, acknowledge: bool) -> None:
        """At rest, as the loop does. Not acknowledged: the process dies right after writing the transcript."""
        self.do(self._hand_over(acknowledge=acknowledge))
        if not acknowledge:
            self.crash_and_resume()

    async def _hand_over(self, *, acknowledge: bool = True) -> None:
        letters = await self.inbox.take(at_rest=True)
        for letter in letters:
            assert isinstance(letter.body, Notice) and letter.id not in self.delivered
            assert letter.body.status in ("completed", "failed", "killed")
            _, job, run = letter.id.split("-")
            self.delivered.add(letter.id)
            self.seen[JobId(job), int(run)].append(letter.id)
        if acknowledge:
            self.inbox.acknowledge([letter.id for letter in letters])
            await self.state.flush()

    @rule()
    def crash_and_resume(self) -> None:
        self.do(self._crash())

    async def _crash(self) -> None:
        await self.state.close()
        await self._open()
        await self.jobs.settle_after_crash(self)

    async def answered(self, row: JobRow) -> bool:
        return row.claim in self.recorded

    async def result(self, row: JobRow) -> JobResult:
        return JobResult()

    async def kept(self, row: JobRow) -> str:
        return ""

    def output(self, row: JobRow) -> Path:
        return self.dir / row.id

    # --- invariants

    @invariant()
    def a_final_state_stays(self) -> None:
        for row in self.do(self.table.all(SESSION)):
            before = self.final.get((row.id, row.run))
            assert before in (None, row.status), f"{row.id} was {before} and is {row.status}"
            if row.status != "running":
                self.final[row.id, row.run] = row.status
                assert not self.do(self.table.finish(row.id, row.run, "failed", JobResult(), owed=True))

    @invariant()
    def nobody_is_told_twice(self) -> None:
        assert all(len(told) <= 1 for told in self.seen.values()), self.seen

    def teardown(self) -> None:
        try:
            self.do(self._crash())
            self.do(self._hand_over())
            self.do(self._crash())
            self.do(self._hand_over())
            for run, told in self.seen.items():
                if run in self.background:
                    assert len(told) == 1, f"{run}: {told}"
                else:
                    assert not [word for word in told if word.startswith("n-")], f"{run}: {told}"
        finally:
            self.do(self.state.close())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()
            shutil.rmtree(self.dir)


TestTelling = pytest.mark.spec("B1", "B3", "B4", "C7", "Q5")(Telling.TestCase)
TestTelling.settings = settings(
    max_examples=35, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
