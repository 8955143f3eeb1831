"""Agents in worktrees of their own: where they work, what is kept, what goes."""

import subprocess
from pathlib import Path

import pytest

from conftest import Walker
from teamwright.core.message import Text
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
