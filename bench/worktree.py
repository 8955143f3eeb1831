"""Makes an agent's worktree and runs a bare `git worktree add`, in turns, in a repository of 2,000 files."""

import subprocess
import time
from pathlib import Path

import anyio
from rows import Row, ms
from session import Rig

from teamwright.host.git.worktrees.worktree import close, make

FILES, ROUNDS = 2000, 5


def a_repository(top: Path) -> Path:
    top.mkdir()
    for n in range(FILES):
        file = top / f"part{n % 40:02}" / f"file{n:04}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"file {n}\n" * 40)
    us = ("-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0")
    for args in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "all"), ("gc", "-q")):
        subprocess.run(["git", *us, *args], cwd=top, check=True)
    return top


def bare(repo: Path, n: int) -> float:
    path = repo.parent / f"bare{n}"
    began = time.perf_counter()
    subprocess.run(["git", "worktree", "add", "-q", "-b", f"bare-{n}", str(path)], cwd=repo, check=True)
    took = time.perf_counter() - began
    subprocess.run(["git", "worktree", "remove", str(path)], cwd=repo, check=True)
    return took


async def ours(repo: Path, n: int) -> float:
    began = time.perf_counter()
    tree = await make(repo, f"ours-{n}", owner="bench", session="bench")
    took = time.perf_counter() - began
    await close(tree)
    return took


def measure(rig: Rig) -> list[Row]:
    repo = a_repository(rig.root / "repository")
    times: tuple[list[float], list[float]] = [], []
    for n in range(ROUNDS):
        times[0].append(anyio.run(ours, repo, n))
        times[1].append(bare(repo, n))
    name = f"a worktree of {FILES:,} files : git worktree add"
    return [Row(name, ms(times[0]), ms(times[1]), unit="ms", most_ratio=1.5)]
