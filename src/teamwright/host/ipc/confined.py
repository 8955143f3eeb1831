"""Tells whether the process at the other end of a Unix socket is more restricted than we are, i.e. a sandboxed program.

Landlock lets programs connect to every socket with a path, including ours. A process can neither remove these
kernel-reported restrictions nor spare its children from them.
"""

import contextlib
import os
import select
import socket
import struct
import sys
from pathlib import Path

_PEER_HANDLE = 77  # SO_PEERPIDFD: stays bound to that process even if its pid is reused
_NO_NEW_PRIVILEGES, _FILTERS = "NoNewPrivs:", "Seccomp_filters:"


def is_confined(connected: socket.socket) -> bool:
    """Does it have more system call filters than we do, and no way to gain privileges? Also True for a process that is
    gone and can no longer be checked."""
    if sys.platform != "linux":
        return False
    pid, _, _ = struct.unpack("=iII", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    handle = -1
    with contextlib.suppress(OSError):  # unavailable before Linux 6.5, where no sandboxed program has such a socket
        handle = connected.getsockopt(socket.SOL_SOCKET, _PEER_HANDLE)
    try:
        theirs, ours = _held(pid), _held(os.getpid())
        return theirs is None or _has_ended(handle) or (ours is not None and theirs[0] > 0 and theirs[1] > ours[1])
    finally:
        if handle >= 0:
            os.close(handle)


def _held(pid: int) -> tuple[int, int] | None:
    """Its no-new-privileges flag and its number of filters; None if the process does not exist."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return None
    fields = dict(line.split(None, 1) for line in lines if line.startswith((_NO_NEW_PRIVILEGES, _FILTERS)))
    return int(fields.get(_NO_NEW_PRIVILEGES, "0")), int(fields.get(_FILTERS, "0"))


def _has_ended(handle: int) -> bool:
    return handle >= 0 and bool(select.select([handle], [], [], 0)[0])
