"""`teamwright worktrees`: list, show, merge, clean, for people and with --json."""

import json
from pathlib import Path

import anyio
import pytest

from program import Program, bash, tool
from teamwright.host.git.worktrees.worktree import make
from worktree_kit import change, git, kept_refs, new_repo, nothing_left, save


@pytest.fixture
def repo(program: Program) -> Path:
    program.project.rmdir()
    return new_repo(program.project)


def work(program: Program, command: str, name: str = "fix/it") -> dict[str, object]:
    """What a session leaves after it entered a worktree."""
    steps = [tool("EnterWorktree", name=name), bash(command), "done"]
    ran = program.prompt(steps, "--dangerously-skip-permissions")
    assert ran.rc == 0 and not any(failed for _, failed in ran.tool_results), ran.out
    return ran.result


COMMIT = "echo new > new.txt; git add -A; git commit -qm 'one more file'"


@pytest.mark.spec("W8", "W3")
def test_listed_with_its_session(program: Program, repo: Path) -> None:
    result = work(program, "echo new > new.txt")
    (row,) = json.loads(program.run("worktrees", "--json").out)
    path = repo / ".teamwright" / "worktrees" / "fix+it"
    assert row == {
        "name": "fix+it", "path": str(path), "branch": "worktree-fix+it", "agent_id": result["session_id"],
        "session_id": result["session_id"], "state": "changed", "ahead": 0, "files_changed": 1, "insertions": 1,
        "deletions": 0,
    }  # fmt: skip


@pytest.mark.spec("X7")
@pytest.mark.parametrize("args", [("worktrees",), ("worktrees", "show", "fix/it"), ("worktrees", "--json")])
def test_a_damaged_store_that_is_set_aside_is_told(program: Program, repo: Path, args: tuple[str, ...]) -> None:
    work(program, "echo new > new.txt")
    (program.state / "state.db").write_bytes(b"damaged" * 1_000)
    told = program.run(*args)
    assert told.rc == 0 and "fix+it" in told.out
    assert "state.db was damaged and is now state.db.corrupt-" in told.err


def test_one_is_shown_in_full(program: Program, repo: Path) -> None:
    result = work(program, COMMIT + "; echo loose > loose.txt")
    change(repo)
    told = program.run("worktrees", "show", "fix/it")
    assert told.rc == 0
    for words in ("1 ahead of main and 1 behind", "one more file", "new.txt", "loose.txt", str(result["session_id"])):
        assert words in told.out
    found = json.loads(program.run("worktrees", "show", "fix+it", "--json").out)
    assert (found["ahead_of_here"], found["behind_here"], found["here"]) == (1, 1, "main")
    assert [file["path"] for file in found["files"]] == ["loose.txt", "new.txt"]


def test_merged_then_cleaned(program: Program, repo: Path) -> None:
    work(program, COMMIT)
    tried = program.run("worktrees", "merge", "fix/it", "--preview")
    assert tried.rc == 0 and "new.txt" in tried.out and not (repo / "new.txt").exists()
    done = program.run("worktrees", "merge", "fix/it")
    assert done.rc == 0 and "teamwright worktrees clean fix+it" in done.out and (repo / "new.txt").exists()
    assert program.run("worktrees", "merge", "fix/it").rc == 2
    (gone,) = json.loads(program.run("worktrees", "clean", "fix/it", "--json").out)
    assert gone["name"] == "fix+it" and nothing_left(repo) and kept_refs(repo) == [gone["kept_ref"]]


@pytest.mark.spec("CL2")
def test_one_is_meant_by_branch_session_or_the_beginning_of_its_name(program: Program, repo: Path) -> None:
    result = work(program, COMMIT)
    for name in ("worktree-fix+it", "fix", "worktree-f", str(result["session_id"])):
        assert "fix+it  changed" in program.run("worktrees", "show", name).out, name
    assert f"session {str(result['session_id'])[:8]}" in program.run("worktrees").out
    anyio.run(make, repo, "fixture")
    several = program.run("worktrees", "clean", "fix")
    assert several.rc == 2 and "fix+it (session" in several.err and "fixture (worktree-fixture)" in several.err
    missing = program.run("worktrees", "merge", "fixtrue")
    assert missing.rc == 2 and "did you mean fixture?" in missing.err
    assert program.run("worktrees", "merge", "fix/").rc == 0 and (repo / "new.txt").exists()


