"""kill -9 while an agent moves into a worktree or out of it: what is left is found, listed and usable."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from program import Program, Ran, bash, tool
from worktree_kit import git, kept_refs, new_repo, nothing_left, untouched

pytestmark = pytest.mark.spec("W8")
ALL = ("--dangerously-skip-permissions",)
IN = [tool("EnterWorktree", name="work")]
OUT = [*IN, bash("echo new > new.txt"), tool("ExitWorktree", action="remove", discard_changes=True)]
POINTS = [
    *((IN, f"worktree.{name}") for name in ("recorded", "added", "filled", "ready")),
    (IN, "room.opened"), (IN, "room.noted"),
    *((OUT, f"worktree.{name}") for name in ("hidden", "unlocked", "removed", "dropped")), (OUT, "room.left"),
]  # fmt: skip


@pytest.fixture
def repo(program: Program) -> Path:
    program.project.rmdir()
    return new_repo(program.project)


def resume(program: Program, *steps: Any) -> Ran:
    """Resume the killed session; the model plays from the start."""
    session = program.transcript().stem
    before = ["-"] * sum('"replied"' in line for line in program.transcript().read_text().splitlines())
    return program.prompt([*before, *steps, "end"], *ALL, "--resume", session)


@pytest.mark.parametrize(("steps", "point"), POINTS, ids=lambda value: value if isinstance(value, str) else "")
def test_killed_between_the_steps(program: Program, repo: Path, steps: list[Any], point: str) -> None:
    ran = program.prompt([*steps, "end"], *ALL, env={"TEAMWRIGHT_CRASHPOINT": point})
    assert ran.rc == -signal.SIGKILL
    rows = json.loads(program.run("worktrees", "--json").out)
    gone = point in ("worktree.recorded", "worktree.dropped", "room.left")
    assert [row["state"] for row in rows] == ([] if gone else ["orphan"])
    if steps is OUT:
        assert git(repo, "show", f"{kept_refs(repo)[0]}:new.txt") == "new\n", "kept before anything went"
    assert untouched(repo)
    again = resume(program, bash("pwd -P"), tool("EnterWorktree", name="work"), bash("pwd -P"),
                   tool("ExitWorktree", action="keep"))  # fmt: skip
    assert again.rc == 0, again.err
    texts = [text for text, _ in again.tool_results][-4:]
    path = repo / ".teamwright" / "worktrees" / "work"
    assert texts[2].strip() == str(path) and "back in" in texts[3]
    assert program.run("worktrees", "clean", "work").rc == 0 and nothing_left(repo)


def test_killed_while_it_works_there(program: Program, repo: Path) -> None:
    """The next start reports what is left; a resume continues in the worktree, with everything."""
    steps = [*IN, bash("echo new > new.txt"), bash("kill -9 $PPID; sleep 10")]
    ran = program.prompt([*steps, "end"], *ALL)
    assert ran.rc != 0
    other = program.prompt(["hello"], *ALL)
    assert other.rc == 0 and "work" in other.err and "teamwright worktrees" in other.err
    session = min((program.state / "projects").glob("*/*.jsonl"), key=lambda path: path.stat().st_mtime_ns).stem
    script = [*["-"] * 3, bash("cat new.txt; pwd -P"), "end"]
    again = program.prompt(script, *ALL, "--resume", session)
    assert again.rc == 0 and "new\n" + str(repo / ".teamwright" / "worktrees" / "work") in again.tool_results[-1][0]
