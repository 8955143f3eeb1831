"""`teamwright land`: queue, list, land, give up; for people and with --json."""

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from landing_kit import branch, left_trees
from program import ARGV, Program, bash, tool
from worktree_kit import git, new_repo

pytestmark = pytest.mark.spec("LQ12")


@pytest.fixture
def repo(program: Program) -> Path:
    program.project.rmdir()
    return new_repo(program.project)


def states(program: Program) -> dict[str, str]:
    return {row["branch"]: row["state"] for row in json.loads(program.run("land", "--list", "--json").out)}


def test_a_branch_lands_and_the_check_is_remembered(program: Program, repo: Path) -> None:
    for name in ("a", "b"):
        branch(repo, name, {f"{name}.txt": name})
    done = program.run("land", "a", "--check", "test -e README.md")
    assert done.rc == 0 and "landed     a" in done.out and (repo / "a.txt").exists()
    again = program.run("land", "b")
    assert again.rc == 0 and (repo / "b.txt").exists() and not left_trees(repo)
    assert "nothing waits to land" in program.run("land").out
    assert program.run("land", "a").rc == 2


@pytest.mark.parametrize("args", [[], ["--watch"], ["--check", "true"], ["a"]])
def test_outside_a_repository_that_is_said_first_and_no_check_is_kept(program: Program, args: list[str]) -> None:
    ran = program.run("land", *args)
    assert ran.rc == 2 and "is not in a git working tree" in ran.err and "check" not in ran.err
    assert not list((program.state / "landing").glob("*.json"))


def test_a_name_that_is_none_may_be_meant_as_a_branch(program: Program, repo: Path) -> None:
    branch(repo, "parser", {"a.txt": "a"})
    near = program.run("land", "parsr", "--check", "true")
    assert near.rc == 2 and near.err.strip() == (
        "teamwright: there is no branch or worktree parsr; did you mean parser?"
    )
    far = program.run("land", "nothing-like-it", "--check", "true")
    assert far.rc == 2 and "`git branch` and `teamwright worktrees` list them" in far.err


@pytest.mark.parametrize("check", ["", "  ", "\udcff"])
def test_a_check_that_checks_nothing_is_refused(program: Program, repo: Path, check: str) -> None:
    branch(repo, "a", {"a.txt": "a"})
    refused = program.run("land", "a", "--check", check)
    assert refused.rc == 2 and "--check" in refused.err and not (repo / "a.txt").exists()
    assert not list((program.state / "landing").glob("*.json"))


def test_without_a_check_nothing_lands(program: Program, repo: Path) -> None:
    branch(repo, "a", {"a.txt": "a"})
    refused = program.run("land", "a")
    assert refused.rc == 2 and "No check is set" in refused.err and not (repo / "a.txt").exists()
    assert "trusted" not in refused.err  # the directory has no settings


@pytest.mark.spec("LQ11")
def test_the_check_of_a_project_counts_only_where_it_is_trusted(program: Program, repo: Path) -> None:
    mark = program.project.parent / "ran"
    (repo / ".teamwright").mkdir()
    (repo / ".teamwright" / "settings.json").write_text(
        json.dumps({"teamwright": {"land": {"check": f"touch {mark}"}}})
    )
    branch(repo, "a", {"a.txt": "a"})
    refused = program.run("land", "a")
    assert refused.rc == 2 and "it is not trusted" in refused.err and not mark.exists()
    done = program.run("land", "a", "--trust")
    assert done.rc == 0 and mark.exists()


def test_a_person_is_asked_once(program: Program, repo: Path) -> None:
    branch(repo, "a", {"a.txt": "a"})
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*ARGV, "land", "a"], cwd=repo, env=program.env, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    os.close(theirs)
    os.write(ours, b"test -e a.txt\n")
    out, err = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == 0, err
    assert b"Which command checks this project" in err and b"landed" in out
    branch(repo, "b", {"b.txt": "b"})
    assert program.run("land", "b").rc == 0


