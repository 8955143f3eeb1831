"""Measures the program against its targets and prints one table: `make bench`, or `python bench/run.py [PART ...]`.

CPU is the user and system time of the client's process, read by the server when a request arrives. Compared rounds
alternate, so that other load on the machine hits both. Linux only.
"""

import os
import platform
import sys
import time

import bring
import disk
import editor
import forks
import hooks
import land
import memory
import remote
import remote_many
import rewind
import sandbox
import sandbox_net
import start
import teams
import terminal
import turns
import worktree
from rows import table
from session import rig

import telemetry

PARTS = {
    "start": start.measure,
    "turns": turns.measure,
    "memory": memory.measure,
    "disk": disk.measure,
    "forks": forks.measure,
    "hooks": hooks.measure,
    "bring": bring.measure,
    "worktree": worktree.measure,
    "land": land.measure,
    "sandbox-net": sandbox_net.measure,
    "rewind": rewind.measure,
    "sandbox": sandbox.measure,
    "teams": teams.measure,
    "telemetry": telemetry.measure,
    "terminal": terminal.measure,
    "editor": editor.measure,
    "remote": remote.measure,
    "remote-many": remote_many.measure,
}


def main(chosen: list[str]) -> int:
    if sys.platform != "linux":
        sys.exit("the bench reads CPU clocks of other processes, which only Linux has")
    if unknown := set(chosen) - PARTS.keys():
        sys.exit(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    began, rows = time.monotonic(), []
    with rig() as made:
        for name in chosen or PARTS:
            rows += PARTS[name](made)
    print(table(rows))
    load = os.getloadavg()[0]
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}, {time.monotonic() - began:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
