"""Shifts this process's wall clock by some seconds, for tests that put this directory first in PYTHONPATH."""

import os
import time

_OFF = int(os.environ.get("TEST_CLOCK_OFF", "0"))
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + _OFF
time.time_ns = lambda: _time_ns() + _OFF * 10**9
