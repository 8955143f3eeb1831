"""The registry of jobs on a real store: which notices are sent, in which order, and what a resume finds."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import Struct

from teamwright.core.data.event import Event, JobEnded, JobStarted
from teamwright.core.data.job import JobResult
from teamwright.core.data.letter import SYSTEM, Notice, Prompt
from teamwright.core.data.message import words_of
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, CallId, JobId, SessionId
from teamwright.runtime.jobs.jobs import Job, Jobs, letter_id
from teamwright.store.tables.jobs import CLAIMED, NONE, OWED, POSTED, JobRow, JobTable, NewAgent
from teamwright.store.tables.state import StateStore

pytestmark = pytest.mark.anyio
SESSION = SessionId("22222222-2222-4222-8222-222222222222")
OWNER = AgentId(SESSION)


class Desk:
    """A store with a registry, and what the registry told and rang."""

    def __init__(self, state: StateStore, root: Path) -> None:
        self.state, self.root = state, root
        self.told: list[Event] = []
        self.rung: list[AgentId] = []
        self.table = JobTable(state.database)
        self.jobs = Jobs(self.table, SESSION, lambda _, event: self.told.append(event), self.rung.append)

    def job(self, id: str = "j1", **more: Any) -> Job:
        fields = {"owner": OWNER, "output": self.root / id, "description": f"does {id}", "background": True} | more
        return Job(JobId(id), fields.pop("kind", "agent"), **fields)

    async def notice(self, id: str = "j1") -> int:
        return next(row.notice for row in await self.table.all(SESSION) if row.id == id)

    async def settle_after_crash(self, recorded: str) -> list[JobRow]:
        """After a crash, only that call's result is in a transcript; every agent had said one thing."""
        return await self.jobs.settle_after_crash(Left({CallId(recorded)}, self.root))

    async def letters(self) -> list[Notice]:
        return [letter.body for letter in await self.state.waiting(OWNER) if isinstance(letter.body, Notice)]


class Left(Struct):
    """Of agents with worktrees; these calls have results."""

    recorded: set[CallId]
    root: Path

    async def answered(self, row: JobRow) -> bool:
        return row.claim in self.recorded

    async def result(self, row: JobRow) -> JobResult:
        return JobResult(f"words of {row.id}")

    async def kept(self, row: JobRow) -> str:
        return f"tree of {row.id}"

    def output(self, row: JobRow) -> Path:
        return self.root / row.id


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    state = await StateStore.open(tmp_path / "state.db")
    await state.register_session(SESSION, str(tmp_path), 1)
    await state.register_agent(OWNER, SESSION, None, "main", "main", 0)
    yield Desk(state, tmp_path)
    await state.close()


@pytest.mark.spec("B3")
async def test_state_final_then_waiters_then_slow_work_then_the_notice(desk: Desk) -> None:
    job = desk.job(call=CallId("c1"))
    await desk.jobs.begin(job)
    assert desk.told == [JobStarted(job.id, "agent", "does j1", CallId("c1"), True)]
    await desk.jobs.finish(job, "completed", JobResult("fine", summary="it is done"))
    with anyio.fail_after(1):
        await job.ended.wait()  # long before it is told
    assert await desk.notice() == OWED and not job.closed.is_set() and await desk.letters() == [] and not desk.rung
    await desk.jobs.notify(job, "kept in /tree")
    assert await desk.notice() == POSTED and job.closed.is_set() and set(desk.rung) == {OWNER}
    (letter,) = await desk.letters()
    assert letter.result == "fine\n\nkept in /tree" and letter.status == "completed" and letter.call_id == "c1"
    assert isinstance(desk.told[-1], JobEnded) and len(desk.told) == 2


@pytest.mark.spec("B11", "Q4")
@pytest.mark.parametrize(("status", "error"), [("failed", "it broke"), ("killed", "")])
async def test_a_bad_end_carries_the_error_and_what_there_was(desk: Desk, status: Any, error: str) -> None:
    job = desk.job()
    await desk.jobs.begin(job)
    await desk.jobs.finish(job, status, JobResult("half of it", error, "a summary"))
    await desk.jobs.notify(job)
    (letter,) = await desk.letters()
    assert (letter.status, letter.summary) == (status, "a summary")
    assert letter.result == ("it broke\n\nhalf of it" if error else "half of it")


@pytest.mark.spec("Y3", "B4")
async def test_a_foreground_job_is_told_to_its_caller_alone(desk: Desk) -> None:
    job = desk.job(background=False)
    await desk.jobs.begin(job)
    await desk.jobs.finish(job, "completed", JobResult("fine"))
    assert not await desk.jobs.send_to_background(job)  # too late
    await desk.jobs.notify(job)
    assert await desk.letters() == [] and await desk.notice() == NONE and job.settled.is_set()


