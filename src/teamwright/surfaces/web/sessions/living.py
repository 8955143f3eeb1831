"""Finds the living sessions by asking the kernel who holds which session's lock, without locking anything."""

import os
from pathlib import Path

from teamwright.core.ids import SessionId
from teamwright.osfiles.locks import is_held
from teamwright.store.files.paths import Home

_LOCKS = Path("/proc/locks")
_BEFORE, _AFTER = "session-", ".lock"


def living(home: Home) -> set[SessionId]:
    """The sessions that a process runs now. Blocks."""
    try:
        with os.scandir(home.run) as entries:
            locks = {entry.inode(): entry.name for entry in entries if _is_lock(entry.name)}
    except OSError:
        return set()
    try:
        held = {int(line.split()[-3].rpartition(":")[2]) for line in _LOCKS.read_text().splitlines() if "FLOCK" in line}
    except (OSError, ValueError, IndexError):
        return {_session(name) for name in locks.values() if is_held(home.run / name)}
    return {_session(name) for inode, name in locks.items() if inode in held}


def _is_lock(name: str) -> bool:
    return name.startswith(_BEFORE) and name.endswith(_AFTER)


def _session(name: str) -> SessionId:
    return SessionId(name.removeprefix(_BEFORE).removesuffix(_AFTER))
