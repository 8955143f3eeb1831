"""Lands 100 branches with a check of 10 ms, and compares with the bare git commands run one after the other."""

import subprocess
import time
from pathlib import Path

import anyio
from rows import Row
from session import Rig

from teamwright.core.data.landing import LandDraft
from teamwright.core.ids import AgentId
from teamwright.host.git.run import locate
from teamwright.host.process.environment import tool_environment
from teamwright.runtime.landing.check import CheckRun
from teamwright.runtime.landing.plan import LandPlan
from teamwright.runtime.landing.queueing import queue_branch
from teamwright.runtime.landing.runner import LandRunner, queue_lock
from teamwright.store.acts.landing import SentBack
from teamwright.store.tables.landing import LandTable
from teamwright.store.tables.state import StateStore

BRANCHES, FILES, ROUNDS = 100, 50, 2
CHECK = "sleep 0.01"
US = ("-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0")


def git(cwd: Path, *args: str, input: str | None = None) -> str:
    ran = subprocess.run(["git", *US, *args], cwd=cwd, check=True, capture_output=True, text=True, input=input)
    return ran.stdout.strip()


def a_repository(top: Path) -> Path:
    """Make branches with plumbing commands: a hundred checkouts would take longer than what is measured."""
    top.mkdir(parents=True)
    git(top, "init", "-q", "-b", "main")
    git(top, "config", "user.name", "bench")
    git(top, "config", "user.email", "bench@localhost")
    for n in range(FILES):
        (top / f"file{n:02}.txt").write_text(f"file {n}\n" * 40)
    git(top, "add", "-A")
    git(top, "commit", "-qm", "all")
    base, listed = git(top, "rev-parse", "HEAD"), git(top, "ls-tree", "HEAD")
    blob = git(top, "hash-object", "-w", "--stdin", input="new\n")
    for n in range(BRANCHES):
        tree = git(top, "mktree", input=f"{listed}\n100644 blob {blob}\tnew{n:03}.txt\n")
        git(top, "branch", f"b{n:03}", git(top, "commit-tree", "-p", base, "-m", f"work {n}", tree))
    return top


def bare(repo: Path) -> float:
    """The commands that a person's script would run."""
    began = time.perf_counter()
    for n in range(BRANCHES):
        tree = repo.parent / f"try{n}"
        git(repo, "worktree", "add", "-q", "--detach", str(tree), "main")
        git(tree, "merge", "-q", "--no-edit", f"b{n:03}")
        subprocess.run(["bash", "-c", CHECK], cwd=tree, check=True)
        git(repo, "merge", "-q", "--ff-only", git(tree, "rev-parse", "HEAD"))
        git(repo, "worktree", "remove", "--force", str(tree))
    return time.perf_counter() - began


async def ours(repo: Path, home: Path) -> float:
    state = await StateStore.open(home / "state.db")
    table, place = LandTable(state.database), await locate(repo)
    for n in range(BRANCHES):
        await queue_branch(table, place, LandDraft("", "main", f"b{n:03}", "", ""))

    async def ring(_: SentBack) -> None:
        raise AssertionError("all of them are green")

    check = CheckRun(CHECK, tool_environment({}, {}), None, AgentId("bench"), str)
    began = time.perf_counter()
    async with queue_lock(place):
        end = await LandRunner(table, LandPlan(place, "main"), check, [].append, ring).run()
    took = time.perf_counter() - began
    assert len(end.done) == BRANCHES and not end.blocked
    await state.close()
    return took


def measure(rig: Rig) -> list[Row]:
    times: tuple[list[float], list[float]] = [], []
    for n in range(ROUNDS):
        times[0].append(anyio.run(ours, a_repository(rig.root / f"ours{n}" / "repo"), rig.root / f"home{n}"))
        times[1].append(bare(a_repository(rig.root / f"bare{n}" / "repo")))
    return [Row(f"landing {BRANCHES} branches : bare git", *times, unit="s", most_ratio=2)]
