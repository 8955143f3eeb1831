"""What checkpoints cost without a rewind: a Write with and without them, and a scan of 2,000 files in git."""

import time
from pathlib import Path
from statistics import median

import anyio
from rows import Row, ms
from session import Rig
from worktree import FILES, a_repository

from teamwright.app import Options, open_session
from teamwright.host.git.shadow import ShadowTree
from teamwright.models.scripted import ScriptedModel, call

ROUNDS, WRITES = 7, 40
TEXT = "".join(f"line {n} of some file\n" for n in range(400))  # 8 kB


async def a_turn(root: Path, *, keep: bool) -> float:
    """Seconds for one Write in a turn with many of them."""
    project = root / "project"
    project.mkdir(parents=True, exist_ok=True)
    script = [
        [call("Write", file_path=str(project / f"{n}-{time.monotonic_ns()}"), content=TEXT)] for n in range(WRITES)
    ]
    env = {"HOME": str(root), "TEAMWRIGHT_HOME": str(root / "state"), "PATH": "/usr/bin:/bin"}
    model = ScriptedModel([*script, "end"])
    options = Options(cwd=project, env=env, own_model=model, mode="acceptEdits", keep_files=keep)
    async with await open_session(options) as session:
        began = time.perf_counter()
        await session.ask("write")
        return (time.perf_counter() - began) / WRITES


async def looks(repo: Path, folder: Path) -> tuple[float, list[float]]:
    """Seconds for the first scan, and for further scans of the same files."""
    tree, took = ShadowTree(repo, folder, without=folder), list[float]()
    for _ in range(ROUNDS + 1):
        began = time.perf_counter()
        await tree.look()
        took.append(time.perf_counter() - began)
    return took[0], took[1:]


def measure(rig: Rig) -> list[Row]:
    kept, bare = list[float](), list[float]()
    for n in range(ROUNDS):
        kept.append(anyio.run(lambda n=n: a_turn(rig.root / f"kept{n}", keep=True)))
        bare.append(anyio.run(lambda n=n: a_turn(rig.root / f"bare{n}", keep=False)))
    first, later = anyio.run(looks, a_repository(rig.root / "looked-at"), rig.root / "shadow")
    return [
        Row("a Write that is kept : not kept", ms(kept), ms(bare), unit="ms"),
        Row("  the difference", [1000 * (median(kept) - median(bare))], unit="ms", most=5),
        Row(f"the first look at {FILES:,} files", [1000 * first], unit="ms", most=1000),
        Row("  before and after each command that may change some", ms(later), unit="ms", most=60),
    ]
