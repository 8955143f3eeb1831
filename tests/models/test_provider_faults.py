"""Servers that fail in every way: each failure becomes one sentence in time, for the wire and the whole program."""

import asyncio
from collections.abc import Sequence

import anyio
import pytest
from streams import ASKED, said

from fake_api import HANG, FakeApi, Step, answer, events, stream
from teamwright.core.data.message import Request
from teamwright.core.errors import ModelError
from teamwright.models.http import HttpClient
from teamwright.models.retry import Patience, Reach
from teamwright.models.wires.anthropic import Anthropic
from teamwright.models.wires.openai import OpenAI

pytestmark = [pytest.mark.anyio, pytest.mark.spec("A7", "B9")]
SILENCE = 0.4
LIMIT = 6.0
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: 5000\r\n\r\n"
SSE, JSON = b"text/event-stream", b"application/json"
HALF = events(said("hi"))[:90]


async def at_once(_seconds: float) -> None:
    pass


PLAYS: dict[str, list[Step]] = {
    "says nothing": [HANG],
    "says nothing after its head": [HEAD % SSE, HANG],
    "closes before its head": ["close"],
    "closes after its head": [HEAD % SSE, "close"],
    "closes in the midst of its head": [b"HTTP/1.1 200 OK\r\ncontent-ty", "close"],
    "resets in mid-stream": [*stream(HALF)[:2], "reset"],
    "stops in mid-stream": [*stream(HALF)[:2], HANG],
    "ends in mid-stream": stream(HALF),
    "sends an empty stream": stream(b""),
    "sends an empty body": answer(200),
    "sends an empty body of no kind": [b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"],
    "sends half an object": answer(200, b'{"id": "msg_1", "type": "mess'),
    "sends half an object, then nothing": [HEAD % JSON, b'{"id": "msg_1", ', HANG],
    "sends half an event": stream(b'event: message_start\ndata: {"type": "message_st\n\n'),
    "is no HTTP": [b"SSH-2.0-OpenSSH_9.6\r\n", "close"],
    "refuses and says nothing more": [b"HTTP/1.1 500 No\r\ncontent-length: 5000\r\n\r\n", HANG],
}


async def ask(wire: type[Anthropic] | type[OpenAI], plays: Sequence[list[Step]]) -> ModelError:
    async with FakeApi(plays) as api:
        http = HttpClient({}, silence=SILENCE)
        try:
            model = wire(http, Reach(api.url, patience=Patience(1, at_once)))
            with anyio.fail_after(LIMIT), pytest.raises(ModelError) as failed:
                await model.reply(Request("x/y", (), (), ASKED), lambda _delta: None)
        finally:
            await http.aclose()
    assert len(api.asked) <= 2
    return failed.value


@pytest.mark.parametrize("wire", [Anthropic, OpenAI])
@pytest.mark.parametrize("play", PLAYS, ids=str)
async def test_a_server_that_fails_is_a_sentence(wire: type[Anthropic] | type[OpenAI], play: str) -> None:
    error = await ask(wire, [PLAYS[play]])
    assert error.fault in ("silence", "network", "server") and "127.0.0.1" in str(error), error


class Drip:
    """A server that sends byte after byte, each well within the limit for silence, and never ends."""

    def __init__(self, before: bytes, byte: bytes) -> None:
        self._before, self._byte = before, byte

    async def __aenter__(self) -> "Drip":
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self._before)
            while not writer.is_closing():
                writer.write(self._byte)
                await writer.drain()
                await asyncio.sleep(SILENCE / 8)  # this is what it does
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()


@pytest.mark.parametrize(
    ("before", "byte"),
    [(b"HTTP/1.1 200 OK\r\nx-a: ", b"a"), (HEAD % JSON + b'{"id": "', b"a")],
    ids=["its head", "one object"],
)
async def test_a_server_that_drips_is_silent(before: bytes, byte: bytes) -> None:
    async with Drip(before, byte) as server:
        http = HttpClient({}, silence=SILENCE)
        try:
            model = Anthropic(http, Reach(server.url, patience=Patience(0, at_once)))
            with anyio.fail_after(LIMIT), pytest.raises(ModelError) as failed:
                await model.reply(Request("x/y", (), (), ASKED), lambda _delta: None)
        finally:
            await http.aclose()
    assert failed.value.fault == "silence"


async def test_a_refusal_that_drips_is_a_refusal() -> None:
    async with Drip(b"HTTP/1.1 401 No\r\ncontent-length: 5000\r\n\r\n", b"a") as server:
        http = HttpClient({}, silence=SILENCE)
        try:
            model = Anthropic(http, Reach(server.url, patience=Patience(0, at_once)))
            with anyio.fail_after(LIMIT), pytest.raises(ModelError) as failed:
                await model.reply(Request("x/y", (), (), ASKED), lambda _delta: None)
        finally:
            await http.aclose()
    assert failed.value.status == 401
