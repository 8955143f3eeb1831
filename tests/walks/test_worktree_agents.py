"""Agents in worktrees of their own: where they work, what is kept, what goes."""

import json
import sqlite3
import subprocess
from pathlib import Path

import anyio
import pytest

from conftest import Walker
from crew import ID, LIMIT, crew, ended_calls
from teamwright.core.data.event import Warned
from teamwright.core.data.letter import PERSON, Letter, Prompt
from teamwright.core.data.message import Request, Text
from teamwright.core.errors import StoreError
from teamwright.core.ids import new_letter_id
from teamwright.models.scripted import call

pytestmark = pytest.mark.anyio


def git(cwd: Path, *args: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
    ran = subprocess.run(["git", *identity, *args], cwd=cwd, check=True, capture_output=True, text=True)
    return ran.stdout


@pytest.fixture
def repository(walker: Walker) -> Path:
    git(walker.project, "init", "-q", "-b", "main")
    (walker.project / "README.md").write_text("hello\n")
    git(walker.project, "add", "-A")
    git(walker.project, "commit", "-q", "-m", "first")
    return walker.project


def start(**more: object):
    return call("Agent", description="work apart", prompt="SCRIPT:child", isolation="worktree", **more)


def bash(command: str):
    return call("Bash", command=command)


@pytest.mark.spec("W1", "W3", "P6")
async def test_what_it_changes_is_kept_in_its_own_tree(walker: Walker, repository: Path) -> None:
    scripts = {"main": [start(), "end"], "child": [bash("pwd; echo new > made-here"), "done"]}
    walk = await walker.walk(scripts, ["SCRIPT:main"], mode="bypassPermissions")
    assert not (repository / "made-here").exists() and git(repository, "status", "--porcelain") == ""
    (kept,) = (repository / ".teamwright" / "worktrees").iterdir()
    assert (kept / "made-here").read_text() == "new\n"
    report = walk.results[-1][0]
    assert str(kept) in report and f"worktree-{kept.name}" in report and "made-here" in report


@pytest.mark.spec("W3", "Y5")
async def test_what_is_unchanged_is_removed_with_its_branch(walker: Walker, repository: Path) -> None:
    scripts = {"main": [start(), "end"], "child": [bash("cat README.md"), "done"]}
    walk = await walker.walk(scripts, ["SCRIPT:main"], mode="bypassPermissions")
    assert "kept" not in walk.results[-1][0]
    assert list((repository / ".teamwright" / "worktrees").iterdir()) == []
    assert git(repository, "branch", "--list", "worktree-*") == ""


@pytest.mark.spec("W4")
async def test_a_directory_that_cannot_be_linked_is_told_once(walker: Walker, repository: Path) -> None:
    (repository / "notes").write_text("no directory")
    settings = json.dumps({"worktree": {"symlinkDirectories": ["missing", "/etc", "notes"]}})
    scripts = {"main": [[start(), start()], "end"], "child": ["done"]}
    walk = await walker.walk(scripts, ["SCRIPT:main"], mode="bypassPermissions", settings=settings)
    told = [record.event.text for record in walk.records if isinstance(record.event, Warned)]
    assert [text.partition(": ")[2] for text in told if text.startswith("The worktree ")] == [
        "`/etc` is not linked: only directories below the project can be.",
        "`notes` is not linked: it is not a directory.",
    ]


@pytest.mark.spec("W1", "R13")
async def test_its_edits_stay_inside_also_where_edits_pass_unasked(walker: Walker, repository: Path) -> None:
    parent = str(repository / "README.md")
    scripts = {
        "main": [call("Read", file_path=parent), start(), "end"],
        "child": [
            call("Write", file_path="notes.md", content="x\n"),
            call("Write", file_path=parent, content="y\n"),
            "r",
        ],
    }
    walk = await walker.walk(scripts, ["SCRIPT:main"], mode="acceptEdits")
    (kept,) = (repository / ".teamwright" / "worktrees").iterdir()
    assert (kept / "notes.md").read_text() == "x\n" and (repository / "README.md").read_text() == "hello\n"
    assert [error for _, error in walk.results] == [False, False, True, False]


@pytest.mark.spec("W1")
async def test_without_a_repository_it_is_a_clear_error(walker: Walker) -> None:
    walk = await walker.walk({"main": [start(), "end"], "child": ["never"]}, ["SCRIPT:main"], mode="bypassPermissions")
    text, failed = walk.results[0]
    assert failed and "git" in text and all(
        "SCRIPT:child" not in block.text
        for request in walk.model.requests for message in request.messages
        for block in message.blocks if message.role == "user" and isinstance(block, Text)
    )  # fmt: skip


@pytest.mark.spec("W1", "F7")
async def test_it_stands_where_its_parent_stands(walker: Walker, repository: Path) -> None:
    (repository / "deep").mkdir()
    (repository / "deep" / "file").write_text("x\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "deep")
    scripts = {"main": [bash("cd deep"), start(), "end"], "child": [bash("pwd; cat file; cd ..; echo y > up"), "done"]}
    walk = await walker.walk(scripts, ["SCRIPT:main"], mode="bypassPermissions")
    (kept,) = (repository / ".teamwright" / "worktrees").iterdir()
    assert walk.results[1][0].splitlines()[:2] == [str(kept / "deep"), "x"] and (kept / "up").exists()


@pytest.mark.spec("C3", "W1")
async def test_one_that_goes_on_there_is_where_it_was_and_knows_what_it_read(walker: Walker, repository: Path) -> None:
    send = call("SendMessage", to=ID, message="more", summary="more")
    edit = call("Edit", file_path="file", old_string="x", new_string="y")
    scripts = {
        "main": [start(), send, "wait", "end"],
        "child": [bash("mkdir new; cd new; echo x > file"), call("Read", file_path="file"), "done", edit, "done"],
    }
    async with crew(walker, scripts, mode="bypassPermissions") as play:
        await play.play("SCRIPT:main")
    (kept,) = (repository / ".teamwright" / "worktrees").iterdir()
    assert (kept / "new" / "file").read_text() == "y\n"


@pytest.mark.spec("B11", "C7")
async def test_a_stop_tells_what_was_kept(walker: Walker, repository: Path) -> None:
    scripts = {
        "main": [start(run_in_background=True), wait_for_file(repository), call("TaskStop", task_id=ID), "end"],
        "child": [bash("touch new; while :; do sleep 0.05; done")],
    }
    async with crew(walker, scripts, mode="bypassPermissions") as play:
        await play.play("SCRIPT:main")
    (kept,) = (repository / ".teamwright" / "worktrees").iterdir()
    stopped = ended_calls(play)[-1].content[0].text
    assert stopped.startswith("Stopped") and str(kept) in stopped and "new" in stopped


def wait_for_file(repository: Path):
    """A step that waits until the child has made its file."""

    async def play(_: Request) -> str | object:
        with anyio.fail_after(20):
            while not list((repository / ".teamwright" / "worktrees").glob("*/new")):
                await anyio.sleep(0.02)
        return bash("true")

    return play


@pytest.mark.spec("C3", "W8", "B1")
async def test_an_agent_that_cannot_be_resumed_now_can_be_later(walker: Walker, repository: Path) -> None:
    scripts = {"main": [start(), "end"], "child": [bash("echo new > made-here"), "done", "again"]}
    async with crew(walker, scripts) as play:
        await play.play()
        (child,) = play.children
        spawner, jobs = play.session.services.spawner, play.session.supervisor.jobs
        first, main = jobs.get(child), play.session.main.id
        with sqlite3.connect(walker.store / "state.db") as db:
            db.execute("CREATE TRIGGER full BEFORE INSERT ON jobs BEGIN SELECT RAISE(ABORT, 'no more'); END")
        with pytest.raises(StoreError, match="no more"):
            letter = Letter(new_letter_id(), child, PERSON, Prompt((Text("and now?"),)))
            await spawner.write(spawner.known[child], letter, main, None)
        assert jobs.get(child) is first and "locked" not in git(repository, "worktree", "list", "--porcelain")
        with sqlite3.connect(walker.store / "state.db") as db:
            db.execute("DROP TRIGGER full")
        db.close()
        await spawner.pass_on(Letter(new_letter_id(), child, PERSON, Prompt((Text("and now?"),))))
        job = jobs.get(child)
        assert job is not None and job is not first
        with anyio.fail_after(LIMIT):
            await job.closed.wait()
    assert job.status == "completed" and job.result.result.startswith("again") and "made-here" in job.result.result
