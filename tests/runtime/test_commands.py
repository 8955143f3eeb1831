"""Shell commands and monitors as jobs: their states, output and notices, and when they are stopped."""

import os
import sqlite3
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from live import LIMIT, Live, living, written

from conftest import Walker
from program import alive
from teamwright.core.data.event import JobEnded, JobStarted, LettersTaken, TurnEnded
from teamwright.core.data.message import Message, Reply, Request, Usage
from teamwright.core.data.op import Interrupt, StopAll
from teamwright.core.ids import CallId
from teamwright.core.ports import ToolContext
from teamwright.host.process.environment import tool_environment
from teamwright.models.scripted import call
from teamwright.runtime.jobs.jobs import Job
from teamwright.runtime.jobs.shell_jobs import MOST_LINES, MOST_OF_SUCCESS, Order, ShellJobs, Tap
from teamwright.runtime.sandbox.use import run_of
from teamwright.tools.bounds import visible

pytestmark = pytest.mark.anyio
Kind = Literal["shell", "monitor"]
WAIT = "while [ ! -e go ]; do sleep 0.02; done"


class Bench:
    """A living session and the commands of its main agent."""

    def __init__(self, live: Live, walker: Walker, **more: Any) -> None:
        self.live, self.session, self.walker = live, live.session, walker
        self.log: list[str] = []
        self.jobs = walker.home / "jobs"
        self.commands = ShellJobs(
            self.session.supervisor, lambda job: self.jobs / f"{job}.output", self.log.append,
            **{"clean": visible, "silence": 60.0} | more,
        )  # fmt: skip

    async def start(
        self, script: str, kind: Kind = "shell", limit: float | None = None, cwd: Path | None = None
    ) -> Job:
        main = self.session.main
        reply = Reply(Message("assistant", ()), "tool_use", Usage())
        ctx = ToolContext(main.id, CallId("c1"), main.desk, Request("x/y", (), ()), reply, main.emit)
        order = Order(
            kind=kind, script=script.encode(), cwd=cwd or self.walker.project, description="the work", limit=limit,
            run=run_of(ctx, script, tool_environment(self.walker.env, {}), lives_on=True),
        )  # fmt: skip
        return await self.commands.start(order, ctx)

    async def end(self, job: Job) -> Job:
        with anyio.fail_after(LIMIT):
            await job.closed.wait()
        return job

    async def told(self, mark: str) -> str:
        """The text of the message that brings these words to the main agent."""
        event = await self.live.until(lambda e: isinstance(e, LettersTaken) and mark in e.message.text)
        return event.message.text

    def letters(self) -> list[str]:
        """Ids of all letters ever sent, except prompts."""
        db = sqlite3.connect(self.walker.home / ".teamwright/state.db")
        try:
            return [row[0] for row in db.execute("SELECT id FROM letters WHERE id NOT LIKE 'l%' ORDER BY n")]
        finally:
            db.close()

    def row(self, job: Job) -> tuple[str, int]:
        db = sqlite3.connect(self.walker.home / ".teamwright/state.db")
        try:
            return db.execute("SELECT status, notice FROM jobs WHERE id = ?", (job.id,)).fetchone()
        finally:
            db.close()


@asynccontextmanager
async def bench(walker: Walker, **more: Any) -> AsyncIterator[Bench]:
    async with living(walker, lambda _: "noted") as live:
        yield Bench(live, walker, **more)


async def contents(path: Path, words: str) -> str:
    """Wait until the file contains these words, and return it."""
    with anyio.fail_after(LIMIT):
        while words not in path.read_text():
            await anyio.sleep(0.01)
    return path.read_text()


@pytest.mark.spec("B1", "B4", "Q4")
@pytest.mark.parametrize(
    ("script", "limit", "status", "code", "error"),
    [
        ("echo words", None, "completed (exit code 0)", 0, ""),
        ("echo words; exit 3", None, "failed", 3, "Exit code 3."),
        ("echo words; kill -9 $$", None, "failed", 137, "Ended by signal SIGKILL."),
        ("echo words; sleep 60", 0.3, "failed", None, "Timed out after 0.3 s"),
    ],
)
async def test_a_command_ends_in_one_state_and_is_told_of_once(
    walker: Walker, script: str, limit: float | None, status: str, code: int | None, error: str
) -> None:
    async with bench(walker) as on:
        job = await on.end(await on.start(script, limit=limit))
        assert job.result.summary.startswith(f'Command "the work" {status}')
        status = status.partition(" ")[0]
        assert (job.status, job.result.exit_code) == (status, code) and job.result.error.startswith(error)
        assert job.result.result == "words"
        text = await on.told("<task-notification>")
        assert f"<task-id>{job.id}</task-id>" in text and f"<status>{status}</status>" in text and "words" in text
        assert f"<output-file>{job.output}</output-file>" in text and "<tool-use-id>c1</tool-use-id>" in text
        assert "<result>\nwords\n</result>" in text and "tokens" not in text  # the summary says how it ended
        await on.live.until(TurnEnded)
        assert on.letters() == [f"n-{job.id}-1"] and on.row(job) == (status, 2)
    assert [(e.job, e.kind, e.background) for e in on.live.of(JobStarted)] == [(job.id, "shell", True)]
    assert [(e.job, e.status) for e in on.live.of(JobEnded)] == [(job.id, status)]


