"""Tells whether the process at the other end of a Unix socket is held by more than we are: a program in a sandbox.

Landlock lets programs connect to every socket that has a path, also to ours. What the kernel says of a process cannot
be taken off by it, nor by what it starts.
"""

import contextlib
import os
import select
import socket
import struct
import sys
from pathlib import Path

_PEER_HANDLE = 77  # SO_PEERPIDFD: it stays the same process, whatever its number is given to
_NO_NEW_PRIVILEGES, _FILTERS = "NoNewPrivs:", "Seccomp_filters:"


def is_confined(connected: socket.socket) -> bool:
    """Does it carry more filters of system calls than we do, without a way to gain privileges? Also of one that has
    gone and can no longer be looked at."""
    if sys.platform != "linux":
        return False
    pid, _, _ = struct.unpack("=iII", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    handle = -1
    with contextlib.suppress(OSError):  # before Linux 6.5; there no program in a sandbox has such a socket
        handle = connected.getsockopt(socket.SOL_SOCKET, _PEER_HANDLE)
    try:
        theirs, ours = _held(pid), _held(os.getpid())
        return theirs is None or _has_ended(handle) or (ours is not None and theirs[0] > 0 and theirs[1] > ours[1])
    finally:
        if handle >= 0:
            os.close(handle)


def _held(pid: int) -> tuple[int, int] | None:
    """Whether it can gain privileges, and its filters; None: there is no such process."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return None
    fields = dict(line.split(None, 1) for line in lines if line.startswith((_NO_NEW_PRIVILEGES, _FILTERS)))
    return int(fields.get(_NO_NEW_PRIVILEGES, "0")), int(fields.get(_FILTERS, "0"))


def _has_ended(handle: int) -> bool:
    return handle >= 0 and bool(select.select([handle], [], [], 0)[0])
