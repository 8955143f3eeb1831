"""Exactly one word about each end of a background job, through every order of end, read, stop, crash and resume."""

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
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from teamwright.core.event import Event, JobEnded
from teamwright.core.ids import AgentId, CallId, JobId, SessionId
from teamwright.core.job import JobResult
from teamwright.core.letter import Notice
from teamwright.runtime.inbox import AgentInbox
from teamwright.runtime.jobs import Job, Jobs, letter_id
from teamwright.store.jobs import JobTable
from teamwright.store.state import State

SESSION, OWNER = SessionId("11111111-1111-4111-8111-111111111111"), AgentId("11111111-1111-4111-8111-111111111111")
ENDS = st.sampled_from(["completed", "failed", "killed"])
Run = tuple[JobId, int]


class Telling(RuleBasedStateMachine):
    """The owner's transcript is `delivered` and `recorded`: what is in there is durable, everything else a crash takes."""

    running, ended, claimed, finished = Bundle("running"), Bundle("ended"), Bundle("claimed"), Bundle("finished")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.dir = Path(tempfile.mkdtemp())
        self.delivered: set[str] = set()  # letters in the transcript
        self.recorded: set[CallId] = set()  # calls whose results are
        self.seen: dict[Run, list[str]] = {}  # who told the owner of an end
        self.background: set[Run] = set()
        self.final: dict[Run, str] = {}
        self.events: list[JobEnded] = []
        self.numbers = iter(range(10_000))
        self.life = 0
        self.do(self._open())

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    async def _open(self) -> None:
        self.state = await State.open(self.dir / "state.db")
        await self.state.register_session(SESSION, str(self.dir), 1)
        await self.state.register_agent(OWNER, SESSION, None, "main", "main", 0)
        self.table = JobTable(self.state.database)
        self.inbox = AgentInbox(OWNER, self.state, self.delivered)
        self.jobs = Jobs(self.table, SESSION, self._tell, lambda _: self.inbox.ring())
        self.life += 1

    def _tell(self, _: AgentId, event: Event) -> None:
        if isinstance(event, JobEnded):
            self.events.append(event)

    def lives(self, job: tuple[Job, int]) -> bool:
        """Was it made by this process? Those of an earlier one are out of reach."""
        return job[1] == self.life

    # --- what may happen

    @rule(target=running, background=st.booleans())
    def begin(self, background: bool) -> tuple[Job, int]:
        return self.do(self._begin(JobId(f"j{next(self.numbers)}"), 1, background=background))

    @rule(target=running, job=ended)
    def begin_again(self, job: tuple[Job, int]) -> Any:
        """As SendMessage does with one that has ended, once its first end is told."""
        known = [run for id, run in self.seen if id == job[0].id]
        if self.lives(job) and not job[0].closed.is_set():
            return multiple()
        return self.do(self._begin(job[0].id, max(known) + 1, background=True))

    async def _begin(self, id: JobId, run: int, *, background: bool) -> tuple[Job, int]:
        job = Job(id, "agent", owner=OWNER, output=self.dir / id, description=id, background=background, run=run)
        await self.jobs.begin(job)
        self.seen[id, run] = []
        if background:
            self.background.add((id, run))
        return job, self.life

    @rule(job=running)
    def send_to_background(self, job: tuple[Job, int]) -> None:
        if self.lives(job) and self.do(self.jobs.send_to_background(job[0])):
            self.background.add((job[0].id, job[0].run))

    @rule(target=finished, job=consumes(running), status=ENDS)
    def end(self, job: tuple[Job, int], status: Any) -> Any:
        if not self.lives(job):
            return multiple()
        self.do(self.jobs.finish(job[0], status, JobResult("the report")))
        return job

    @rule(target=ended, job=consumes(finished))
    def clean_up_and_tell(self, job: tuple[Job, int]) -> Any:
        if self.lives(job):
            self.do(self.jobs.notify(job[0]))
        return job

    @rule(job=st.one_of(finished, ended), target=claimed)
    def read_the_end(self, job: tuple[Job, int]) -> Any:
        """A blocking read; its result is not in the transcript yet."""
        if not self.lives(job) or any(w.startswith("call") for w in self.seen[job[0].id, job[0].run]):
            return multiple()
        return self.do(self._claim(job[0]))

    async def _claim(self, job: Job) -> Any:
        call = CallId(f"call{next(self.numbers)}")
        if not await self.jobs.claim(job, call):
            return multiple()  # it has the letter
        self.inbox.forget(letter_id(job.id, job.run))
        return job.id, job.run, call, self.life

    @rule(claim=consumes(claimed))
    def keep_the_result(self, claim: tuple[JobId, int, CallId, int]) -> None:
        id, run, call, life = claim
        if life == self.life:
            self.recorded.add(call)
            self.seen[id, run].append(call)

    @rule(target=ended, job=consumes(running), status=ENDS, data=st.data())
    def end_while_somebody_reads(self, job: tuple[Job, int], status: Any, data: Any) -> Any:
        """The end, a blocking read and a send to the background, all at once."""
        if not self.lives(job):
            return multiple()
        sends = data.draw(st.booleans())
        claim = self.do(self._race(job[0], status, sends=sends))
        if claim is not None:
            self.recorded.add(claim[2])
            self.seen[job[0].id, job[0].run].append(claim[2])
        return job

    async def _race(self, job: Job, status: Any, *, sends: bool) -> Any:
        claims: list[Any] = []

        async def read() -> None:
            await job.ended.wait()
            claims.append(await self._claim(job))

        async def send() -> None:
            if await self.jobs.send_to_background(job):
                self.background.add((job.id, job.run))

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            if sends:
                group.start_soon(send)
            await self.jobs.finish(job, status, JobResult("the report"))
            await self.jobs.notify(job)
        return claims[0] if isinstance(claims[0], tuple) else None

    @rule(acknowledge=st.booleans())
    def hand_over(self, acknowledge: bool) -> None:
        """At rest, as the loop does; where it is not acknowledged the process dies right after the transcript was written."""
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
        await self.jobs.settle_after_crash(lambda _, call: call in self.recorded, lambda id: self.dir / id)

    # --- what must always hold

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
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
