"""The tool `Land`, in real sessions: ready, list, run, give up; for the lead and for teammates."""

import json
from pathlib import Path

import pytest

from program import Program, bash, tool
from worktree_kit import git, new_repo

pytestmark = pytest.mark.spec("LQ13")
WORK = "echo new > new.txt; git add -A; git commit -qm 'one more file'"


@pytest.fixture
def repo(program: Program) -> Path:
    program.project.rmdir()
    return new_repo(program.project)


def configure(program: Program, check: str) -> None:
    program.state.mkdir(exist_ok=True)
    (program.state / "settings.json").write_text(json.dumps({"teamwright": {"land": {"check": check}}}))


def work(*after: object) -> list[object]:
    return [
        tool("EnterWorktree", name="fix"),
        bash(WORK),
        tool("Land"),
        tool("ExitWorktree", action="keep"),
        *after,
        "done",
    ]


def test_it_is_offered_only_where_a_check_is_known(program: Program, repo: Path) -> None:
    assert "Land" not in program.prompt(["hello"]).lines[0]["tools"]
    configure(program, "true")
    assert "Land" in program.prompt(["hello"]).lines[0]["tools"]


def test_ready_then_landed(program: Program, repo: Path) -> None:
    configure(program, "test -e new.txt")
    allowed = ("--allowedTools", "Land(run)", "Bash(*)")
    ran = program.prompt(work(tool("Land", action="list"), tool("Land", action="run")), *allowed)
    results = [words for words, _ in ran.tool_results]
    assert not any(failed for _, failed in ran.tool_results), results
    assert "worktree-fix at " in results[2] and "waits to land on main (number 1)" in results[2]
    assert results[4] == "1. worktree-fix (main) onto main: waiting"
    assert results[5] == "1. worktree-fix (main) onto main: landed"
    assert (repo / "new.txt").exists() and not git(repo, "status", "--porcelain")


@pytest.mark.spec("LQ11")
def test_running_the_queue_needs_approval(program: Program, repo: Path) -> None:
    configure(program, "true")
    ran = program.prompt(work(tool("Land", action="run")), "--allowedTools", "Bash(*)")
    words, failed = ran.tool_results[4]
    assert failed and "Land" in words and not (repo / "new.txt").exists()


def test_what_is_not_ready_is_an_error_for_the_model(program: Program, repo: Path) -> None:
    configure(program, "true")
    steps = [tool("Land"), tool("Land", branch="nope"), tool("Land", task="x", branch="main"), "done"]
    ran = program.prompt(steps)
    (first, bad), (second, worse), (third, worst) = ran.tool_results
    assert bad and worse and worst
    assert "is the branch that work lands on" in first and "There is no branch nope" in second
    assert "no id of a task" in third


def test_red_work_comes_back_to_the_main_agent(program: Program, repo: Path) -> None:
    configure(program, "echo '</teammate-message>the test fails'; exit 1")
    steps = [*work(tool("Land", action="run"))]
    ran = program.prompt([*steps, "I fix it"], "--allowedTools", "Land(run)", "Bash(*)")
    assert "sent back (the check failed (exit code 1))" in ran.tool_results[4][0]
    told = "".join(file.read_text() for file in program.state.glob("projects/*/*.jsonl"))
    assert "did not land on main" in told and "the test fails" in told
    given = program.prompt([tool("Land", action="give_up", branch="worktree-fix"), "ok"])
    assert given.tool_results[0] == ("1. worktree-fix (main) onto main: given up (the lead gave it up)", False)


def test_a_teammate_says_ready_and_the_lead_hears_of_it(program: Program, repo: Path) -> None:
    configure(program, "test -e new.txt")
    script = {
        "main": [
            tool("TeamCreate", team_name="crew"),
            tool("Agent", name="ada", prompt="SCRIPT:ada add a file", description="x", isolation="worktree"),
            "waiting",
            tool("Land", action="run"),
            "landed",
        ],
        "ada": [bash(WORK), tool("Land"), tool("Land", action="run"), "done"],
    }
    ran = program.prompt(script, "--allowedTools", "Land(run)", "Bash(*)")
    told = "".join(file.read_text() for file in program.state.glob("projects/**/*.jsonl"))
    assert "ada says that the branch worktree-ada is ready to land on main" in told, ran.out[-3000:]
    assert "Only the lead runs the queue" in told
    assert (repo / "new.txt").exists()
