"""Since when the machine has been running."""

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # on macOS the other one also runs while it sleeps


def started_at() -> float:
    """In seconds since 1970, by the clock that stamps files."""
    return time.time() - time.clock_gettime(_CLOCK)
