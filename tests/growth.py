"""Tells whether work grows linearly with its input or with its square, measured in processor time."""

import time
from collections.abc import Callable

SMALL, TIMES, MOST = 6_000, 8, 24.0  # linear work takes TIMES as long, quadratic work TIMES squared


def _seconds(work: Callable[[str], object], text: str) -> float:
    took: list[float] = []
    for _ in range(3):
        began = time.process_time()
        work(text)
        took.append(time.process_time() - began)
    return min(took)


def is_linear(work: Callable[[str], object], piece: str) -> bool:
    """Eight times the text takes less than 24 times as long. Below 50 ms nothing can be told, and nothing is slow."""
    large = _seconds(work, piece * SMALL * TIMES)
    return large < 0.05 or large < MOST * _seconds(work, piece * SMALL)
