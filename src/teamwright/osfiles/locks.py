"""Locks that the kernel frees when their holder ends, even after kill -9."""

import fcntl
import os
import time
from pathlib import Path

from teamwright.osfiles.private import fault, make_dir, open_file

_PAUSE = 0.005


class Lock:
    """Held until it is released or the process ends. The file stays: unlinking it would let two hold "it" at once."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def hold(path: Path, wait: float = 0.0) -> Lock | None:
    """The lock, or None if somebody else has it (another process, or this one) and kept it for `wait` seconds.

    With `wait` it blocks: call it in a thread.
    """
    make_dir(path.parent)
    fd = open_file(path, os.O_RDWR | os.O_CREAT)
    limit = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return Lock(path, fd)
        except BlockingIOError:
            if time.monotonic() >= limit:
                os.close(fd)
                return None
        except OSError as error:
            os.close(fd)
            raise fault("lock", path, error) from error
        time.sleep(_PAUSE)
