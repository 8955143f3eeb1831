"""Which process is meant: its pid together with the moment it began, because pids are used again."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

import anyio
import anyio.to_thread

KILL_PATIENCE = 3.0  # for the kernel to take a killed process away
_LOOK_EVERY = 1.0  # where the kernel cannot tell us of the end of a process
_LINUX = sys.platform == "linux"


async def start_of(pid: int) -> str:
    """When the living process with this pid began; empty if there is none, or only its remains."""
    if pid <= 0:
        return ""
    return _from_proc(pid) if _LINUX else await anyio.to_thread.run_sync(_from_ps, pid)


async def is_same(pid: int, started: str) -> bool:
    """Does this very process live?"""
    return started != "" and await start_of(pid) == started


async def gone(pid: int, started: str) -> None:
    """Returns when this process lives no more. Costs nothing meanwhile where there are process handles."""
    try:
        handle = os.pidfd_open(pid) if _LINUX else -1
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
    try:
        handle = os.pidfd_open(pid) if _LINUX else -1
    except ProcessLookupError:
        return True
    except OSError:
        handle = -1
    try:
        if await is_same(pid, started):
            if handle < 0:
                os.kill(pid, number)
            else:
                signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    finally:
        if handle >= 0:
            os.close(handle)
    return True


def collect(pid: int, started: str) -> None:
    """Take the remains of this process away if they have come to us, the reaper of our orphans."""
    start, parent, dead = _stat(pid) if _LINUX else ("", 0, False)
    if dead and parent == os.getpid() and start == started:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _from_proc(pid: int) -> str:
    start, _, dead = _stat(pid)
    return "" if dead else start


def _stat(pid: int) -> tuple[str, int, bool]:
    """Its start, its parent, and whether it has ended and only waits to be collected."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return "", 0, False
    fields = text.rpartition(b")")[2].split()  # a name may hold anything, brackets too
    start = f"{fields[19].decode()}@{_boot()}"  # ticks since this boot
    return start, int(fields[1]), fields[0] in (b"Z", b"X")


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
