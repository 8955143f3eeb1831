"""The long form of the team tests: `make torture`, or `python tests/teeth/torture.py [--engine] [KILLS [SEED]]`.

Kills at every crash point, pass after pass, then at random, until there are KILLS. Prints the findings and fails if
anything was lost, doubled, owned twice or could not be resumed; a seed repeats the same kills. With `--engine` the team
is spread over workers, and leads, workers and the server are killed.
"""

import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed

from team_brain import Brain
from team_harness import POINTS, Crew, Kill, random_kill, torment
from team_ledger import Figures

KILLS = 2000
EACH = 16  # runs of one team that are killed
EACH_ENGINE = 40  # kills of one team over an engine
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


def main_engine(most: int, seed: int) -> int:
    from engine_harness import EngineCrew

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # nothing of it is still running
    brain, began, total = Brain(), time.monotonic(), Figures()
    by_victim, stops = Counter[str](), 0
    while total.kills < most and not total.faults:
        crew = EngineCrew(brain, seed)
        try:
            figures = crew.torment(min(EACH_ENGINE, most - total.kills))
        finally:
            crew.close()
        figures.faults = [f"engine, seed {seed}: {fault}" for fault in figures.faults]
        by_victim += crew.by_victim
        total, stops, seed = total + figures, stops + crew.stops, seed + 1
        print(f"{time.monotonic() - began:6.0f} s  {total}", file=sys.stderr, flush=True)
    brain.close()
    print(f"engine: {total}")
    print(f"kills: {', '.join(f'{n} of {who}s' for who, n in by_victim.items())}; {stops} were stopped for a while")
    print("\n".join(total.faults) or "no faults")
    return bool(total.faults)


if __name__ == "__main__":
    words = sys.argv[1:]
    given = [int(word) for word in words if word != "--engine"]
    play_all = main_engine if "--engine" in words else main
    sys.exit(play_all(*given, *(KILLS, 1)[len(given) :]))
