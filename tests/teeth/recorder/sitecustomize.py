"""Records what each file sync has made durable, so that the harness can simulate a power cut: the rest is gone.

Python imports it automatically if this directory is on its path. The syncs still happen.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

LOG = os.environ.get("TEAMWRIGHT_SYNC_LOG", "")


def _noting(sync: Callable[[int], None]) -> Callable[[int], None]:
    def synced(fd: int) -> None:
        found = os.fstat(fd)  # before the sync: what is written during it may not be covered
        sync(fd)
        if stat.S_ISREG(found.st_mode):
            log = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(log, f"{found.st_size} {Path(f'/proc/self/fd/{fd}').readlink()}\n".encode())
            os.close(log)

    return synced


if LOG:
    os.fsync, os.fdatasync = _noting(os.fsync), _noting(os.fdatasync)
