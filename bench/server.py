"""A small scripted server for Anthropic's wire, in its own process so that its CPU does not count as the client's.

The base URL ends in the client's process id, so the server can record the client's resource use at the moment when a
request arrives. `GET /PID/seen` returns these records as JSON, `GET /PID/bodies` the requests.
"""

import asyncio
import json
import re
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

ASK = re.compile(rb"BENCH turns=(\d+) file=([^\s\"]+)")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@dataclass
class Seen:
    """A client's state at one of its requests."""

    cpu: list[float] = field(default_factory=list)  # seconds, user and system, all threads
    at: list[float] = field(default_factory=list)  # wall clock
    rss: list[int] = field(default_factory=list)  # bytes
    peak: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)  # of the bodies


def prompt(turns: int, file: Path) -> str:
    """The prompt that makes the server ask for `turns` reads of `file` and then end."""
    return f"BENCH turns={turns} file={file}"


def cpu_of(pid: int) -> float:
    """CPU of another process on Linux: its CPU clock has the resolution that /proc/PID/stat lacks."""
    return time.clock_gettime((~pid << 3) | 2)


def memory_of(pid: int) -> tuple[int, int]:
    """Resident bytes now, and the peak."""
    rows = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(rows["VmRSS"].split()[0]) * 1024, int(rows["VmHWM"].split()[0]) * 1024


def answer(body: bytes) -> bytes:
    """The next read, or the end; the conversation alone decides which."""
    found = ASK.search(body)
    if found is None:
        return b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"
    done = body.count(b'"type":"tool_result"')
    events = reply(done, found[2].decode() if done < int(found[1]) else None)
    wire = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
    return HEAD + b"".join(b"%x\r\n%b\r\n" % (len(data), data) for data in wire) + b"0\r\n\r\n"


def reply(done: int, file: str | None) -> list[dict[str, object]]:
    usage = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5000 + 100 * done}
    message = {"id": f"msg_{done}", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": usage}
    if file is None:
        block, deltas = {"type": "text", "text": ""}, [{"type": "text_delta", "text": "done"}]
    else:
        block = {"type": "tool_use", "id": f"toolu_{done:06}", "name": "Read", "input": {}}
        text = json.dumps({"file_path": file})
        parts = (text[: len(text) // 2], text[len(text) // 2 :])
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
    stop = {"stop_reason": "end_turn" if file is None else "tool_use", "stop_sequence": None}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 40}},
        {"type": "message_stop"},
    ]


class Server:
    def __init__(self) -> None:
        self._seen: dict[int, Seen] = {}
        self._bodies: dict[int, list[bytes]] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                _, pid, rest = head.split(b" ", 2)[1].split(b"/", 2)
                writer.write(self._post(int(pid), body) if head.startswith(b"POST") else self._get(int(pid), rest))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _post(self, pid: int, body: bytes) -> bytes:
        cpu, at = cpu_of(pid), time.time()  # first, because what the server does from here on is not the client's time
        rss, peak = memory_of(pid)
        seen = self._seen.setdefault(pid, Seen())
        for row, value in ((seen.cpu, cpu), (seen.at, at), (seen.rss, rss), (seen.peak, peak), (seen.sizes, len(body))):
            row.append(value)
        self._bodies.setdefault(pid, []).append(body)
        return answer(body)

    def _get(self, pid: int, what: bytes) -> bytes:
        """Return the records once and forget them."""
        if what == b"bodies":
            data = b"".join(self._bodies.pop(pid, []))
        else:
            data = json.dumps(asdict(self._seen.pop(pid, Seen()))).encode()
        return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(data) + data


async def main() -> None:
    server = await asyncio.start_server(Server().serve, "127.0.0.1", 0, limit=2**26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
