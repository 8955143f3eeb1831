"""Accepts connections on a listener, up to a limit, and can forward them to a local port."""

import socket
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.lowlevel

from teamwright.host.sandbox.connections.passing import join
from teamwright.host.sandbox.connections.relay import Relay
from teamwright.host.sandbox.connections.wire import Stream, dial

_PAUSE = 0.1  # seconds to wait if we run out of handles
_DIAL_SECONDS = 5.0


class Room:
    """The connections of one root. If it is full, the oldest one that has not made its request yet is dropped."""

    def __init__(self, most: int) -> None:
        self._most, self._taken = most, 0
        self._early: dict[anyio.CancelScope, None] = {}  # in order of arrival

    def enter(self) -> bool:
        if self._taken >= self._most:
            oldest = next(iter(self._early), None)
            if oldest is None:
                return False
            del self._early[oldest]
            oldest.cancel()
        self._taken += 1
        return True

    def leave(self) -> None:
        self._taken -= 1

    @contextmanager
    def early(self, seconds: float) -> Generator[None]:
        """Wraps the time until a connection has made its request, at most `seconds`.

        Raises ConnectionError if it was dropped to make room.
        """
        made_room = False
        with anyio.move_on_after(seconds) as scope:
            self._early[scope] = None
            try:
                yield
            finally:
                made_room = scope not in self._early
                self._early.pop(scope, None)
        if made_room:
            raise ConnectionAbortedError("others need the room")


async def accept_all(
    listener: socket.socket, room: Room, attend: Callable[[Stream, Relay], Coroutine[Any, Any, None]]
) -> None:
    """Serves each connection in its own task until cancelled, then closes the listener."""

    async def one(wire: Stream) -> None:
        async with wire:
            try:
                await attend(wire, relay)
            except OSError:
                pass  # one of the two sides is gone
            finally:
                room.leave()

    listener.settimeout(0)
    with listener, Relay() as relay:
        async with anyio.create_task_group() as group:
            while True:
                try:
                    connected, _ = listener.accept()
                except BlockingIOError:
                    await anyio.wait_readable(listener)
                    continue
                except OSError:
                    await anyio.sleep(_PAUSE)
                    continue
                if room.enter():
                    group.start_soon(one, Stream(connected))
                else:
                    connected.close()
                await anyio.lowlevel.checkpoint()


async def forward(listener: socket.socket, port: int, *, connections: int, most_silence: float) -> None:
    """Forwards everything to this local port, without reading it. Runs until cancelled."""

    async def attend(wire: Stream, relay: Relay) -> None:
        try:
            server = await dial("127.0.0.1", port, _DIAL_SECONDS)
        except OSError:
            server = await dial("::1", port, _DIAL_SECONDS)
        async with server:
            await join(wire, server, relay, most_silence)

    await accept_all(listener, Room(connections), attend)
