"""Locks that the kernel frees when their holder ends, even after kill -9."""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from teamwright.osfiles.private import fault, make_dir, open_file

_PAUSE = 0.005


class Lock(Struct, eq=False):
    """Held until released or until the process ends. The file stays, because unlinking it would let two processes hold
    it."""

    path: Path
    fd: int

    def sign(self) -> None:
        """Writes our process id into the file. A full disk must not stop anybody from working."""
        with suppress(OSError):
            os.ftruncate(self.fd, 0)
            os.pwrite(self.fd, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def holder(path: Path) -> int | None:
    """The process that holds and signed this lock, if it is alive."""
    try:
        with path.open("rb") as file:
            pid = max(1, int(file.read(20)))
        os.kill(pid, 0)  # signal 0 only checks
    except (OSError, ValueError, OverflowError):
        return None
    return pid


def is_held(path: Path) -> bool:
    """Does anybody hold the lock? Checked with a shared lock, so that two checks do not see each other."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def hold(path: Path, wait: float = 0.0, *, shared: bool = False) -> Lock | None:
    """The lock, or None if somebody (another process, or this one) has kept it for `wait` seconds.

    With `wait` it blocks: call it in a thread. Several may hold it `shared`, and nobody can hold it alone meanwhile.
    """
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    make_dir(path.parent)
    fd = open_file(path, os.O_RDWR | os.O_CREAT)
    limit = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
            return Lock(path, fd)
        except BlockingIOError:
            if time.monotonic() >= limit:
                os.close(fd)
                return None
        except OSError as error:
            os.close(fd)
            raise fault("lock", path, error) from error
        time.sleep(_PAUSE)
