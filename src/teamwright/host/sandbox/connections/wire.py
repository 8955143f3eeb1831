"""TCP connections of the proxy: reading, writing, half-close, and two of them joined into a tunnel."""

import contextlib
import errno
import os
import socket
import sys

import anyio
import anyio.lowlevel
from msgspec import Struct

from teamwright.host.ipc.stream import SocketStream, gone

_LONG = 1 << 16  # past so many bytes a transfer goes through a pipe in the kernel …
_WIDE = 1 << 19  # … at most so many at a time
_TURNS = 8  # pieces that never had to wait, before others on the loop get their turn


class Stream(SocketStream):
    """One connection over TCP, of which one side may have said all while it still listens."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__(connected)
        with contextlib.suppress(OSError):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def fileno(self) -> int:
        return self._socket.fileno()

    def finish(self) -> None:
        """Nothing more will be sent."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)


class Silence(Struct, frozen=True):
    """How long two sides may say nothing: `limit` moves with what they say, not with every piece, which costs."""

    limit: anyio.CancelScope
    most: float

    def broken(self) -> None:
        now = anyio.current_time()
        if self.limit.deadline - now < 0.9 * self.most:
            self.limit.deadline = now + self.most


async def dial(address: str, port: int, seconds: float) -> Stream:
    """A connection to this very address; no name is looked up. Raises OSError, TimeoutError among them."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.settimeout(0)
        code = made.connect_ex((address, port))
        if code == errno.EINPROGRESS:
            with anyio.fail_after(seconds):
                await anyio.wait_writable(made)
            code = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
    except BaseException:
        made.close()
        raise
    return Stream(made)


async def join(one: Stream, other: Stream, most_silence: float) -> None:
    """Copy both ways until both have said all, one has gone, or nothing was said for so many seconds."""
    with anyio.move_on_after(most_silence) as limit:
        silence = Silence(limit, most_silence)
        try:
            async with anyio.create_task_group() as both:
                both.start_soon(pass_on, one, other, silence)
                await pass_on(other, one, silence)
        except* BrokenPipeError:
            pass  # there is nobody left to say it to


async def pass_on(source: Stream, sink: Stream, silence: Silence) -> None:
    """Until the source has said all. Raises BrokenPipeError where the sink has gone."""
    passed, turns = 0, 0
    while piece := await source.receive():
        await sink.send(piece)
        silence.broken()
        passed, turns = passed + len(piece), turns + 1
        if passed > _LONG and (pipe := _open_pipe()):
            await _splice(source, sink, pipe, silence)
            break
        if turns % _TURNS == 0:
            await anyio.lowlevel.checkpoint()
    sink.finish()


def _open_pipe() -> tuple[int, int] | None:
    if sys.platform != "linux":
        return None
    import fcntl  # noqa: PLC0415

    try:
        out, into = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None  # too many open files: it goes on without
    with contextlib.suppress(OSError):  # a person who has many pipes gets narrow ones
        fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, _WIDE)
    return out, into


async def _splice(source: Stream, sink: Stream, pipe: tuple[int, int], silence: Silence) -> None:
    """The same without a copy through our memory, which takes half the time. Only what is long pays for a pipe."""
    out, into = pipe
    try:
        turns = 0
        while size := await _fill(source, into):
            await _empty(out, sink, size)
            silence.broken()
            turns += 1
            if turns % _TURNS == 0:
                await anyio.lowlevel.checkpoint()
    finally:
        os.close(out)
        os.close(into)


async def _fill(source: Stream, into: int) -> int:
    while True:
        try:
            return os.splice(source.fileno(), into, _WIDE, flags=os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE)
        except BlockingIOError:
            await source.readable()
        except OSError:
            return 0


async def _empty(out: int, sink: Stream, size: int) -> None:
    while size:
        try:
            size -= os.splice(out, sink.fileno(), size, flags=os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE)
        except BlockingIOError:
            await sink.writable()
        except OSError:
            raise gone() from None
