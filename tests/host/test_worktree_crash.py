"""Worktrees under concurrent use, by several processes, and under kill -9 at every step."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from teamwright.core.errors import ToolError
from teamwright.host.git.worktrees.worktree import FoundTree, KeptTree, Worktree, close, find, make, remove, state
from worktree_kit import git, kept_refs, known, new_repo, nothing_left, save, untouched

MAKE_OR_CLOSE = """
import sys, anyio
from pathlib import Path
from teamwright.core.crashpoint import arm
from teamwright.host.git.worktrees.worktree import close, make

async def main():
    repo, what, point = sys.argv[1:]
    if what == "make":
        arm(point)
    tree = await make(Path(repo), "work", links=["node_modules"], owner="a1")
    arm(point)
    if what == "work":
        (tree.path / "new.txt").write_text("new")
        print(flush=True)
        await anyio.sleep(60)
    await close(tree)

anyio.run(main)
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return new_repo(tmp_path / "re po ü")


# --- several at once, and after a crash


@pytest.mark.spec("W1", "W5")
async def test_five_at_once(repo: Path):
    """Different names give five trees; then all are closed at once."""
    trees: list[Worktree] = []

    async def one(n: int) -> None:
        trees.append(await make(repo, f"x{n}", owner=f"a{n}"))

    async with anyio.create_task_group() as group:
        for n in range(5):
            group.start_soon(one, n)
    assert len({tree.path for tree in trees}) == 5 == len(known(repo))
    assert all((tree.path / "README.md").exists() for tree in trees)
    assert (repo / ".git" / "info" / "exclude").read_text().count("worktrees") == 1
    async with anyio.create_task_group() as group:
        for tree in trees:
            group.start_soon(close, tree)
    assert nothing_left(repo)


async def test_the_same_name_at_once(repo: Path):
    """One agent gets it, the others are told; two never share a tree."""
    won: list[Worktree] = []
    told: list[str] = []

    async def one(n: int) -> None:
        try:
            won.append(await make(repo, "x", owner=f"a{n}"))
        except ToolError as error:
            told.append(str(error))

    async with anyio.create_task_group() as group:
        for n in range(5):
            group.start_soon(one, n)
    assert len(won) == 1 and len(told) == 4 and all("in use by" in text for text in told)
    assert not (await make(repo, "x", owner=won[0].owner)).made


def start(repo: Path, what: str, point: str) -> "subprocess.Popen[bytes]":
    argv = [sys.executable, "-c", MAKE_OR_CLOSE, str(repo), what, point]
    return subprocess.Popen(argv, stdout=subprocess.PIPE)


@pytest.mark.spec("W8")
async def test_in_use_by_another_process_and_left_by_a_dead_one(repo: Path):
    process = start(repo, "work", "never")
    try:
        assert process.stdout and process.stdout.readline()
        found = (await find(repo))[0]
        assert (found.use, found.state.files, found.worktree.owner) == ("in_use", 1, "a1")
        for act in (make(repo, "work", owner="a1"), remove(found.worktree)):
            with pytest.raises(ToolError, match=f"in use by a1 in process {process.pid}"):
                await act
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert [f.use for f in await find(repo)] == ["orphan"], "ended, though its parent has not yet asked for it"
    finally:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()
    found = (await find(repo))[0]
    assert (found.use, found.state.changed) == ("orphan", True)
    tree = await make(repo, "work", owner="a2")
    assert not tree.made and (tree.path / "new.txt").read_text() == "new"
    assert [f.use for f in await find(repo)] == ["in_use"]
    assert isinstance(await close(tree), KeptTree) and [f.use for f in await find(repo)] == ["changed"]


POINTS = [("make", f"worktree.{name}") for name in ("recorded", "added", "filled", "ready")]
POINTS += [("close", f"worktree.{name}") for name in ("judged", "closing", "unlocked", "removed", "dropped")]


@pytest.mark.spec("W8")
@pytest.mark.parametrize(("what", "point"), POINTS)
async def test_killed_at_any_step(repo: Path, what: str, point: str):
    """What is left is listed, the next attempt gets a whole tree, and closing that one leaves nothing."""
    (repo / "node_modules").mkdir()
    process = start(repo, what, point)
    with process:
        assert process.wait(timeout=30) == -signal.SIGKILL
    listed: list[FoundTree] = await find(repo)
    assert [f.use for f in listed] == ([] if point in ("worktree.recorded", "worktree.dropped") else ["orphan"])
    assert not any(f.state.changed and f.state.ahead for f in listed)
    tree = await make(repo, "work", links=["node_modules"], owner="a2")
    assert (tree.path / "README.md").read_text() == "hello\n" and (tree.path / "node_modules").is_symlink()
    assert not (await state(tree)).changed and untouched(repo)
    assert [f.use for f in await find(repo)] == ["in_use"]
    assert await close(tree) is None and nothing_left(repo) and kept_refs(repo) == []


@pytest.mark.spec("W8")
async def test_a_half_removed_one_is_made_anew_but_not_if_somebody_worked_in_it(repo: Path):
    with start(repo, "close", "worktree.closing") as process:
        process.wait(timeout=30)
    path = repo / ".teamwright" / "worktrees" / "work"
    (path / "README.md").unlink()
    (path / ".git").unlink()  # how far a removal may get before the kill
    tree = await make(repo, "work")
    assert tree.made and (path / "README.md").exists()
    assert await close(tree) is None
    with start(repo, "close", "worktree.closing") as process:
        process.wait(timeout=30)
    (path / "mine.txt").write_text("mine")
    assert not (await make(repo, "work")).made and (path / "mine.txt").exists()


@pytest.mark.spec("W8")
async def test_what_somebody_put_into_a_half_made_one_is_kept(repo: Path):
    with start(repo, "make", "worktree.added") as process:
        process.wait(timeout=30)
    path = repo / ".teamwright" / "worktrees" / "work"
    (path / "mine.txt").write_text("mine")
    tree = await make(repo, "work")
    assert tree.made and not (path / "mine.txt").exists()
    assert git(repo, "show", f"{kept_refs(repo)[0]}:mine.txt") == "mine"


async def test_locks_that_git_left_are_told(repo: Path):
    tree = await make(repo, "x")
    (repo / ".git" / "worktrees" / "x" / "index.lock").write_text("")
    (tree.path / "new.txt").write_text("new")
    again = await make(repo, "x")
    assert any("index.lock" in text for text in again.warnings)
    found = await close(again)
    assert found and found.state and found.state.files == 1


FULL = """
import resource, sys, anyio
from pathlib import Path
from teamwright.core.errors import ToolError
from teamwright.host.git.worktrees.worktree import make

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    anyio.run(make, Path(sys.argv[1]), "work")
except ToolError as error:
    print(error)
"""


@pytest.mark.spec("W8")
async def test_a_disk_that_fills_during_the_checkout(repo: Path):
    """Simulated by a limit on file sizes: git stops halfway, and nothing of the worktree is left."""
    (repo / "big.bin").write_bytes(os.urandom(300_000))
    save(repo)
    argv = [sys.executable, "-c", FULL, str(repo)]
    ran = await anyio.run_process(argv)
    assert b"git reset failed" in ran.stdout and nothing_left(repo)
    assert not (repo / ".teamwright" / "worktrees" / "work").exists() and untouched(repo)
