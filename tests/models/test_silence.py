"""A server that sends bytes without content is silent: blanks, endless pings and comments, dripping headers, errors."""

import anyio
import pytest
from streams import ANTHROPIC, OPENAI
from wires import ask_chat, ask_claude

from fake_api import Drip, FakeApi, Step, dripped, events, stream
from teamwright.core.errors import ModelError

pytestmark = [pytest.mark.anyio, pytest.mark.spec("B9")]
SILENCE = 0.3
HEAD, *_, END = stream(b"x")
JSON_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9000000\r\n\r\n"
PING = events([{"type": "ping"}])
BEGIN = events([{"type": "message_start", "message": {"id": "m"}}])
TEXT = events([{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}])
NOTHING = events([{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ""}}])
EMPTY = events([{"choices": [{"delta": {"content": ""}}]}], named=False)
SAYS_NOTHING: list[tuple[str, list[Step]]] = [
    ("comments without end", [HEAD, dripped(b": keep-alive\n\n")]),
    ("one long comment", [HEAD, dripped(b":")]),
    ("blank lines", [HEAD, dripped(b"\n")]),
    ("fields without data", [HEAD, dripped(b"id: 1\nevent: x\n\n")]),
    ("pings", [HEAD, dripped(PING)]),
    ("unknown events", [HEAD, dripped(events([{"type": "news"}]))]),
    ("pings after a beginning", [HEAD, *stream(BEGIN)[1:2], dripped(PING)]),
    ("empty deltas", [HEAD, *stream(BEGIN + TEXT)[1:2], dripped(NOTHING)]),
    ("an event without end", [HEAD, dripped(b"data: x\n")]),
    ("blanks of an answer in one piece", [JSON_HEAD, Drip(b" \n")]),
    ("a head without end", [b"HTTP/1.1 200 OK\r\n", Drip(b"x-a: b\r\n", 100)]),
]


@pytest.mark.parametrize(("what", "play"), SAYS_NOTHING, ids=[what for what, _ in SAYS_NOTHING])
async def test_what_says_nothing_is_silence(what: str, play: list[Step]) -> None:
    async with FakeApi([play]) as api:
        with anyio.fail_after(SILENCE * 10 + 5), pytest.raises(ModelError) as caught:
            await ask_claude(api, retries=0, silence=SILENCE)
    assert caught.value.fault == "silence" and "0.3 seconds" in str(caught.value), what


async def test_chunks_without_words_are_silence_too() -> None:
    async with FakeApi([[HEAD, dripped(EMPTY)]]) as api:
        with anyio.fail_after(SILENCE * 10 + 5), pytest.raises(ModelError) as caught:
            await ask_chat(api, retries=0, silence=SILENCE)
    assert caught.value.fault == "silence"


@pytest.mark.parametrize("sign", [PING, b": keep-alive\n\n"], ids=["pings", "comments"])
async def test_signs_of_life_keep_an_answer_alive_that_is_long_in_coming(sign: bytes) -> None:
    """About three times the limit for silence."""
    async with FakeApi([[HEAD, dripped(sign, 40), *stream(ANTHROPIC)[1:]]]) as api:
        reply, _ = await ask_claude(api, retries=0, silence=SILENCE)
    assert reply.message.blocks


async def test_words_that_come_slowly_are_none() -> None:
    async with FakeApi(
        [[HEAD, *(dripped(bytes((byte,)), 1) for byte in OPENAI[:60]), *stream(OPENAI[60:])[1:]]]
    ) as api:
        reply, _ = await ask_chat(api, retries=0, silence=SILENCE)
    assert reply.message.blocks


async def test_an_error_that_never_ends_is_told_by_its_status() -> None:
    head = b'HTTP/1.1 401 No\r\ncontent-type: application/json\r\ncontent-length: 60000\r\n\r\n{"error": "'
    async with FakeApi([[head, Drip(b"x")]]) as api:
        with anyio.fail_after(5), pytest.raises(ModelError) as caught:
            await ask_claude(api, retries=0, silence=SILENCE)
    assert caught.value.fault == "auth" and caught.value.status == 401
