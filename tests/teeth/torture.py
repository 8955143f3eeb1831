"""The long form of the team tests: `make torture`, or `python tests/teeth/torture.py [KILLS [SEED]]`.

Every crash point at pass after pass, then kills at random, until there were so many. Prints what was found and fails if
anything was lost, doubled, owned twice or could not be resumed; a seed plays the same kills again.
"""

import shutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed

from team_brain import Brain
from team_harness import POINTS, Crew, Kill, random_kill, torment
from team_ledger import Figures

KILLS = 2000
EACH = 16  # runs of one team that are killed
AT_ONCE = 3  # teams
MOST = {"team.member": 3, "team.take_over": 1}  # passes in one run


def crews(modes: list[str], seed: int) -> Iterator[tuple[str, int, list[Kill] | None]]:
    for point in POINTS:
        yield "in-process", seed, [Kill(f"{point}:{1 + n % MOST.get(point, EACH)}") for n in range(EACH)]
        if "local" in modes:
            yield "local", seed, [Kill(f"{point}:{1 + n % MOST.get(point, EACH)}", "mate") for n in range(EACH // 4)]
        seed += 1
    while True:
        for mode in modes:
            yield mode, seed, None
            seed += 1


def play(brain: Brain, mode: str, seed: int, kills: list[Kill] | None) -> Figures:
    crew = Crew(brain, mode, seed)
    try:
        return torment(crew, kills or [random_kill(crew.dice, mode) for _ in range(EACH)])
    finally:
        crew.close()


def main(most: int, seed: int) -> int:
    modes = ["in-process", "local", *(["tmux"] if shutil.which("tmux") else [])]
    brain, began, total = Brain(), time.monotonic(), Figures()
    by_mode = {mode: Figures() for mode in modes}
    supply = crews(modes, seed)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while total.kills < most and not total.faults:
            batch = [next(supply) for _ in range(AT_ONCE * 2)]
            running = {pool.submit(play, brain, *plan): plan for plan in batch}
            for done in as_completed(running):
                mode, number, _ = running[done]
                figures = done.result()
                figures.faults = [f"{mode}, seed {number}: {fault}" for fault in figures.faults]
                by_mode[mode] += figures
                total += figures
            print(f"{time.monotonic() - began:6.0f} s  {total}", file=sys.stderr, flush=True)
    brain.close()
    for mode, figures in by_mode.items():
        print(f"{mode}: {figures}")
    print(f"all: {total}")
    print("\n".join(total.faults) or "no faults")
    return bool(total.faults)


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    sys.exit(main(*given, *(KILLS, 1)[len(given) :]))
