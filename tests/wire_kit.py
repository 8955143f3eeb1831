"""A connection between a process and a server that can be cut: a TCP proxy on loopback."""

import contextlib
import socket
import threading
from types import TracebackType


class Wire:
    """While it is cut, nothing passes and nobody is told: connections stay open but dead, even afterwards."""

    def __init__(self, port: int) -> None:
        """Forward to this loopback port."""
        self._target, self._whole = port, threading.Event()
        self._whole.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._pairs: list[threading.Event] = []  # set: that connection is dead
        self._ended = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._whole.clear()
        for dead in self._pairs:
            dead.set()

    def mend(self) -> None:
        self._whole.set()

    def _accept(self) -> None:
        while not self._ended:
            try:
                near = self._listener.accept()[0]
            except OSError:
                return
            self._sockets.append(near)
            threading.Thread(target=self._join, args=(near,), daemon=True).start()

    def _join(self, near: socket.socket) -> None:
        self._whole.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self._target), 10)
        except OSError:
            near.close()
            return
        far.settimeout(None)
        dead = threading.Event()
        self._pairs.append(dead)
        self._sockets.append(far)
        for one, other in ((near, far), (far, near)):
            threading.Thread(target=self._carry, args=(one, other, dead), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket, dead: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                if dead.is_set():
                    return
                other.sendall(data)
        if not dead.is_set():
            for end in (one, other):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._ended = True
        self._whole.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for end in (self._listener, *self._sockets):
            end.close()

    def __enter__(self) -> "Wire":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