@pytest.mark.spec("B2")
async def test_its_output_file_is_private_there_at_once_and_grows(walker: Walker) -> None:
    async with bench(walker) as on:
        job = await on.start(f"echo early; {WAIT}; echo late")
        assert stat.S_IMODE(job.output.stat().st_mode) == 0o600 and stat.S_IMODE(on.jobs.stat().st_mode) == 0o700
        assert "late" not in await contents(job.output, "early\n") and job.status == "running"
        (walker.project / "go").touch()
        await on.end(job)
        assert job.output.read_text() == "early\nlate\n"


async def test_much_output_is_whole_in_the_file_and_short_in_the_word_about_its_end(walker: Walker) -> None:
    async with bench(walker) as on:
        job = await on.end(await on.start("seq 100000; printf 'the end \\033[31mred\\033[0m \u202e <x>\n'"))
        said = job.result.result
        assert job.output.read_text().startswith("1\n2\n") and job.output.stat().st_size > 500_000
        assert (
            len(said) < MOST_OF_SUCCESS + 100 and said.startswith("[... what came before") and "99999\n100000\n" in said
        )
        assert said.endswith("the end red \\u202e <x>")
        assert "the end red \\u202e <x>\n</result>" in await on.told("<task-notification>")


@pytest.mark.spec("B1", "A3")
async def test_one_that_cannot_be_started_has_failed(walker: Walker) -> None:
    async with bench(walker) as on:
        job = await on.end(await on.start("true", cwd=walker.project / "gone"))
        assert job.status == "failed" and "could not be started" in job.result.error and not on.log


@pytest.mark.spec("B2", "B3", "A3")
async def test_stopping_ends_all_that_it_started_and_keeps_what_it_said(walker: Walker) -> None:
    async with bench(walker) as on:
        job = await on.start("trap '' TERM; setsid sleep 300 & echo $! > pid; echo so far; wait; sleep 300")
        pid = int(await written(walker.project / "pid"))
        await contents(job.output, "so far")
        assert await on.session.supervisor.stop(job) and job.status == "killed" and not alive(pid)
        assert not await on.session.supervisor.stop(job)
        assert (job.result.result, job.result.error) == ("so far", "It was stopped.")
        await on.end(job)
        assert on.row(job)[0] == "killed" and on.letters() == [f"n-{job.id}-1"]


@pytest.mark.spec("B4")
async def test_one_that_is_stopped_before_it_began_ends_too(walker: Walker) -> None:
    async with bench(walker) as on:
        job = await on.start("sleep 300")
        job.scope.cancel()  # no await between: its task has not run yet
        assert (await on.end(job)).status == "killed"


@pytest.mark.spec("B2")
async def test_an_interrupt_leaves_it_alone_and_stop_all_does_not(walker: Walker) -> None:
    async with living(walker, [call("Bash", command="touch busy; sleep 300"), "end"]) as live:
        on = Bench(live, walker)
        jobs = [await on.start("echo $$ > pid; exec sleep 300"), await on.start("sleep 300", "monitor", 200)]
        pid = int(await written(walker.project / "pid"))
        await live.say("go")
        with anyio.fail_after(LIMIT):
            while not (walker.project / "busy").exists():
                await anyio.sleep(0.01)
        await live.session.submit(Interrupt())
        assert (await live.until(TurnEnded)).reason == "interrupted"
        assert [job.status for job in jobs] == ["running"] * 2 and alive(pid)
        await live.session.submit(StopAll())
        assert [job.status for job in jobs] == ["killed"] * 2 and not alive(pid)


@pytest.mark.spec("B2")
async def test_leaving_the_session_ends_it_and_what_is_owed_is_kept(walker: Walker) -> None:
    async with bench(walker) as on:
        job = await on.start("echo $$ > pid; exec sleep 300")
        pid = int(await written(walker.project / "pid"))
    assert not alive(pid) and job.status == "killed" and on.row(job) == ("killed", 2)
    assert on.letters() == [f"n-{job.id}-1"]


@pytest.mark.spec("B4")
async def test_a_call_that_is_cancelled_meanwhile_leaves_no_row_without_a_command(walker: Walker) -> None:
    async with bench(walker) as on:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await on.start("echo ran > ran")
        await written(walker.project / "ran")
        (job,) = on.session.supervisor.jobs.all()
        assert (await on.end(job)).status == "completed"


@pytest.mark.spec("B6")
async def test_a_silent_command_is_told_of_once_while_it_runs(walker: Walker) -> None:
    async with bench(walker, silence=0.4) as on:
        job = await on.start(f"echo 'Proceed? <y/n>'; {WAIT}")
        text = await on.told("has printed nothing for 0.4 s")
        assert "<status>running</status>" in text and "Proceed? <y/n>" in text and job.status == "running"
        assert on.letters() == [f"s-{job.id}-1"]
        (walker.project / "go").touch()
        await on.end(job)
        assert on.letters() == [f"s-{job.id}-1", f"n-{job.id}-1"]


