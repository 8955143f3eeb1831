"""Reads the kernel's process table and signals exactly one process."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

KILL_PATIENCE = 3.0  # seconds for the kernel to remove a killed process
LINUX = sys.platform == "linux"


class ProcessRow(NamedTuple):
    """A process as the kernel reports it; a pid alone may already belong to another process."""

    pid: int
    parent: int
    group: int  # the session; on macOS the process group
    start: str
    dead: bool  # a zombie: ended, not yet collected by its parent


def send(row: ProcessRow, number: int) -> bool:
    """Signals exactly this process, never another that got its pid. Returns False if not permitted."""

    def is_same() -> bool:
        now = read_row(row.pid)
        return now is not None and now.start == row.start

    return send_if(row.pid, number, is_same)


def send_if(pid: int, number: int, is_same: Callable[[], bool]) -> bool:
    """Signals the process if `is_same` confirms it, checked while holding a handle. Returns False if not permitted."""
    try:
        handle = os.pidfd_open(pid) if LINUX else -1
    except ProcessLookupError:
        return True
    except OSError:
        handle = -1  # an old kernel, or a container that forbids it
    try:
        if is_same():
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


def read_proc(pid: int, name: str) -> bytes:
    """A file of /proc; empty if the process is gone or inaccessible."""
    try:
        handle = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        parts: list[bytes] = []
        while part := os.read(handle, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(handle)


def read_row(pid: int) -> ProcessRow | None:
    if not LINUX:
        return process_table(pid).get(pid)
    fields = read_proc(pid, "stat").rpartition(b")")[2].split()  # a process name may contain anything, even brackets
    if len(fields) < 20:
        return None
    return ProcessRow(pid, int(fields[1]), int(fields[3]), fields[19].decode(), fields[0] in (b"Z", b"X"))


def process_table(pid: int | None = None) -> dict[int, ProcessRow]:
    """All processes, or one, as reported by `ps`; for systems without /proc."""
    which = ["-A"] if pid is None else ["-p", str(pid)]
    argv = ["ps", *which, "-o", "pid=,ppid=,pgid=,state=,lstart="]
    told = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=5)
    rows: dict[int, ProcessRow] = {}
    for line in told.stdout.splitlines():
        number, parent, group, state, start = line.split(None, 4)
        rows[int(number)] = ProcessRow(int(number), int(parent), int(group), start, state.startswith("Z"))
    return rows
