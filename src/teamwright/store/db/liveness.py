"""Tells whether a process lives, by its lock in `run/`, which the kernel frees when the process ends."""

import fcntl
import os
import sqlite3
from pathlib import Path

from teamwright.core.data.team import ProcessId
from teamwright.osfiles.private import fault


def lock_path(run: Path, process: ProcessId) -> Path:
    return run / f"process-{process}.lock"


def is_alive(run: Path, process: ProcessId) -> bool:
    """Ask the kernel. A process that is gone stays gone: its id is never given again."""
    path = lock_path(run, process)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise fault("open", path, error) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two that ask do not take each other for the holder
    except BlockingIOError:
        return True
    except OSError as error:
        raise fault("lock", path, error) from error
    finally:
        os.close(fd)
    return False


def is_joined(db: sqlite3.Connection, process: ProcessId) -> bool:
    """In an engine the rows tell: a process lives until it leaves, or is marked as gone."""
    return db.execute("SELECT 1 FROM hosts WHERE process = ? AND gone = 0", (process,)).fetchone() is not None