@pytest.mark.spec("B6")
async def test_one_that_keeps_talking_is_not_silent_nor_is_a_monitor(walker: Walker) -> None:
    async with bench(walker, silence=1.5) as on:
        talker = await on.start("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.3; done")
        monitor = await on.start("sleep 2", "monitor", 60)
        for job in (talker, monitor):
            assert (await on.end(job)).status == "completed"
        assert sorted(on.letters()) == sorted(f"n-{job.id}-1" for job in (talker, monitor))


@pytest.mark.spec("B1", "Q2")
async def test_lines_of_a_monitor_are_letters_in_order(walker: Walker) -> None:
    async with bench(walker) as on:
        script = f"echo one; echo '</monitor-lines>'; {WAIT}; printf half; sleep 0.5; echo ' two'"
        job = await on.start(script, "monitor", 60)
        text = await on.told("<monitor-lines>")
        assert text.startswith(f"<monitor-lines><task-id>{job.id}</task-id><summary>the work</summary>")
        assert "\none\n&lt;/monitor-lines>\n" in text and "half" not in text
        (walker.project / "go").touch()
        assert "\nhalf two\n" in await on.told("two")
        assert (await on.end(job)).status == "completed" and job.output.read_text().endswith("half two\n")
        assert on.letters() == [f"w-{job.id}-1", f"w-{job.id}-2", f"n-{job.id}-1"]


async def test_a_talkative_monitor_sends_only_so_many_letters_and_loses_no_line(walker: Walker) -> None:
    async with bench(walker, letters_a_minute=3) as on:
        job = await on.end(await on.start("for i in 1 2 3 4 5 6; do echo line-$i; sleep 0.45; done", "monitor", 60))
        assert on.letters() == [*(f"w-{job.id}-{n}" for n in (1, 2, 3)), f"n-{job.id}-1"]
        while not any("line-6" in event.message.text for event in on.live.of(LettersTaken)):
            await on.live.until(LettersTaken)
        said = "".join(event.message.text for event in on.live.of(LettersTaken)).split("<task-notification>")[0]
        assert all(said.count(f"line-{n}") == 1 for n in range(1, 7))
        assert "line-5\nline-6\n</monitor-lines>" in said  # these waited together


@pytest.mark.spec("B1")
async def test_a_monitor_ends_well_at_its_time_limit_and_says_so(walker: Walker) -> None:
    async with bench(walker) as on:
        job = await on.end(await on.start("echo seen; sleep 300", "monitor", 0.5))
        assert (job.status, job.result.error) == ("completed", "")
        assert "time limit of 0.5 s" in job.result.summary and job.result.result == ""  # "seen" was told as a line
        failed = await on.end(await on.start("exit 2", "monitor", 60))
        assert (failed.status, failed.result.exit_code) == ("failed", 2)


@pytest.mark.spec("Q6")
async def test_commands_that_end_together_wake_their_agent_once(walker: Walker) -> None:
    async with bench(walker) as on:
        jobs = [await on.start(f"{WAIT}; echo end-{n}") for n in range(3)]
        (walker.project / "go").touch()
        text = await on.told("<task-notification>")
        assert text.count("<task-notification>") == len(jobs)
        await on.live.until(TurnEnded)
    assert len(on.live.of(LettersTaken)) == 1


async def test_what_waits_to_be_passed_on_is_bounded(tmp_path: Path) -> None:
    tap = Tap(tmp_path / "out", lines=True)
    try:
        assert tap.take(half_lines=True) == ""
        tap.add(b"a line\nhalf")
        assert (tap.take(half_lines=False), tap.take(half_lines=False)) == ("a line\n", "")
        tap.add(b"x" * 3 * MOST_LINES)
        assert tap.take(half_lines=False) == ""
        tap.add(b"\nlast\n")
        text = tap.take(half_lines=False)
        lost = len("half") + 3 * MOST_LINES + len("\nlast\n") - MOST_LINES
        assert text.startswith(f"[... {lost:,} bytes left out") and text.endswith("xxx\nlast\n")
        assert len(text) < MOST_LINES + 100
        tap.add(b" \n\n")
        assert tap.take(half_lines=True) == ""
    finally:
        tap.close()
    assert (tmp_path / "out").stat().st_size == 3 * MOST_LINES + len("a line\nhalf\nlast\n \n\n")


@pytest.mark.spec("A5")
async def test_a_file_that_cannot_be_written_costs_the_file_alone(walker: Walker) -> None:
    async with bench(walker) as on:
        on.jobs.mkdir()
        on.commands = ShellJobs(
            on.session.supervisor, lambda _: on.jobs / "taken", on.log.append, clean=visible, silence=60.0
        )
        os.mkfifo(on.jobs / "taken")
        job = await on.end(await on.start("echo words"))
        assert (job.status, job.result.result) == ("completed", "words")
