"""Finds and ends everything that a command started, wherever it went.

On Linux we are the reaper of our orphans, so everything that a command started stays below us, even after `setsid` or a
double fork. Three inherited marks separate it from other children: the command's session, a number in a resource limit
that Linux no longer uses (it survives `env -i` and is readable in dead processes), and an environment variable. On
macOS there is only the process group and the tree of parents.
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
    """A command that we started, and the marks that identify its descendants."""

    leader: int  # its pid: our child, reaped only when all is over, so that the pid cannot be reused
    number: int
    mark: bytes
    around: bool = False  # it holds the others in a namespace that ends with it, so it must not be ended first


def become_reaper() -> None:
    """Makes orphans below us our children instead of init's."""
    if LINUX:
        import ctypes  # noqa: PLC0415  # slow to import, needed once

        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def tag(origin: ProcessOrigin) -> None:
    """Writes the number into a command that just started; anything it already started lacks it."""
    if LINUX:
        import resource  # noqa: PLC0415

        with contextlib.suppress(OSError, ValueError):
            _, hard = resource.prlimit(origin.leader, _RLIMIT_LOCKS)
            resource.prlimit(origin.leader, _RLIMIT_LOCKS, (origin.number, hard))


def stop(origins: Sequence[ProcessOrigin], grace: float) -> None:
    """Sends SIGTERM once to each process, waits, then sends SIGKILL until none is left or the kernel does not release
    it."""
    told: set[tuple[int, str]] = set()
    beyond: set[tuple[int, str]] = set()  # now another user's, as after `sudo`
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
    """All living processes of these commands. Also reaps our dead orphans.

    `others` are known other children of ours; passing them only saves looking at each.
    """
    found = [row for origin in origins for row in _living(origin, others)]
    return list({row.pid: row for row in found}.values())


def _living(origin: ProcessOrigin, others: Container[int]) -> list[ProcessRow]:
    """Looks twice before concluding that nothing lives: a process may just be passing from its dying parent to us."""
    for look in range(20):
        rows = _look(origin, others)
        if living := [row for row in rows if not row.dead]:
            return living
        if look and not rows:
            break
    return []


def _look(origin: ProcessOrigin, others: Container[int]) -> list[ProcessRow]:
    """One look at everything below us, or at all processes if there is no other way."""
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
                os.waitpid(row.pid, os.WNOHANG)  # this pid only: other children are for others to reap
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
    """The starting points, and a function for children: the kernel's lists of children if available, else the whole
    table.

    Orphans and children of an ended thread become children of our first thread; the command itself is a child of the
    thread that started it.
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
