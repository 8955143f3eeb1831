"""`teamwright web` beside real sessions, spoken to over plain HTTP and a socket of the standard library."""

import base64
import http.client
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable
from typing import Any

from program import ARGV, LIMIT, Program

PAUSE = 0.03  # between two polls


class Reply:
    def __init__(self, found: http.client.HTTPResponse) -> None:
        self.status = found.status
        self.headers = {name.lower(): value for name, value in found.getheaders()}
        self.body = found.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class WebHub:
    """The hub of a program's home. `key` is that of its first link."""

    def __init__(self, program: Program, *args: str, port: int = 0) -> None:
        self.program = program
        argv = [*ARGV, "web", "--port", str(port), "--no-open", "--json", *args]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
        with (program.root / "web.err").open("ab") as errors:
            self.process = subprocess.Popen(
                argv, cwd=program.project, env=program.env, stderr=errors, start_new_session=True, **pipes
            )
        assert self.process.stdout
        self.info = json.loads(self.process.stdout.readline())
        self.port = self.info["port"]
        self.key = ""

    def enter(self) -> "WebHub":
        self.key = self.login(self.info["token"]).json["key"]
        return self

    def login(self, token: object) -> Reply:
        return self.ask("POST", "/api/login", {"token": token}, key="")

    def ask(
        self, method: str, path: str, body: Any = None, *, key: str | None = None, headers: dict[str, str] | None = None
    ) -> Reply:
        key = self.key if key is None else key
        sent = ({"Authorization": f"Bearer {key}"} if key else {}) | (headers or {})
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        try:
            connection.request(method, path, data, sent)
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def get(self, path: str, **more: Any) -> Reply:
        return self.ask("GET", path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> Reply:
        return self.ask("POST", path, {} if body is None else body, **more)

    def until(self, path: str, seen: Callable[[Any], Any]) -> Any:
        """The first answer that fits."""
        end = time.monotonic() + LIMIT
        while True:
            found = self.get(path)
            if found.status == 200 and seen(found.json):
                return found.json
            assert time.monotonic() < end, f"{path}: {found.status} {found.body[:2000]}"
            time.sleep(PAUSE)

    def session(self) -> str:
        return self.until("/api/now", lambda now: now["sessions"])["sessions"][0]["id"]

    def question(self) -> dict[str, Any]:
        return self.until("/api/now", lambda now: now["questions"])["questions"][0]

    def answer(self, question: dict[str, Any], **said: Any) -> Reply:
        return self.post(f"/api/sessions/{question['session']}/questions/{question['id']}", said)

    def link(self, *args: str) -> dict[str, Any]:
        return json.loads(self.program.run("web", "link", "--json", *args).out.splitlines()[0])

    def close(self, *, kill: bool = False) -> None:
        if self.process.poll() is None:
            self.process.kill() if kill else self.process.terminate()
            self.process.wait(LIMIT)
        if self.process.stdout:
            self.process.stdout.close()


class WebSocket:
    """Text messages, one after the other."""

    def __init__(self, hub: WebHub, *, key: str | None = None, origin: str | None = None, hello: bool = True) -> None:
        self._wire = socket.create_connection(("127.0.0.1", hub.port), timeout=LIMIT)
        nonce = base64.b64encode(os.urandom(16)).decode()
        lines = [
            "GET /api/live HTTP/1.1",
            f"Host: 127.0.0.1:{hub.port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {nonce}",
            "Sec-WebSocket-Version: 13",
            *([f"Origin: {origin}"] if origin else []),
        ]
        self._wire.sendall("\r\n".join([*lines, "", ""]).encode())
        self._data = b""
        while b"\r\n\r\n" not in self._data:
            self._data += self._more()
        head, _, self._data = self._data.partition(b"\r\n\r\n")
        self.status = int(head.split()[1])
        self.closed = 0
        if self.status == 101 and hello:
            self.send({"type": "hello", "key": hub.key if key is None else key})

    def _more(self) -> bytes:
        found = self._wire.recv(1 << 16)
        assert found, "the hub closed the connection"
        return found

    def send(self, message: Any) -> None:
        data = json.dumps(message).encode()
        size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
        self._wire.sendall(b"\x81" + size + bytes(4) + data)

    def raw(self, data: bytes) -> None:
        self._wire.sendall(data)

    def next(self) -> dict[str, Any] | None:
        """None when the hub has closed; then `closed` says why."""
        first, second = self._take(2)
        size = second & 127
        if size > 125:
            size = int.from_bytes(self._take(2 if size == 126 else 8), "big")
        body = self._take(size)
        if first & 15 == 8:
            self.closed = int.from_bytes(body[:2], "big")
            return None
        return json.loads(body) if first & 15 == 1 else self.next()

    def _take(self, count: int) -> bytes:
        while len(self._data) < count:
            self._data += self._more()
        found, self._data = self._data[:count], self._data[count:]
        return found

    def until(self, seen: Callable[[dict[str, Any]], Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while not found or not seen(found[-1]):
            message = self.next()
            assert message is not None, f"closed with {self.closed}"
            found.append(message)
        return found

    def close(self) -> None:
        self._wire.close()


OpenHub = Callable[..., WebHub]
