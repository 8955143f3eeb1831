"""Resident memory of a session."""

from rows import Row
from session import PAGE, Rig

ROUNDS = 3
TURNS = 50


def measure(rig: Rig) -> list[Row]:
    runs = [rig.run(TURNS, text=PAGE) for _ in range(ROUNDS)]
    after, first, peak = ([run.rss[-1] for run in runs], [run.rss[0] for run in runs], [run.peak[-1] for run in runs])
    return [
        Row("resident after 50 turns : at the first request", _mb(after), _mb(first), unit="MB", most=80),
        Row("  most at any time", _mb(peak), unit="MB"),
    ]


def _mb(values: list[int]) -> list[float]:
    return [value / 1e6 for value in values]
