"""The long form of the disk tests: `make long`, or `python tests/teeth/disk_faults.py [EVERY [FIRST]]`.

In a short team session, each EVERY-th call that changes something below the program's home fails, with EIO and with
ENOSPC, once, a few times and for good; then only syncs fail, followed by a power cut. Prints the findings; fails if
anything hung, ended badly, or was lost.
"""

import errno
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from disk_harness import KINDS, Fault, Patient, Verdict, build, compiler
from team_brain import Brain

EVERY = 40
FEW = 6  # more often than it is retried
AT_ONCE = 3


def faults(calls: int, syncs: int, every: int, first: int) -> Iterator[Fault]:
    for number in (errno.EIO, errno.ENOSPC):
        for times in (1, FEW, 0):
            yield from (Fault(n, number, times) for n in range(first, calls + 1, every))
    for n in range(first, syncs + 1, max(1, every // 5)):
        yield Fault(n, errno.EIO, kinds=("sync",), power=True)


def play(brain: Brain, shim: Path, seed: int, fault: Fault) -> Verdict:
    patient = Patient(brain, shim, "in-process", seed)
    try:
        return patient.suffer(fault)
    finally:
        patient.close()


def count(brain: Brain, shim: Path, seed: int, kinds: tuple[str, ...]) -> int:
    patient = Patient(brain, shim, "in-process", seed)
    try:
        return patient.count(kinds)
    finally:
        patient.close()


def main(every: int, first: int) -> int:
    if compiler() is None:
        print("skipped: there is no C compiler for the shim that lets the disk fail")
        return 0
    brain, began = Brain(), time.monotonic()
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(AT_ONCE) as pool:
        shim = build(Path(directory))
        calls, syncs = count(brain, shim, 1, KINDS), count(brain, shim, 2, ("sync",))
        print(f"{calls} calls in an undisturbed run, {syncs} of them syncs", flush=True)
        plan = enumerate(faults(calls, syncs, every, first), 3)
        todo = [pool.submit(play, brain, shim, seed, fault) for seed, fault in plan]
        verdicts: list[Verdict] = []
        for done in as_completed(todo):
            verdicts.append(done.result())
            if verdicts[-1].bad:
                print(f"{time.monotonic() - began:6.0f} s  {verdicts[-1]}", file=sys.stderr, flush=True)
    brain.close()
    fired = [v for v in verdicts if v.fired]
    hung, bad = [v for v in fired if v.hung], [v for v in verdicts if v.bad]
    ended = sum(v.status == 0 for v in fired)
    slowest = max((v.seconds for v in fired), default=0.0)
    print(
        f"{len(fired)} faults: {ended} made up for, {len(fired) - ended - len(hung)} ended in words, {len(hung)} hung; "
        f"{len(bad)} bad; slowest end {slowest:.1f} s"
    )
    return bool(bad)


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    sys.exit(main(*given, *(EVERY, 1)[len(given) :]))
