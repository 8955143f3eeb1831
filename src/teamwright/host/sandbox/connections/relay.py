"""Moves bytes between connections inside the kernel, with one thread for all: each piece would cost more on the
loop."""

import asyncio
import contextlib
import os
import select
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Self

import anyio
from msgspec import Struct, field

from teamwright.host.sandbox.connections.wire import Silence, Stream

_NARROW, _WIDE = 1 << 16, 1 << 19  # bytes per step: of a slow flow, and of the fastest
_SHARED = 1 << 23  # bytes for all flows together, since data that a sink does not accept must be held
_TURNS = 4  # pieces of one flow before others get a turn
_YIELDS = 2  # times we yield to a fast source before sleeping: waking up takes longer than it needs to send more
_END_SECONDS = 5.0
_SPLICE = os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE if sys.platform == "linux" else 0


class Flow(Struct):
    """One direction. `rest` was read from the source but not yet accepted by the sink."""

    source: Stream
    sink: Stream
    rest: bytes = b""
    width: int = _NARROW
    stalled: bool = False  # has stalled at least once; since then we are notified when the sink is writable
    ended: bool = False  # the source has finished


class _Load(Struct, eq=False):
    """Flows that end together. The thread works on them while holding the lock, and never after `done`."""

    flows: Sequence[Flow]
    silence: Silence
    over: Callable[[], object]  # called in the thread
    lock: threading.Lock = field(default_factory=threading.Lock)
    done: bool = False

    @property
    def handles(self) -> set[int]:
        return {side.fileno() for flow in self.flows for side in (flow.source, flow.sink)}


class Relay:
    """Its thread starts with the first load, and ends with the relay."""

    def __init__(self) -> None:
        self._opened = contextlib.ExitStack()
        self._thread: threading.Thread | None = None
        self._ending = False
        self._loads: dict[int, _Load] = {}  # by handle

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is None:
            return
        self._ending = True
        os.eventfd_write(self._bell, 1)
        self._thread.join(_END_SECONDS)
        if not self._thread.is_alive():
            self._opened.close()

    async def carry(self, flows: Sequence[Flow], silence: Silence) -> bool:
        """Runs until every source has finished, a sink is gone, or there was silence for too long.

        Returns False if the relay cannot be used; then nothing was moved.
        """
        if not self._ready():
            return False
        over = anyio.Event()
        load = _Load(flows, silence, partial(asyncio.get_running_loop().call_soon_threadsafe, over.set))
        try:
            if not self._take(load):
                return False
            while silence.left > 0 and not over.is_set():
                with anyio.move_on_after(silence.left):
                    await over.wait()
        finally:
            self._drop(load)
        return True

    def _take(self, load: _Load) -> bool:
        with load.lock:
            try:
                for handle in load.handles:
                    self._loads[handle] = load
                    self._poll.register(handle, select.EPOLLIN | select.EPOLLET)
            except OSError:
                load.done = True
            else:
                return True
        return False

    def _drop(self, load: _Load) -> None:
        """After this, its handles may be closed."""
        with load.lock:
            load.done = True
        for handle in load.handles:
            self._loads.pop(handle, None)
            with contextlib.suppress(OSError):
                self._poll.unregister(handle)

    def _ready(self) -> bool:
        """False on other systems, and if no handles or threads are available, which a box may have used up."""
        if self._thread is not None:
            return self._thread.is_alive()
        if sys.platform != "linux":
            return False
        thread = threading.Thread(target=self._work, name="teamwright-relay", daemon=True)
        try:
            self._poll = self._opened.enter_context(select.epoll())
            self._bell = self._own(os.eventfd(0))
            self._out, self._into = map(self._own, os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC))
            self._poll.register(self._bell, select.EPOLLIN)
            _widen(self._into)
            thread.start()
        except (OSError, RuntimeError):
            self._opened.close()
            return False
        self._thread = thread
        return True

    def _own(self, handle: int) -> int:
        self._opened.callback(os.close, handle)
        return handle

    def _work(self) -> None:
        """Looks at a load when one of its handles has news, and again as long as it did not have to wait.

        If a handle was closed and its number reused meanwhile, the extra look at the new load is harmless.
        """
        again = set[_Load]()
        try:
            while not self._ending:
                news = self._poll.poll(0 if again else None)
                loads = again | {load for handle, _ in news if (load := self._loads.get(handle))}
                again = {load for load in loads if self._look_at(load)}
        finally:
            for load in [*self._loads.values()]:
                load.over()

    def _look_at(self, load: _Load) -> bool:
        """Is there more to do immediately?"""
        with load.lock:
            if load.done:
                return False
            try:
                more = [self._move(flow, load.silence) for flow in load.flows if not flow.ended]
                load.done = all(flow.ended for flow in load.flows)
            except OSError:  # a sink is gone
                more, load.done = [], True
            if load.done:
                load.over()
            return any(more)

    def _move(self, flow: Flow, silence: Silence) -> bool:
        """Moves data until it has to wait or has used its turns. Raises OSError if the sink is gone."""
        yields = _YIELDS if flow.width == _WIDE else 0
        most = max(_NARROW, _SHARED // len(self._loads))
        for _ in range(_TURNS):
            if not self._send_rest(flow, silence):
                return False
            while (size := self._take_piece(flow, most)) is None:
                if not yields:
                    return False
                yields -= 1
                os.sched_yield()
            if not size:
                flow.ended = True
                flow.sink.finish()
                return False
            silence.broken()
            flow.width = min(2 * flow.width, _WIDE) if size >= _NARROW else _NARROW
            self._give_piece(flow, size)
        return True

    def _take_piece(self, flow: Flow, most: int) -> int | None:
        """The number of bytes now in the pipe. None: the source has nothing right now; 0: it has finished or is
        gone."""
        try:
            return os.splice(flow.source.fileno(), self._into, min(flow.width, most), flags=_SPLICE)
        except BlockingIOError:
            return None
        except OSError:
            return 0

    def _give_piece(self, flow: Flow, size: int) -> None:
        """Leaves the pipe empty for the next flow, whatever happens."""
        try:
            while size:
                size -= os.splice(self._out, flow.sink.fileno(), size, flags=_SPLICE)
        except BlockingIOError:
            flow.width = _NARROW
        finally:
            if size:
                flow.rest = self._empty()

    def _send_rest(self, flow: Flow, silence: Silence) -> bool:
        """Sends the held data; returns whether none is left."""
        sink = flow.sink.fileno()
        while flow.rest:
            try:
                sent = os.write(sink, flow.rest)
            except BlockingIOError:
                if not flow.stalled:
                    self._poll.modify(sink, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
                    flow.stalled = True
                return False
            flow.rest = flow.rest[sent:]
            silence.broken()
        return True

    def _empty(self) -> bytes:
        """Everything left in the pipe."""
        pieces = list[bytes]()
        with contextlib.suppress(BlockingIOError):
            while True:
                pieces.append(os.read(self._out, _WIDE))
        return b"".join(pieces)


def _widen(into: int) -> None:
    import fcntl  # noqa: PLC0415

    with contextlib.suppress(OSError):  # a user with many pipes gets narrow ones
        fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, _WIDE)
