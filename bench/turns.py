"""What the program adds to a turn with one tool call, early and late in a session."""

from itertools import pairwise

from rows import Row, ms
from server import Seen
from session import Rig

ROUNDS = 6
TURNS = 410
EARLY, LATE = range(5, 35), range(375, 405)  # around turn 10, once everything is imported, and turn 400
FIRST = range(5, 105)
STRETCH = 10  # turns that make one sample; short ones often fall into a quiet moment


def costs(seen: Seen) -> list[float]:
    """CPU from each request to the next."""
    return [after - before for before, after in pairwise(seen.cpu)]


def samples(runs: list[list[float]], turns: range) -> list[float]:
    """Milliseconds per turn, for each stretch of each run."""
    starts = range(turns.start, turns.stop, STRETCH)
    return ms([sum(run[start : start + STRETCH]) / STRETCH for run in runs for start in starts])


def measure(rig: Rig) -> list[Row]:
    ours, bare = [], []
    file = rig.root / "bodies"
    for _ in range(ROUNDS):
        seen = rig.run(TURNS)
        file.write_bytes(rig.last_bodies)
        ours.append(costs(seen))
        bare.append(costs(rig.run_bare(file, seen.sizes)))
    turn, early, late = (samples(ours, turns) for turns in (FIRST, EARLY, LATE))
    least, least_early, least_late = (samples(bare, turns) for turns in (FIRST, EARLY, LATE))
    return [
        Row("a turn with Read : bare loop, same bytes", turn, least),
        Row("  above the bare loop", above(turn, least), most=1.5),
        Row("turn 400 : turn 10", late, early, most_ratio=1.5),
        Row("  above the bare loop", above(late, least_late), above(early, least_early)),
    ]


def above(ours: list[float], bare: list[float]) -> list[float]:
    """Differences by rank, so that the minimum is compared with the minimum."""
    return [a - b for a, b in zip(sorted(ours), sorted(bare), strict=True)]
