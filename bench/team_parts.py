"""Parts of the team measurements: a reader that records when it is asked, a provider, a past."""

import asyncio
import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import anyio

from teamwright.core.data.event import LettersTaken, Replied, TurnEnded
from teamwright.core.data.message import Message, Text, Usage
from teamwright.core.ids import LetterId
from teamwright.store.files.transcripts import Transcript

LIMIT = 30.0


class Reader:
    """When each PING reached the model."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self._news = anyio.Event()

    def note(self, text: str) -> None:
        now = time.perf_counter()
        for found in re.findall(r"PING-\d+\.", text):
            self._at.setdefault(found, now)
        self._news.set()
        self._news = anyio.Event()

    async def seen(self, mark: str) -> float:
        with anyio.fail_after(LIMIT):
            while mark not in self._at:
                await self._news.wait()
        return self._at[mark]


async def answer(stream: asyncio.StreamReader, writer: asyncio.StreamWriter, note: Callable[[str], None]) -> None:
    """Anthropic's wire: answer everything with one word."""
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {"id": "msg", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": usage}
    events = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "noted"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]
    wire = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(wire)}\r\n\r\n".encode()
    try:
        while True:
            lines = await stream.readuntil(b"\r\n\r\n")
            size = re.search(rb"(?i)\r\ncontent-length: *(\d+)", lines)
            note((await stream.readexactly(int(size[1]) if size else 0)).decode())
            writer.write(head + wire)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def add_history(path: Path, messages: int) -> None:
    """Write the history of an agent that has talked for long: a page in, a page out."""
    transcript, _, _ = Transcript.open(path)
    page, model = "words that were said before " * 20, "m"
    for n in range(messages // 2):
        transcript.append(LettersTaken((LetterId(f"old-{n}"),), Message("user", (Text(page),))), 1)
        transcript.append(Replied(Message("assistant", (Text(page),), model), "end_turn", Usage(10, 10)), 1)
        transcript.append(TurnEnded("done", page), 1)
    transcript.close()
