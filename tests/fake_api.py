"""A real HTTP server on loopback that plays what it is told, byte for byte: answers, faults, cuts, silence."""

import asyncio
import json
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

CUT = "cut"  # reset the connection
CLOSE = "close"  # close the connection cleanly
HANG = "hang"  # say nothing more until the client goes away
PROBES = ("/props", "/v1/models", "/api/ps", "/api/v0/models")  # where local servers report a context size
PACE = 0.02  # seconds between two drops


@dataclass
class Drip:
    """The same bytes again and again, a number of times or until the client goes away."""

    data: bytes
    times: int = 1_000_000


Step = bytes | str | asyncio.Event | Drip


@dataclass
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class FakeApi:
    """Each request takes the next play; the last one is repeated. A path in `routes` has its own play.

    Questions for the context size are not part of the play: without a route, the answer is 404.
    """

    plays: list[Sequence[Step]] = field(default_factory=list)
    tls: ssl.SSLContext | None = None
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    routes: dict[str, Sequence[Step]] = field(default_factory=dict)

    async def __aenter__(self) -> "FakeApi":
        self._open: set[asyncio.StreamWriter] = set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self.url = f"http{'s' if self.tls else ''}://{self.host}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        async with asyncio.timeout(5):
            while self._open:
                await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            while asked := await _read(reader):
                if asked.method == "GET" and asked.path in PROBES and asked.path not in self.routes:
                    await _play(answer(404, {}), reader, writer)
                    continue
                taken = sum(a.path not in self.routes for a in self.asked)
                play = self.routes.get(asked.path) or self.plays[min(taken, len(self.plays) - 1)]
                self.asked.append(asked)
                self.arrived.set()
                if not await _play(play, reader, writer):
                    return
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.transport.abort()
            self._open.discard(writer)


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1").split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, path, _ = head[0].split(" ", 2)
    pairs = (line.split(":", 1) for line in head[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    return Asked(method, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))


async def _play(play: Sequence[Step], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Play one answer; False if the connection is over."""
    for step in play:
        match step:
            case bytes():
                writer.write(step)
                await writer.drain()
            case asyncio.Event():
                await step.wait()
            case Drip():
                await _drip(step, writer)
            case "hang":
                await reader.read()
                return False
            case "close":
                writer.close()
                return False
            case _:
                writer.transport.abort()
                return False
    return True


async def _drip(drip: Drip, writer: asyncio.StreamWriter) -> None:
    for _ in range(drip.times):
        if writer.is_closing():
            return
        writer.write(drip.data)
        await writer.drain()
        await asyncio.sleep(PACE)


def dripped(data: bytes, times: int = 1_000_000) -> Drip:
    """As an HTTP chunk."""
    return Drip(b"%x\r\n%b\r\n" % (len(data), data), times)


def answer(status: int, body: Any = b"", **headers: str) -> list[Step]:
    """A whole answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {"content-type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()}
    lines = "".join(f"{k}: {v}\r\n" for k, v in named.items())
    return [f"HTTP/1.1 {status} Said\r\n{lines}content-length: {len(data)}\r\n\r\n".encode() + data]


def stream(data: bytes, *, size: int = 0, end: str | None = None) -> list[Step]:
    """Server-sent events as HTTP chunks of `size` bytes; `end` breaks off in place of the last chunk."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    step = size or max(len(data), 1)
    chunks = [data[i : i + step] for i in range(0, len(data), step)]
    return [head, *(b"%x\r\n%b\r\n" % (len(c), c) for c in chunks), end or b"0\r\n\r\n"]


def events(values: Iterable[Any], *, named: bool = True, line: str = "\n") -> bytes:
    """JSON values as events, named by their type as one of the wires does."""
    out = ""
    for value in values:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        name = f"event: {value['type']}{line}" if named and isinstance(value, dict) else ""
        out += f"{name}data: {text}{line}{line}"
    return out.encode()


LOCAL = ("llama.cpp", "vLLM", "Ollama", "LM Studio")


def local_routes(server: str, window: int) -> dict[str, Sequence[Step]]:
    """How a local server reports a model `m` with a window of that many tokens."""
    said: dict[str, dict[str, Any]] = {
        "llama.cpp": {"/props": {"default_generation_settings": {"n_ctx": window}}},
        "vLLM": {"/v1/models": {"data": [{"id": "x", "max_model_len": 9}, {"id": "m", "max_model_len": window}]}},
        "Ollama": {"/api/ps": {"models": [{"name": "m:latest", "context_length": window}]}},
        "LM Studio": {"/api/v0/models": {"data": [{"id": "m", "loaded_context_length": window}]}},
    }
    return said_routes(said[server])


def said_routes(said: dict[str, Any]) -> dict[str, Sequence[Step]]:
    """Routes that answer these paths; every other path gets a 404."""
    return {path: answer(200, said[path]) if path in said else answer(404, {}) for path in (*PROBES, "/api/show")}
