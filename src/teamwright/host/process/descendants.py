"""Finds and ends everything that a command started, wherever it went.

On Linux we are the reaper of our orphans, so whatever a command started is always below us, also after `setsid` or a
double fork. It is told from other people's children by three marks that it inherits: the session of the command, a
number in a resource limit that Linux no longer uses (it outlives `env -i` and can be read of the dead), and a variable
in its environment. On macOS there is the process group and the tree of parents, no more.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

KILL_PATIENCE = 3.0  # for the kernel to take a killed process away
_RLIMIT_LOCKS = 10  # unused since Linux 2.4.25, still inherited
_LINUX = sys.platform == "linux"


class ProcessOrigin(NamedTuple):
    """A command that we started, and the marks by which its descendants are known."""

    leader: int  # its pid: ours to collect, and kept uncollected until all is over, so that nobody else can get it
    number: int
    mark: bytes


class ProcessRow(NamedTuple):
    """A process as the kernel tells of it: the pid alone may belong to another one by now."""

    pid: int
    parent: int
    group: int  # the session; on macOS the process group
    start: str
    dead: bool  # a zombie: ended, not yet collected by its parent


def become_reaper() -> None:
    """Orphans below us come to us from now on, not to init."""
    if _LINUX:
        import ctypes  # noqa: PLC0415  # slow to import, needed once

        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def tag(origin: ProcessOrigin) -> None:
    """Write the number into a command that has just started; what it may have started before does not carry it."""
    if _LINUX:
        import resource  # noqa: PLC0415

        with contextlib.suppress(OSError, ValueError):
            _, hard = resource.prlimit(origin.leader, _RLIMIT_LOCKS)
            resource.prlimit(origin.leader, _RLIMIT_LOCKS, (origin.number, hard))


def stop(origins: Sequence[ProcessOrigin], grace: float) -> None:
    """SIGTERM to each process once, time to obey, then SIGKILL until none is left or the kernel does not let go."""
    told: set[tuple[int, str]] = set()
    beyond: set[tuple[int, str]] = set()  # another user's by now, as after `sudo`
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, KILL_PATIENCE)):
        until, pause = time.monotonic() + patience, 0.002
        while rows := [row for row in alive(origins) if (row.pid, row.start) not in beyond]:
            for row in rows:
                key = (row.pid, row.start)
                if (number == signal.SIGKILL or key not in told) and not _send(row, number):
                    beyond.add(key)
                told.add(key)
            if time.monotonic() >= until:
                break
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
        else:
            return


def _send(row: ProcessRow, number: int) -> bool:
    """Signal exactly this process, never another that has its pid now. False: we may not."""
    try:
        handle = os.pidfd_open(row.pid) if _LINUX else -1
    except ProcessLookupError:
        return True
    except OSError:
        handle = -1
    try:
        now = _row(row.pid)
        if now is None or now.start != row.start:
            return True
        if handle < 0:
            os.kill(row.pid, number)
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


def alive(origins: Iterable[ProcessOrigin], others: Container[int] = ()) -> list[ProcessRow]:
    """Every living process of these commands; our own dead orphans are collected on the way.

    `others` are children of ours that are known to be something else; it only saves a look at each.
    """
    found = [row for origin in origins for row in _living(origin, others)]
    return list({row.pid: row for row in found}.values())


def _living(origin: ProcessOrigin, others: Container[int]) -> list[ProcessRow]:
    """A process may pass from its dying parent to us just while we look: only nothing twice is nothing."""
    for look in range(20):
        rows = _look(origin, others)
        if living := [row for row in rows if not row.dead]:
            return living
        if look and not rows:
            break
    return []


def _look(origin: ProcessOrigin, others: Container[int]) -> list[ProcessRow]:
    """One look at everything below us, or at all processes where that is the only way."""
    me = os.getpid()
    tops, children = _tree(me)
    waiting = [row for row in tops if row.pid not in others and _belongs(row, origin)]
    found: dict[int, ProcessRow] = {}
    while waiting:
        row = waiting.pop()
        if row.pid in found:
            continue
        if row.dead and row.parent == me and row.pid != origin.leader:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(row.pid, os.WNOHANG)  # this one pid: other children are other people's to collect
        found[row.pid] = row
        waiting.extend(children(row.pid))
    return [row for row in found.values() if row.pid != origin.leader or not row.dead]


def _belongs(row: ProcessRow, origin: ProcessOrigin) -> bool:
    if origin.leader in (row.group, row.pid):
        return True
    if not _LINUX:
        return False
    if b"%d" % origin.number in _proc(row.pid, "limits").split():
        return True
    return not row.dead and origin.mark in _proc(row.pid, "environ")


def _proc(pid: int, name: str) -> bytes:
    """A file of /proc; empty if the process is gone or not ours to look into."""
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


def _row(pid: int) -> ProcessRow | None:
    if not _LINUX:
        return _table(pid).get(pid)
    fields = _proc(pid, "stat").rpartition(b")")[2].split()  # a name may hold anything, brackets too
    if len(fields) < 20:
        return None
    return ProcessRow(pid, int(fields[1]), int(fields[3]), fields[19].decode(), fields[0] in (b"Z", b"X"))


def _tree(me: int) -> tuple[Iterable[ProcessRow], Callable[[int], Iterable[ProcessRow]]]:
    """Where to begin, and how to go on: the kernel's lists of children where it keeps them, else the whole table."""
    if _LINUX and Path(f"/proc/{me}/task/{me}/children").exists():
        return _children(me), _children
    rows = _everyone() if _LINUX else list(_table().values())
    return rows, lambda pid: [row for row in rows if row.parent == pid]


def _everyone() -> list[ProcessRow]:
    return [row for pid in _listed("/proc") if (row := _row(pid))]


def _children(pid: int) -> list[ProcessRow]:
    threads = _listed(f"/proc/{pid}/task")
    pids = [int(child) for thread in threads for child in _proc(pid, f"task/{thread}/children").split()]
    return [row for child in pids if (row := _row(child))]


def _listed(directory: str) -> list[int]:
    try:
        with os.scandir(directory) as entries:
            return [int(entry.name) for entry in entries if entry.name.isdigit()]
    except OSError:
        return []


def _table(pid: int | None = None) -> dict[int, ProcessRow]:
    """All processes, or one, as `ps` tells of them; where there is no /proc."""
    which = ["-A"] if pid is None else ["-p", str(pid)]
    argv = ["ps", *which, "-o", "pid=,ppid=,pgid=,state=,lstart="]
    told = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=5)
    rows: dict[int, ProcessRow] = {}
    for line in told.stdout.splitlines():
        number, parent, group, state, start = line.split(None, 4)
        rows[int(number)] = ProcessRow(int(number), int(parent), int(group), start, state.startswith("Z"))
    return rows
