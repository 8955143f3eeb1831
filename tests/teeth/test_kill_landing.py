"""The program is killed at each point of a landing: the target is at its old or its new commit, nothing is lost, and
the next run goes on."""

import json
import signal
from pathlib import Path

import pytest

from landing_kit import branch, left_trees
from program import Program
from worktree_kit import git, new_repo

pytestmark = pytest.mark.spec("LQ10")

POINTS = [
    ("land.kept", 1), ("land.queued", 2), ("land.begun", 1), ("land.begun", 2), ("land.tree", 1), ("land.merged", 1),
    ("land.merged", 2), ("land.checked", 1), ("land.checked", 2), ("land.moved", 1), ("land.landed", 1),
    ("land.sent_back", 1), ("state.commit", 4), ("state.commit", 6), ("state.committed", 5), ("state.committed", 8),
]  # fmt: skip
ELSEWHERE = [("land.checked", 1), ("land.moved", 1), ("land.landed", 1)]  # if nobody has the target checked out
CASES = [*((*one, False) for one in POINTS), *((*one, True) for one in ELSEWHERE)]
CHECK = "test ! -e bad.txt"
NAMES = ("a", "bad", "c")


@pytest.fixture
def repo(program: Program) -> Path:
    program.project.rmdir()
    return new_repo(program.project)


@pytest.mark.parametrize(("point", "passes", "elsewhere"), CASES)
def test_a_kill_leaves_the_old_target_or_the_new_one(
    program: Program, repo: Path, point: str, passes: int, elsewhere: bool
) -> None:
    tips = {name: branch(repo, name, {f"{name}.txt": name}) for name in NAMES}
    if elsewhere:
        git(repo, "checkout", "-q", "-b", "mine")
    before = git(repo, "rev-parse", "main").strip()
    args = ("land", *NAMES, "--target", "main", "--check", CHECK)
    killed = program.run(*args, env={"TEAMWRIGHT_CRASHPOINT": f"{point}:{passes}"})
    assert killed.rc in (-signal.SIGKILL, 0, 1), killed.err
    between = git(repo, "rev-parse", "main").strip()
    assert git(repo, "merge-base", "--is-ancestor", before, between) == ""
    assert "bad.txt" not in git(repo, "ls-tree", "--name-only", "main")
    assert git(repo, "status", "--porcelain", "--untracked-files=no") == "", "files and branch agree"
    listed = {row["branch"]: row["state"] for row in json.loads(program.run("land", "--list", "--json").out)}
    if any(state == "landed" for state in listed.values()):
        assert between != before
    missing = [name for name in NAMES if name not in listed]  # killed before they were queued
    if missing:
        assert program.run("land", "--queue", *missing, "--target", "main").rc == 0
    again = program.run("land", "--target", "main", "--check", CHECK)
    assert again.rc in (0, 1), again.err
    rows = json.loads(program.run("land", "--list", "--json").out)
    assert {row["branch"]: row["state"] for row in rows} == {"a": "landed", "bad": "sent_back", "c": "landed"}
    assert len(rows) == 3, "each is decided once"
    if point == "land.moved":
        assert rows[0]["reason"] == "it had landed before the program ended"
    assert {"a.txt", "c.txt"} <= set(git(repo, "ls-tree", "--name-only", "main").split())
    assert git(repo, "status", "--porcelain", "--untracked-files=no") == "" and not left_trees(repo)
    kept = git(repo, "for-each-ref", "--format=%(objectname)", "refs/teamwright/landing").split()
    assert set(kept) == set(tips.values())
