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


def test_it_is_offered_in_every_repository(program: Program, repo: Path) -> None:
    assert "Land" in program.prompt(["hello"]).lines[0]["tools"]
    outside = program.root / "outside"
    outside.mkdir()
    assert "Land" not in program.prompt(["hello"], cwd=outside).lines[0]["tools"]


@pytest.mark.spec("LQ11")
@pytest.mark.parametrize("allowed", [True, False])
def test_a_check_that_the_lead_names_is_judged_like_a_command(program: Program, repo: Path, allowed: bool) -> None:
    """Only where the project sets none."""
    more = ["Bash(python3 *)"] if allowed else []
    rules = ("--permission-mode", "acceptEdits", "--allowedTools", "Land(run)", "Bash(git *)", *more)
    ran = program.prompt(work(tool("Land", action="run"), tool("Land", action="run", check="python3 -c 1")), *rules)
    assert ran.rc == 0, (ran.err, ran.lines[-1])
    (without, failed), (words, refused) = ran.tool_results[4:6]
    assert failed and "`check`" in without
    assert refused is not allowed and ("landed" if allowed else "no allow rule covers `python3 -c 1`") in words, words
    assert (repo / "new.txt").exists() is allowed, words
    configure(program, "true")
    ran = program.prompt([tool("Land", action="run", check="rm -rf /"), "done"], *rules)
    assert ran.tool_results[0] == (
        "1. worktree-fix (main) onto main: landed" if not allowed else "Nothing landed.",
        False,
    )


def test_ready_then_landed(program: Program, repo: Path) -> None:
    configure(program, "test -e new.txt")
    allowed = ("--allowedTools", "Land(run)", "Bash(*)")
    ran = program.prompt(work(tool("Land", action="list"), tool("Land", action="run")), *allowed)
    results = [words for words, _ in ran.tool_results]
    assert not any(failed for _, failed in ran.tool_results), results
    assert "worktree-fix at " in results[2] and "is number 1 to land on main." in results[2]
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
    assert "The branch worktree-ada is ready to land on main. It is number 1" in told, ran.out[-3000:]
    assert "Only the lead runs the queue" in told
    assert (repo / "new.txt").exists()


@pytest.mark.spec("LQ6", "LQ11")
def test_what_the_lead_queues_for_a_member_goes_back_to_that_member(program: Program, repo: Path) -> None:
    """The lead is not told of what it has done itself, and another repository's queue does not count."""
    configure(program, "false")
    elsewhere = new_repo(program.root / "elsewhere")
    git(elsewhere, "branch", "spare")
    git(elsewhere, "commit", "--allow-empty", "-qm", "more")
    git(elsewhere, "branch", "-f", "spare", "HEAD")
    git(elsewhere, "reset", "-q", "--hard", "HEAD~1")
    assert program.run("land", "--queue", "spare", cwd=elsewhere).rc == 0
    script = {
        "main": [
            tool("TeamCreate", team_name="crew"),
            tool("Agent", name="ada", prompt="SCRIPT:ada add a file", description="x", isolation="worktree"),
            "waiting",
            [tool("Land", branch="worktree-ada"), tool("Land", action="run")],
            "it came back",
        ],
        "ada": [bash(WORK), "done", "I fix it"],
    }
    ran = program.prompt(script, "--allowedTools", "Land(run)", "Bash(*)")
    results = [words for words, _ in ran.tool_results]
    assert any("is number 1 to land on main." in words and "goes back to ada" in words for words in results), results
    (ada,) = program.state.glob("projects/*/*/agents/*.jsonl")
    assert "Your branch worktree-ada did not land" in ada.read_text()
    (main,) = [file for file in program.state.glob("projects/**/*.jsonl") if file != ada]
    assert "is ready to land" not in main.read_text()
