"""TCP connections of the proxy: reading, writing, half-close, and two of them joined into a tunnel."""

import contextlib
import errno
import os
import socket
from functools import partial

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.lowlevel import RunVar
from msgspec import Struct

from teamwright.host.ipc.stream import SocketStream
from teamwright.host.sandbox.connections.haul import haul, open_pipe

_LONG = 1 << 16  # past so many bytes a transfer is a thread's …
_HAUL_SECONDS = 0.25  # … for so long at once: whoever cancels it waits for that
_MOST_THREADS = 8  # others go on without
_seats = RunVar[anyio.CapacityLimiter]("threads of the sandbox's connections")
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
        if passed > _LONG:
            if await _carry(source, sink, silence):
                break
            passed = 0
        if turns % _TURNS == 0:
            await anyio.lowlevel.checkpoint()
    sink.finish()


async def _carry(source: Stream, sink: Stream, silence: Silence) -> bool:
    """In a thread, while there is one to be had and the bytes keep coming. True when the source has said all.

    On the loop every piece would cost its bookkeeping, and a copy through our memory.
    """
    seats = _seats.get(None)
    if seats is None:
        _seats.set(seats := anyio.CapacityLimiter(_MOST_THREADS))
    if not seats.available_tokens:
        return False
    with open_pipe() as pipe:
        while pipe is not None and seats.available_tokens:
            work = partial(haul, source.fileno(), sink.fileno(), pipe, min(_HAUL_SECONDS, silence.most / 4))
            try:
                load = await anyio.to_thread.run_sync(work, limiter=seats)
            except RuntimeError:  # the machine has no thread for us: a program in a box may have taken them all
                return False
            if load.moved:
                silence.broken()
            await sink.send(load.rest)
            if load.ended or load.paused:
                return load.ended
    return False
