"""What an editor waits for: first answers and streamed updates; and the memory used, compared with headless mode."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from rows import Row, ms
from session import PROGRAM, Rig

from teamwright.core.data.message import ReplyStarted, TextDelta
from teamwright.core.ids import AgentId
from teamwright.surfaces.acp.protocol.wire import Wire
from teamwright.surfaces.acp.updates.calls import NoKeeper
from teamwright.surfaces.acp.updates.voice import Voice

ROUNDS = 5
UPDATES = 20_000
PACE = 8_000  # characters a second: about 2,000 tokens
SECONDS = 3


@contextmanager
def talking(rig: Rig, *argv: str) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        [PROGRAM, *argv], cwd=rig.project, env=rig.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield process
    finally:
        assert process.stdin
        process.stdin.close()
        process.wait(20)


def send(process: "subprocess.Popen[bytes]", line: Any) -> None:
    assert process.stdin
    process.stdin.write(json.dumps(line).encode() + b"\n")
    process.stdin.flush()


def call(process: "subprocess.Popen[bytes]", id: int, method: str, **params: Any) -> tuple[dict[str, Any], int]:
    """The answer, and the number of text chunks before it."""
    send(process, {"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    assert process.stdout
    chunks = 0
    for line in process.stdout:
        message = json.loads(line)
        chunks += b"agent_message_chunk" in line
        if message.get("id") == id and "method" not in message:
            return message["result"], chunks
    raise SystemExit(f"no answer to {method}")


def resident(process: "subprocess.Popen[bytes]") -> float:
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def used(process: "subprocess.Popen[bytes]") -> float:
    """CPU seconds so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def script(rig: Rig, steps: Any) -> str:
    file = rig.root / "acp.json"
    file.write_text(json.dumps(steps))
    return f"script/{file}"


def first_answers(rig: Rig, model: str) -> tuple[list[float], list[float], list[float]]:
    hello, opened, memory = [], [], []
    for _ in range(ROUNDS):
        with talking(rig, "acp", "--model", model, "--trust") as process:
            call(process, 1, "initialize", protocolVersion=1)
            hello.append(used(process))
            session, _ = call(process, 2, "session/new", cwd=str(rig.project), mcpServers=[])
            opened.append(used(process))
            words = [{"type": "text", "text": "go"}]
            call(process, 3, "session/prompt", sessionId=session["sessionId"], prompt=words)
            memory.append(resident(process))
    return hello, opened, memory


def headless_memory(rig: Rig, model: str) -> list[float]:
    found = []
    formats = ("--input-format", "stream-json", "--output-format", "stream-json", "--include-partial-messages")
    for _ in range(ROUNDS):
        with talking(rig, "-p", "--model", model, "--trust", *formats) as process:
            send(process, {"type": "user", "message": {"role": "user", "content": "go"}})
            assert process.stdout
            while b'"type":"result"' not in process.stdout.readline():
                pass
            found.append(resident(process))
    return found


def chunks_a_second(rig: Rig) -> list[float]:
    model = script(rig, [{"text": "word " * (PACE * SECONDS // 5), "pace": PACE}])
    with talking(rig, "acp", "--model", model, "--trust") as process:
        call(process, 1, "initialize", protocolVersion=1)
        session, _ = call(process, 2, "session/new", cwd=str(rig.project), mcpServers=[])
        words = [{"type": "text", "text": "go"}]
        began = time.monotonic()
        _, chunks = call(process, 3, "session/prompt", sessionId=session["sessionId"], prompt=words)
        return [chunks / (time.monotonic() - began)]


class _Nowhere:
    async def write(self, data: bytes) -> None:
        pass


async def cost_of_updates() -> float:
    """CPU for one text update, from the event to the bytes of its line."""
    async with anyio.create_task_group() as group:
        wire = Wire(_Nowhere(), group)
        group.start_soon(wire.write)

        def tell(update: dict[str, Any]) -> None:
            wire.notify("session/update", {"sessionId": "s", "update": update})

        voice = Voice(AgentId("a"), tell, str, NoKeeper())
        voice.stream(ReplyStarted("r", "m"))
        began = time.process_time()
        for n in range(UPDATES):
            voice.stream(TextDelta(0, f"some words of a reply, piece {n} "))
            voice.flush()
            if n % 100 == 0:
                await anyio.lowlevel.checkpoint()
        took = time.process_time() - began
        group.cancel_scope.cancel()
    return took / UPDATES


def measure(rig: Rig) -> list[Row]:
    model = script(rig, ["a short answer"])
    hello, opened, memory = first_answers(rig, model)
    beside = headless_memory(rig, model)
    more = [ours - other for ours, other in zip(sorted(memory), sorted(beside), strict=True)]
    return [
        Row("editor: start to initialize answered", ms(hello), most=300),
        Row("editor: start to session/new answered", ms(opened), most=450),
        Row("editor: one update of text", ms([anyio.run(cost_of_updates)]), most=0.2),
        Row("editor: updates at 2,000 tokens/s", chunks_a_second(rig), unit="1/s", most=35),
        Row("editor: resident after a turn : headless", memory, beside, unit="MB"),
        Row("  more than headless", more, unit="MB", most=5),
    ]
