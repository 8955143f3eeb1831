"""Finds and ends everything that a command started, wherever it went.

On Linux we are the reaper of our orphans, so whatever a command started is always below us, also after `setsid` or a
double fork. It is told from other people's children by three marks that it inherits: the session of the command, a
number in a resource limit that Linux no longer uses (it outlives `env -i` and can be read of the dead), and a variable
in its environment. On macOS there is the process group and the tree of parents, no more.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from teamwright.host.process.rows import (
    KILL_PATIENCE,
    LINUX,
    ProcessRow,
    process_table,
    read_proc,
    read_row,
    send,
)

_RLIMIT_LOCKS = 10  # unused since Linux 2.4.25, still inherited


class ProcessOrigin(NamedTuple):
    """A command that we started, and the marks by which its descendants are known."""

    leader: int  # its pid: ours to collect, and kept uncollected until all is over, so that nobody else can get it
    number: int
    mark: bytes
    around: bool = False  # it holds the others in a namespace and ends with them: ended first, it would take them along


def become_reaper() -> None:
    """Orphans below us come to us from now on, not to init."""
    if LINUX:
        import ctypes  # noqa: PLC0415  # slow to import, needed once

        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def tag(origin: ProcessOrigin) -> None:
    """Write the number into a command that has just started; what it may have started before does not carry it."""
    if LINUX:
        import resource  # noqa: PLC0415

        with contextlib.suppress(OSError, ValueError):
            _, hard = resource.prlimit(origin.leader, _RLIMIT_LOCKS)
            resource.prlimit(origin.leader, _RLIMIT_LOCKS, (origin.number, hard))


def stop(origins: Sequence[ProcessOrigin], grace: float) -> None:
    """SIGTERM to each process once, time to obey, then SIGKILL until none is left or the kernel does not let go."""
    told: set[tuple[int, str]] = set()
    beyond: set[tuple[int, str]] = set()  # another user's by now, as after `sudo`
    around = {origin.leader for origin in origins if origin.around}
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, KILL_PATIENCE)):
        until, pause = time.monotonic() + patience, 0.002
        while rows := [row for row in alive(origins) if (row.pid, row.start) not in beyond]:
            if number == signal.SIGTERM:
                rows = [row for row in rows if row.pid not in around and (row.pid, row.start) not in told]
            told |= {(row.pid, row.start) for row in rows}
            beyond |= {(row.pid, row.start) for row in rows if not send(row, number)}
            if time.monotonic() >= until:
                break
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
        else:
            return


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
    tops, children = _tree(me, origin.leader, others)
    waiting = [row for row in tops if _belongs(row, origin)]
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
    if not LINUX:
        return False
    if b"%d" % origin.number in read_proc(row.pid, "limits").split():
        return True
    return not row.dead and origin.mark in read_proc(row.pid, "environ")


def _tree(
    me: int, leader: int, others: Container[int]
) -> tuple[Iterable[ProcessRow], Callable[[int], Iterable[ProcessRow]]]:
    """Where to begin, and how to continue: the kernel's lists of children where it keeps them, else the whole table.

    Orphans come to the first of our threads, and children of a thread that ends too; the command itself is a child of
    the thread that started it.
    """
    if LINUX and Path(f"/proc/{me}/task/{me}/children").exists():
        pids = [leader, *(pid for pid in _children_of_thread(me, me) if pid != leader and pid not in others)]
        return _rows(pids), _children
    rows = _everyone() if LINUX else list(process_table().values())

    def children(pid: int) -> list[ProcessRow]:
        return [row for row in rows if row.parent == pid]

    return [row for row in rows if row.pid not in others], children


def _everyone() -> list[ProcessRow]:
    return _rows(_listed("/proc"))


def _children(pid: int) -> list[ProcessRow]:
    return _rows([child for thread in _listed(f"/proc/{pid}/task") for child in _children_of_thread(pid, thread)])


def _children_of_thread(pid: int, thread: int) -> list[int]:
    return [int(child) for child in read_proc(pid, f"task/{thread}/children").split()]


def _rows(pids: Iterable[int]) -> list[ProcessRow]:
    return [row for pid in pids if (row := read_row(pid))]


def _listed(directory: str) -> list[int]:
    try:
        with os.scandir(directory) as entries:
            return [int(entry.name) for entry in entries if entry.name.isdigit()]
    except OSError:
        return []
