"""Identifies a process by its pid and its start time, because pids are reused."""

import os
import signal
import subprocess
from contextlib import suppress
from functools import partial

import anyio
import anyio.to_thread

from teamwright.host.process.boot import boot_id
from teamwright.host.process.rows import KILL_PATIENCE, LINUX, ProcessRow, read_row, send_if

_LOOK_EVERY = 1.0  # if the kernel cannot report a process's end


async def start_of(pid: int) -> str:
    """When the living process with this pid started; empty if there is none, or only a zombie."""
    return _start(pid) if LINUX else await anyio.to_thread.run_sync(_start, pid)


async def is_same(pid: int, started: str) -> bool:
    """Is this very process alive?"""
    return started != "" and await start_of(pid) == started


async def gone(pid: int, started: str) -> None:
    """Returns when this process is gone. Waiting costs nothing where there are process handles."""
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
        if await is_same(pid, started):  # checked after opening: from here on the handle is this process
            await anyio.wait_readable(handle)
    finally:
        os.close(handle)


async def end(pid: int, started: str, grace: float) -> bool:
    """Sends SIGTERM, waits, then SIGKILL. Returns True if the process was alive and is now gone."""
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
    """Signals exactly this process, never another that got its pid. Returns False if not permitted."""

    def is_this() -> bool:
        return started != "" and _start(pid) == started

    act = partial(send_if, pid, number, is_this)
    return act() if LINUX else await anyio.to_thread.run_sync(act)


def collect(pid: int, started: str) -> None:
    """Reaps this process if it became our child as an orphan."""
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
    return f"{row.start}@{boot_id()[:8]}"  # ticks since this boot


def _from_ps(pid: int) -> str:
    argv = ["ps", "-p", str(pid), "-o", "state=,lstart="]
    try:
        told = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    state, _, start = told.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else start.strip()