@pytest.mark.spec("Y3", "B4")
async def test_sent_to_the_background_it_settles_and_its_end_is_a_letter(desk: Desk) -> None:
    job = desk.job(background=False)
    await desk.jobs.begin(job)
    assert await desk.jobs.send_to_background(job) and job.settled.is_set() and not job.ended.is_set()
    assert not await desk.jobs.send_to_background(job)
    await desk.jobs.finish(job, "completed", JobResult("fine"))
    await desk.jobs.notify(job)
    assert len(await desk.letters()) == 1


@pytest.mark.spec("C7", "B4")
async def test_a_claim_before_or_after_the_letter_was_posted_takes_its_place(desk: Desk) -> None:
    before, after = desk.job("before"), desk.job("after")
    for job in (before, after):
        await desk.jobs.begin(job)
        await desk.jobs.finish(job, "completed", JobResult("fine"))
    assert await desk.jobs.claim(before, CallId("c1"))
    for job in (before, after):
        await desk.jobs.notify(job)
    assert await desk.jobs.claim(after, CallId("c2")) and await desk.letters() == []
    assert [await desk.notice(id) for id in ("before", "after")] == [CLAIMED, CLAIMED]


@pytest.mark.spec("C7", "B4")
async def test_a_letter_that_was_delivered_cannot_be_claimed(desk: Desk) -> None:
    job = desk.job()
    await desk.jobs.begin(job)
    await desk.jobs.finish(job, "completed", JobResult("fine"))
    await desk.jobs.notify(job)
    await desk.state.delivered([letter_id(job.id, 1)])
    assert not await desk.jobs.claim(job, CallId("c1")) and await desk.notice() == POSTED


@pytest.mark.spec("B4", "B1")
async def test_after_a_crash_each_kind_of_row_is_settled_by_what_is_true(desk: Desk) -> None:
    running, quiet, owed, lost, kept = (desk.job(id) for id in ("running", "quiet", "owed", "lost", "kept"))
    quiet.background = False
    for job in (running, quiet, owed, lost, kept):
        await desk.jobs.begin(job)
    for job in (owed, lost, kept):
        await desk.jobs.finish(job, "completed", JobResult("fine"))
    await desk.jobs.claim(lost, CallId("never-recorded"))
    await desk.jobs.claim(kept, CallId("recorded"))
    again = Desk(desk.state, desk.root)
    rows = await again.settle_after_crash("recorded")
    assert {row.id: row.status for row in rows} == {
        "running": "killed", "quiet": "killed", "owed": "completed", "lost": "completed", "kept": "completed",
    }  # fmt: skip
    letters = {letter.job: letter for letter in await again.letters()}
    assert set(letters) == {"running", "owed", "lost"} and "SendMessage" in letters[JobId("running")].result
    assert "words of running" in letters[JobId("running")].result and "fine" in letters[JobId("owed")].result
    assert all(f"tree of {id}" in letter.result for id, letter in letters.items())
    await again.settle_after_crash("recorded")
    assert len(await again.letters()) == 3  # once, however often it is resumed


@pytest.mark.spec("S3", "B4")
async def test_a_persons_skill_that_ended_with_the_program_is_told_once_as_its_output(desk: Desk) -> None:
    await desk.jobs.begin(desk.job("a1", description="/audit <doors>"))
    again = Desk(desk.state, desk.root)
    for _ in range(2):
        await again.settle_after_crash("")
    (letter,) = await desk.state.waiting(OWNER)
    assert letter.sender == SYSTEM and isinstance(letter.body, Prompt)
    said = words_of(letter.body.content)
    assert said.startswith('<skill-output command="/audit &lt;doors>">') and ", a1:" in said and "words of a1" in said


@pytest.mark.spec("B1")
async def test_a_final_state_is_final(desk: Desk) -> None:
    job = desk.job()
    await desk.jobs.begin(job)
    assert await desk.table.finish(job.id, 1, "killed", JobResult(), owed=True)
    assert not await desk.table.finish(job.id, 1, "completed", JobResult("late"), owed=True)
    (row,) = await desk.table.all(SESSION)
    assert row.status == "killed" and row.result == JobResult()


@pytest.mark.spec("B1")
async def test_a_beginning_is_all_or_nothing(desk: Desk) -> None:
    row = NewAgent(AgentId("a1"), SESSION, OWNER, "explore", "explore", 1)
    await desk.jobs.begin(desk.job("a1"), agent=row)
    with pytest.raises(StoreError):
        await desk.jobs.begin(desk.job("a2"), agent=row)  # that agent is there
    assert [job.id for job in desk.jobs.all()] == ["a1"] and len(await desk.table.all(SESSION)) == 1
    assert desk.jobs.get("a2") is None and await desk.table.agents(SESSION) == [row]


@pytest.mark.spec("B1", "C3")
async def test_a_run_that_cannot_begin_leaves_the_one_before_it(desk: Desk) -> None:
    first = desk.job("a1")
    await desk.jobs.begin(first)
    await desk.jobs.finish(first, "completed", JobResult("fine"))
    await desk.jobs.notify(first)
    with pytest.raises(StoreError):
        await desk.jobs.begin(desk.job("a1"))  # that run is stored
    assert desk.jobs.get("a1") is first and desk.jobs.unfinished(OWNER) == []
