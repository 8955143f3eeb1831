"""Bytes from one connection to another within the kernel, by a thread: for transfers that are long."""

import contextlib
import os
import select
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

from msgspec import Struct

from teamwright.host.ipc.stream import gone

_WIDE = 1 << 19  # so many bytes at a time, at most
_PAUSE = 0.05  # of one of the two sides, after which the thread is free for others

Pipe = tuple[int, int]  # the handle to read from, the one to write to


class Load(Struct, frozen=True):
    """What one haul did. `rest` was taken from the source, and the sink did not take it yet."""

    moved: int
    rest: bytes
    ended: bool  # the source has said all
    paused: bool  # one of the two had to be waited for


@contextmanager
def open_pipe() -> Generator[Pipe | None]:
    """None where there is none to be had: on other systems, or with too many open files."""
    try:
        pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if sys.platform == "linux" else None
    except OSError:
        pipe = None
    if pipe is None:
        yield None
        return
    try:
        _widen(pipe[1])
        yield pipe
    finally:
        os.close(pipe[0])
        os.close(pipe[1])


def haul(source: int, sink: int, pipe: Pipe, seconds: float) -> Load:
    """Until one side pauses, the source has said all, or so many seconds have passed. Both must not block.

    Raises BrokenPipeError where the sink has gone.
    """
    out, into = pipe
    until, moved = time.monotonic() + seconds, 0
    can_read, can_write = _poll(source, select.POLLIN), _poll(sink, select.POLLOUT)
    while time.monotonic() < until:
        try:
            size = os.splice(source, into, _WIDE, flags=os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE)
        except BlockingIOError:
            if not can_read.poll(_PAUSE * 1000):
                return Load(moved, b"", ended=False, paused=True)
            continue
        except OSError:
            size = 0  # it has gone
        if not size:
            return Load(moved, b"", ended=True, paused=False)
        moved += size
        while size:
            try:
                size -= os.splice(out, sink, size, flags=os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE)
            except BlockingIOError:
                if not can_write.poll(_PAUSE * 1000):
                    return Load(moved, os.read(out, size), ended=False, paused=True)
            except OSError:
                raise gone() from None
    return Load(moved, b"", ended=False, paused=False)


def _poll(fd: int, event: int) -> "select.poll":
    made = select.poll()
    made.register(fd, event)
    return made


def _widen(into: int) -> None:
    import fcntl  # noqa: PLC0415

    with contextlib.suppress(OSError):  # a person who has many pipes gets narrow ones
        fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, _WIDE)
