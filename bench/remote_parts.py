"""Parts of the measurements with several machines: a server, workers, and a provider that records when it is asked."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
from land import git
from session import PROGRAM

LIMIT = 120.0  # seconds
LEASE = 3
MODEL = "claude-sonnet-4-6"


class Server:
    """nats-server that syncs each write, as `engine run` starts it: one node, or one of three."""

    def __init__(self, root: Path, ports: Sequence[int] = (), node: int = 0, *, sync: str = "always") -> None:
        self.ports = tuple(ports) or (free_port(),)
        self.port, self.root = self.ports[node], root
        root.mkdir(parents=True)
        several = len(self.ports) > 1
        routes = ", ".join(f'"nats-route://127.0.0.1:{port + 2000}"' for port in self.ports)
        cluster = f'cluster {{name: bench, listen: "127.0.0.1:{self.port + 2000}", routes: [{routes}]}}\n'
        self._text = f'server_name: "n{node}"\nlisten: "127.0.0.1:{self.port}"\n{cluster if several else ""}'
        self.process: subprocess.Popen[bytes] | None = None
        self.start(sync)

    def start(self, sync: str = "always") -> None:
        store = f'jetstream {{store_dir: "{self.root}/store", sync_interval: {sync}}}\n'
        (self.root / "server.conf").write_text(self._text + store)
        program = Path(sys.executable).with_name("nats-server")
        self.process = subprocess.Popen([program, "-c", self.root / "server.conf"], stderr=subprocess.DEVNULL)
        limit = time.monotonic() + LIMIT
        while time.monotonic() < limit:
            try:
                return socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.005)
        raise SystemExit("the server does not come up")

    def url(self, space: str) -> str:
        return f"nats://{','.join(f'127.0.0.1:{port}' for port in self.ports)}/{space}"

    def stop(self, number: int = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(LIMIT)
            self.process = None


def free_port() -> int:
    """A free port for which port + 2000 is free too, for other nodes."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            try:
                two.bind(("127.0.0.1", one.getsockname()[1] + 2000))
            except (OSError, OverflowError):
                continue
            return one.getsockname()[1]


class Worker:
    """`teamwright worker` with its own home, as on another machine. The constructor returns once it has joined."""

    def __init__(self, root: Path, url: str, name: str, env: dict[str, str], *, slots: int = 8) -> None:
        home = root / name
        home.mkdir()
        argv = [PROGRAM, "worker", "--join", url, "--name", name, "--allow-bypass", "--slots", str(slots)]
        env = env | {"HOME": str(home), "TEAMWRIGHT_HOME": str(home / "state"), "TEAMWRIGHT_LEASE_SECONDS": str(LEASE)}
        self.errors = (home / "errors").open("w")
        self.process = subprocess.Popen(
            argv, cwd=home, env=env, stdout=subprocess.PIPE, stderr=self.errors, text=True, start_new_session=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if "joined" not in line:
            raise SystemExit(f"the worker did not join: {line}{(home / 'errors').read_text()}")
        self._sink = subprocess.Popen(["cat"], stdin=self.process.stdout, stdout=subprocess.DEVNULL)

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, number)

    def peak(self) -> float:
        """Megabytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+)", text)[0]) / 1024

    def close(self) -> None:
        self.kill()
        self.process.wait(LIMIT)
        self._sink.wait(LIMIT)
        self.errors.close()


class Asked:
    """One request: its sender, when it came, when it was answered, and how many results it contained."""

    def __init__(self, mark: str, results: int, text: str) -> None:
        self.mark, self.results, self.text = mark, results, text
        self.came, self.answered = time.perf_counter(), 0.0


class Provider:
    """Anthropic's wire. A prompt with `CALLS-20-x.` gets 20 calls of Bash, then a word; everything else gets a word."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.on_asked: Callable[[Asked], bool] = lambda _: True  # False: it gets no answer
        self._news, self._server = anyio.Event(), None
        self.url = ""

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**26)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def close(self) -> None:
        self._server.close()

    @property
    def env(self) -> dict[str, str]:
        return {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": "none", "NO_PROXY": "127.0.0.1"}

    async def wait(self, found: Callable[[], Any]) -> Any:
        with anyio.fail_after(LIMIT):
            while not (value := found()):
                await self._news.wait()
        return value

    async def seen(self, word: str) -> float:
        """When the first request with this word came."""
        one = await self.wait(lambda: next((asked for asked in self.asked if word in asked.text), None))
        return one.came

    async def turns(self, mark: str, many: int) -> list[float]:
        """Seconds from each answer to this agent's next request."""
        asked = await self.wait(lambda: len(found := self.of(mark)) > many and found)
        return [after.came - before.answered for before, after in pairwise(asked[: many + 1])]

    def of(self, mark: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.mark == mark]

    async def _serve(self, stream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                lines = await stream.readuntil(b"\r\n\r\n")
                size = re.search(rb"(?i)\r\ncontent-length: *(\d+)", lines)
                await self._answer(await stream.readexactly(int(size[1]) if size else 0), writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()

    async def _answer(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        asked, calls = _read(data)
        self.asked.append(asked)
        answers = self.on_asked(asked)
        self._news.set()
        self._news = anyio.Event()
        if answers:
            writer.write(_wire(asked.results < calls, len(self.asked)))
            await writer.drain()
            asked.answered = time.perf_counter()


def _read(data: bytes) -> tuple[Asked, int]:
    """Who asks, and how many calls it makes in all."""
    text = data.decode()
    found = re.search(r"CALLS-(\d+)-\w+\.", text)
    messages = json.loads(data)["messages"] if found else []
    blocks = [block for message in messages for block in message["content"] if isinstance(block, dict)]
    results = sum(block["type"] == "tool_result" for block in blocks)
    return Asked(found[0] if found else "", results, text), int(found[1]) if found else 0


def _wire(calls: bool, n: int) -> bytes:
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {"id": "msg", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": usage}
    command = json.dumps({"command": f"echo {n} >> changed.txt", "description": "change a file"})
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": "noted"}
    if calls:
        block = {"type": "tool_use", "id": f"toolu_{n}", "name": "Bash", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": command}
    events = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use" if calls else "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]
    wire = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(wire)}\r\n\r\n"
    return head.encode() + wire


def a_repository(top: Path, files: int) -> Path:
    top.mkdir(parents=True)
    for n in range(files):
        (top / f"d{n % 20:02}").mkdir(exist_ok=True)
        (top / f"d{n % 20:02}" / f"file{n:04}.txt").write_text(f"file {n}\n" * 40)
    (top / "changed.txt").write_text("")
    git(top, "init", "-q", "-b", "main")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "all")
    return top


async def timed(work: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began