def test_red_work_is_named_with_its_reason(program: Program, repo: Path) -> None:
    for name in ("bad", "good"):
        branch(repo, name, {f"{name}.txt": name})
        assert program.run("land", "--queue", name).rc == 0
    ran = program.run("land", "--check", "test ! -e bad.txt")
    assert ran.rc == 1 and "sent back  bad" in ran.out and "the check failed (exit code 1)" in ran.out
    assert "landed     good" in ran.out and states(program) == {"bad": "sent_back", "good": "landed"}
    assert "bad" in program.run("land", "--list").out


def test_given_up_and_found_again(program: Program, repo: Path) -> None:
    tip = branch(repo, "a", {"a.txt": "a"})
    assert program.run("land", "--queue", "a", "--priority", "3").rc == 0
    assert program.run("land", "--give-up", "a").rc == 0 and states(program) == {"a": "given_up"}
    git(repo, "branch", "-q", "-D", "a")
    told = program.run("worktrees", "--all")
    ref = f"refs/teamwright/landing/a-{tip[:12]}"
    assert ref in told.out and "work of a" in told.out
    (row,) = json.loads(program.run("worktrees", "--all", "--json").out)
    assert (row["ref"], row["commit"], row["state"]) == (ref, tip, "kept")
    git(repo, "worktree", "add", "-q", str(repo.parent / "again"), ref)
    assert (repo.parent / "again" / "a.txt").read_text() == "a"
    assert program.run("land", "--give-up", "a").rc == 2
    assert program.run("land", "--give-up", "nope").rc == 2


def test_dirty_files_stop_the_queue_in_words(program: Program, repo: Path) -> None:
    branch(repo, "a", {"a.txt": "a"})
    (repo / "README.md").write_text("mine\n")
    ran = program.run("land", "a", "--check", "true")
    assert ran.rc == 1 and "stopped with 1 branch waiting" in ran.out and "commit or stash them" in ran.out
    assert "uncommitted changes" in program.run("land", "--list").out


def test_the_worktree_of_a_session_lands_with_its_task(program: Program, repo: Path) -> None:
    steps = [
        tool("TaskCreate", subject="add a file", description="new.txt"),
        tool("EnterWorktree", name="fix"),
        bash("echo new > new.txt; git add -A; git commit -qm new"),
        tool("TaskUpdate", taskId="1", status="in_progress"),
        tool("TaskUpdate", taskId="1", status="completed"),
        "done",
    ]
    ran = program.prompt(steps, "--dangerously-skip-permissions")
    assert not any(failed for _, failed in ran.tool_results), ran.out
    sent = program.run("land", "fix", "--check", "echo it is red; exit 1", "--json")
    (row,) = json.loads(sent.out)
    assert sent.rc == 1 and (row["branch"], row["task"], row["state"]) == ("worktree-fix", 1, "sent_back")
    (task,) = json.loads(program.run("tasks", "--json").out)
    assert task["status"] == "in_progress"
    told = program.prompt(["I see."], "--resume", str(ran.result["session_id"]), "--replay-user-messages")
    transcripts = "".join(file.read_text() for file in program.state.glob("projects/*/*.jsonl"))
    assert told.rc == 0 and "did not land on main" in transcripts and "it is red" in transcripts


def test_watch_lands_what_becomes_ready(program: Program, repo: Path) -> None:
    process = subprocess.Popen(
        [*ARGV, "land", "--watch", "--check", "true"], cwd=repo, env=program.env, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout and "waiting for branches" in process.stdout.readline()
        branch(repo, "a", {"a.txt": "a"})
        assert program.run("land", "--queue", "a").rc == 0
        seen: list[str] = []
        while not any("landed" in line for line in seen):
            line = process.stdout.readline()
            assert line, seen
            seen.append(line)
        assert (repo / "a.txt").exists() and any("trying" in line for line in seen)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert not left_trees(repo)


@pytest.mark.parametrize(
    "args", [("--queue",), ("--give-up",), ("--list", "a"), ("--list", "--watch"), ("--priority", "high", "a")]
)
def test_wrong_use_is_one_line(program: Program, repo: Path, args: tuple[str, ...]) -> None:
    ran = program.run("land", *args)
    assert ran.rc == 2 and ran.err.count("\n") == 1
