"""Identifies a process by its pid and its start time, because pids are reused."""

import os
import signal
import subprocess
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import anyio
import anyio.to_thread

from teamwright.host.process.rows import KILL_PATIENCE, LINUX, ProcessRow, read_row, send_if

_LOOK_EVERY = 1.0  # where the kernel cannot tell us of the end of a process


async def start_of(pid: int) -> str:
    """When the living process with this pid began; empty if there is none, or only its remains."""
    return _start(pid) if LINUX else await anyio.to_thread.run_sync(_start, pid)


async def is_same(pid: int, started: str) -> bool:
    """Does this very process live?"""
    return started != "" and await start_of(pid) == started


async def gone(pid: int, started: str) -> None:
    """Returns when this process lives no more. Costs nothing meanwhile where there are process handles."""
    try:
        handle = os.pidfd_open(pid) if LINUX else -1
    except ProcessLookupError:
        return
    except OSError:
        handle = -1  # an old kernel, or a container that forbids it
    if handle < 0:
        while await is_same(pid, started):  # noqa: ASYNC110  # the kernel's news, and it tells none here
            await anyio.sleep(_LOOK_EVERY)
        return
    try:
        if await is_same(pid, started):  # looked at after it was opened: from here on it is the one we hold
            await anyio.wait_readable(handle)
    finally:
        os.close(handle)


async def end(pid: int, started: str, grace: float) -> bool:
    """SIGTERM, time to obey, SIGKILL. True: this process lived, and does not any more."""
    if not await is_same(pid, started):
        return False
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, KILL_PATIENCE)):
        if not await send(pid, started, number):
            return False
        with anyio.move_on_after(patience):
            await gone(pid, started)
            return True
    return not await is_same(pid, started)


async def send(pid: int, started: str, number: signal.Signals) -> bool:
    """Signal exactly this process, never another that has its pid now. False: we may not."""

    def is_this() -> bool:
        return started != "" and _start(pid) == started

    act = partial(send_if, pid, number, is_this)
    return act() if LINUX else await anyio.to_thread.run_sync(act)


def collect(pid: int, started: str) -> None:
    """Take the remains of this process away if they have come to us, the reaper of our orphans."""
    row = read_row(pid) if LINUX else None
    if row is not None and row.dead and row.parent == os.getpid() and _stamp(row) == started:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _start(pid: int) -> str:
    if pid <= 0:
        return ""
    if not LINUX:
        return _from_ps(pid)
    row = read_row(pid)
    return "" if row is None or row.dead else _stamp(row)


def _stamp(row: ProcessRow) -> str:
    return f"{row.start}@{_boot()}"  # ticks since this boot


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    except OSError:
        return ""


def _from_ps(pid: int) -> str:
    argv = ["ps", "-p", str(pid), "-o", "state=,lstart="]
    try:
        told = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    state, _, start = told.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else start.strip()
