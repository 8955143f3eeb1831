"""Private Unix stream sockets between processes of the same person."""

import contextlib
import os
import socket
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import anyio

from teamwright.host.ipc.confined import is_confined
from teamwright.host.ipc.stream import SocketStream
from teamwright.host.ipc.wakeup import private_directory, sweep

_SUFFIX = ".door"


class UnixStream(SocketStream):
    """One connection between two processes of the same person. `confined`: the other end is a sandboxed program."""

    def __init__(self, connected: socket.socket, *, confined: bool = False) -> None:
        super().__init__(connected)
        self.confined = confined


class Listener:
    """Made by `open_listener`; `path` is its address."""

    def __init__(self, bound: socket.socket, path: Path) -> None:
        self._socket, self.path = bound, path

    async def serve(self, receive: Callable[[UnixStream], Coroutine[Any, Any, None]]) -> None:
        """Serves each connection in its own task, until cancelled."""
        async with anyio.create_task_group() as group:
            while True:
                try:
                    connected, _ = self._socket.accept()
                except BlockingIOError:
                    await anyio.wait_readable(self._socket)
                except ConnectionError:
                    continue
                else:
                    group.start_soon(receive, UnixStream(connected, confined=is_confined(connected)))

    def close(self) -> None:
        self.path.unlink(missing_ok=True)
        self._socket.close()


def open_listener(env: Mapping[str, str]) -> Listener:
    """Listens in a directory that only we can enter, after removing sockets left by killed processes."""
    directory = private_directory(env)
    sweep(directory, _SUFFIX, socket.SOCK_STREAM)
    path = directory / f"{os.urandom(6).hex()}{_SUFFIX}"
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bound.settimeout(0)
        bound.bind(str(path))
        path.chmod(0o600)
        bound.listen(16)
    except BaseException:
        bound.close()
        raise
    return Listener(bound, path)


def connect(path: str) -> UnixStream:
    """Connects immediately or fails. Raises OSError if nobody listens."""
    caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(BlockingIOError):
            caller.settimeout(0)
            caller.connect(path)
            return UnixStream(caller)
        raise ConnectionRefusedError("too many wait at that door")
    except BaseException:
        caller.close()
        raise
