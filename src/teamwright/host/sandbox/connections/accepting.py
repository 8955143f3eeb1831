"""Accepts connections on a listener, as many as there is room for, and forwards those to a port of this machine."""

import socket
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.lowlevel

from teamwright.host.sandbox.connections.passing import join
from teamwright.host.sandbox.connections.relay import Relay
from teamwright.host.sandbox.connections.wire import Stream, dial

_PAUSE = 0.1  # when the machine has no more handles for us
_DIAL_SECONDS = 5.0


class Room:
    """Connections of one root. When it is full, the oldest that has not said what it wants makes room."""

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
        """While a connection has not said what it wants, for so long at most.

        Raises ConnectionError where it had to make room.
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
    """Each connection in a task of its own, until cancelled; then the listener is closed."""

    async def one(wire: Stream) -> None:
        async with wire:
            try:
                await attend(wire, relay)
            except OSError:
                pass  # one of the two sides has gone
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
    """Everything that comes in goes to this port of this machine, unread. Until cancelled."""

    async def attend(wire: Stream, relay: Relay) -> None:
        try:
            server = await dial("127.0.0.1", port, _DIAL_SECONDS)
        except OSError:
            server = await dial("::1", port, _DIAL_SECONDS)
        async with server:
            await join(wire, server, relay, most_silence)

    await accept_all(listener, Room(connections), attend)
