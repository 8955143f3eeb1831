"""What a box costs compared with a plain `bash -c true`, in turns: `python bench/sandbox.py`, or `make bench`.

Also measures the scan of an unchanged machine, and a box with 300 nested repositories.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from rows import Row, ms, table

from teamwright.core.sandbox.policy import Policy, Tier, policy_for
from teamwright.core.sandbox.rules import SandboxRules
from teamwright.host.sandbox.box import Box, Fence
from teamwright.host.sandbox.ground.terrain import Ground, read_terrain
from teamwright.host.sandbox.launch import Launch
from teamwright.host.sandbox.tiers import SWITCH, find_tier

ROUNDS = 40
TRUE = ("bash", "-c", "true")
ENV = {"PATH": os.environ.get("PATH", os.defpath)}
MOST = {"bwrap": 8.0, "landlock": 1.5}  # times the plain command
MOST_ADDED = 10.0  # ms, of bwrap
MOST_LOOK, MOST_MANY = 1.0, 350.0  # ms


def furnish(base: Path) -> Ground:
    for name in ("p/src", "h/.ssh", "h/.aws", "t", "h/.teamwright/cache"):
        (base / name).mkdir(parents=True)
    project = base / "p"
    subprocess.run(["git", "init", "-q", str(project)], check=True, stdin=subprocess.DEVNULL)
    state = str(base / "h/.teamwright")
    return Ground((str(project),), str(project), str(base / "h"), state, str(base / "t"), f"{state}/cache", ENV["PATH"])


def look(ground: Ground, tier: Tier = "bwrap") -> Policy:
    rules = SandboxRules()
    return policy_for(rules, ground.roots, "default", read_terrain(replace(ground, masked=tier == "bwrap"), rules))


def plain(cwd: str) -> None:
    subprocess.run(TRUE, cwd=cwd, env=ENV, stdin=subprocess.DEVNULL, check=True)


def boxed(fence: Fence, ground: Ground) -> None:
    """Everything that the sandbox adds to a command: the scan, the policy, the box, and the comparison at the end."""
    nowhere = subprocess.DEVNULL
    box = Box(fence, look(ground, fence.tier))
    if box.start(Launch(TRUE, ground.project, ENV, {}, nowhere, nowhere, nowhere)).wait():
        raise SystemExit(f"the box of {fence.tier} did not run")
    box.end()


def timed(action: Callable[[], None], rounds: int = 1) -> float:
    began = time.perf_counter()
    for _ in range(rounds):
        action()
    return (time.perf_counter() - began) / rounds


def compare(fence: Fence, ground: Ground) -> list[Row]:
    ours, other = list[float](), list[float]()
    first = timed(lambda: boxed(fence, ground))
    for _ in range(ROUNDS):
        other.append(timed(lambda: plain(ground.project)))
        ours.append(timed(lambda: boxed(fence, ground)))
    rows = [Row(f"{fence.tier} : bash -c true", ms(ours), ms(other), unit="ms", most_ratio=MOST[fence.tier])]
    added = [min(ms(ours)) - min(ms(other))]
    rows.append(Row("  added", added, unit="ms", most=MOST_ADDED if fence.tier == "bwrap" else None))
    rows.append(Row("  the first, imports with it", ms([first]), unit="ms"))
    return rows


def many(fence: Fence, ground: Ground) -> Row:
    for n in range(300):
        git = Path(ground.project, f"deps/{n}/.git")
        (git / "hooks").mkdir(parents=True)
        (git / "config").write_text("[core]\n")
    return Row(
        "300 nested repositories",
        ms([timed(lambda: boxed(fence, ground)) for _ in range(5)]),
        unit="ms",
        most=MOST_MANY,
    )


def measure(_rig: Any = None) -> list[Row]:
    rows: list[Row] = []
    place = next(one for one in ("/srv", str(Path.home())) if os.access(one, os.W_OK))
    with tempfile.TemporaryDirectory(dir=place) as made:
        base = Path(made).resolve()
        ground = furnish(base)
        look(ground)
        time.sleep(0.1)  # what changed just now is not remembered yet
        looks = [timed(lambda: look(ground) and None, 20) for _ in range(10)]
        rows.append(Row("terrain and policy, nothing changed", ms(looks), unit="ms", most=MOST_LOOK))
        wanted: tuple[Tier, ...] = ("bwrap", "landlock")
        for tier in wanted:
            found = find_tier(base / "state", {SWITCH: tier})
            if found.tier == "none":
                print(f"{tier} is not measured: {found.why}")
                continue
            fence = Fence(tier, str(base / "q"), bwrap=found.bwrap)
            rows += compare(fence, ground)
        found = find_tier(base / "state", {SWITCH: "bwrap"})
        if found.tier == "bwrap":
            rows.append(many(Fence("bwrap", str(base / "q"), bwrap=found.bwrap), ground))
    return rows


if __name__ == "__main__":
    print(table(measure()))