@pytest.mark.spec("CL2")
def test_an_empty_name_means_none(program: Program, repo: Path) -> None:
    """It is the beginning of every name, and what a script passes whose variable is unset."""
    work(program, COMMIT)
    for args in ("worktrees show", "worktrees merge", "worktrees clean", "land --check true"):
        ran = program.run(*args.split(), "")
        assert ran.rc == 2 and "the name of a worktree is empty" in ran.err, args
    assert "fix+it  changed" in program.run("worktrees", "show", "fix").out and not (repo / "new.txt").exists()


def test_conflicts_are_shown_and_refused(program: Program, repo: Path) -> None:
    work(program, "echo there > README.md; git commit -qam there")
    (repo / "README.md").write_text("here\n")
    head = save(repo)
    tried = program.run("worktrees", "merge", "fix/it", "--preview", "--json")
    assert tried.rc == 1 and json.loads(tried.out)["conflicts"] == ["README.md"]
    refused = program.run("worktrees", "merge", "fix/it")
    assert refused.rc == 2 and "README.md" in refused.err
    assert git(repo, "rev-parse", "HEAD").strip() == head and not git(repo, "status", "--porcelain")


@pytest.mark.parametrize("args", [
    ["show"], ["merge"], ["show", "a", "b"], ["show", "nobody"], ["merge", "../up"], ["show", "a\u202eb"],
    ["list", "x"], ["clean", "nobody"], ["show", "x", "--preview"], ["burn"], ["merge", "-b"], ["show", "a\nb"],
])  # fmt: skip
def test_wrong_calls_are_told(program: Program, repo: Path, args: list[str]) -> None:
    ran = program.run("worktrees", *args)
    assert ran.rc == 2 and ran.err and nothing_left(repo)


def test_outside_of_a_repository(program: Program) -> None:
    for args in (["show", "x"], ["merge", "x"], []):
        ran = program.run("worktrees", *args)
        assert ran.rc == 2 and "not in a git working tree" in ran.err


@pytest.mark.spec("W8")
def test_one_in_use_can_be_looked_at_but_not_cleaned(program: Program, repo: Path) -> None:
    tree = anyio.run(make, repo, "work")
    assert "in_use" in program.run("worktrees", "show", "work").out
    ran = program.run("worktrees", "clean", "work")
    assert ran.rc == 2 and "in use" in ran.err and tree.path.is_dir()


@pytest.mark.spec("W9")
def test_merged_ones_are_cleared_away_without_being_named(program: Program, repo: Path) -> None:
    work(program, COMMIT)
    work(program, "echo other > other.txt", name="still")
    git(repo, "merge", "-q", "--no-ff", "-m", "merged", "worktree-fix+it")
    rows = json.loads(program.run("worktrees", "--json").out)
    assert {row["name"]: row["state"] for row in rows} == {"fix+it": "merged", "still": "changed"}
    done = program.run("worktrees", "clean")
    assert done.rc == 0 and "fix+it" in done.out and "still" not in done.out
    assert [row["name"] for row in json.loads(program.run("worktrees", "--json").out)] == ["still"]


@pytest.mark.spec("W1", "W3")
def test_a_session_works_in_a_worktree_of_its_own_under_its_own_name(program: Program, repo: Path) -> None:
    program.run("trust", ".")
    script = [bash("pwd; echo x > f"), "done"]
    args = ("-p", "go", "--dangerously-skip-permissions", "--output-format", "json")
    ran = program.run(*args, "--worktree", "fix/login", "--name", "the login", script=script)
    there = repo / ".teamwright" / "worktrees" / "fix+login"
    assert ran.rc == 0 and "fix+login is kept" in ran.err and (there / "f").exists()
    assert not (repo / "f").exists()
    listed = program.run("sessions", "--json", cwd=there).out
    assert "the login" in listed
    again = program.run(*args, "-w", script=["nothing to do"])
    assert again.rc == 0 and "kept" not in again.err and [p.name for p in there.parent.iterdir()] == ["fix+login"]
    wrong = program.run(*args, "--worktree", "../up", script=["x"])
    assert wrong.rc == 2 and "cannot name a worktree" in wrong.err
