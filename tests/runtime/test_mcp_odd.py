"""Servers whose messages are too large or unreadable: an answer or an error at once, within bounds."""

import resource
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from mcp_shop import Shop

from teamwright.core.data.extensions.server import ServerConfig, Stdio
from teamwright.core.data.message import Image, Text
from teamwright.core.errors import ToolError
from teamwright.host.mcp.shrink import MOST_PARTS, UnreadableMessage, shrink

pytestmark = [pytest.mark.anyio, pytest.mark.spec("A5", "D8")]
ODD = Path(__file__).parent.parent / "servers" / "odd_mcp.py"
SOON = 20.0  # seconds on a busy machine; it used to take 600


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def odd() -> ServerConfig:
    return ServerConfig("odd", Stdio(sys.executable, (str(ODD),), {}))


@pytest.mark.parametrize("name", ["deep", "deep_list", "levels", "half", "neither"])
async def test_a_message_that_cannot_be_read_fails_the_call_at_once(shop: Shop, name: str) -> None:
    async with shop.open(odd(), call=600) as pool:
        with anyio.fail_after(SOON), pytest.raises(ToolError, match="cannot be read"):
            await shop.call(pool, f"mcp__odd__{name}")
        assert (await shop.call(pool, "mcp__odd__noise")).content == (Text("x"),)  # it survives, and noise is ignored


@pytest.mark.parametrize(
    ("name", "words"),
    [("many", "299,000 more parts"), ("data", "x"), ("meta", "x"), ("long", "left out")],
)
async def test_an_answer_of_too_many_parts_is_cut_and_the_rest_counted(shop: Shop, name: str, words: str) -> None:
    async with shop.open(odd(), call=600) as pool:
        with anyio.fail_after(SOON):
            outcome = await shop.call(pool, f"mcp__odd__{name}")
    (text,) = outcome.content
    assert isinstance(text, Text) and words in text.text and len(text.text) <= 30_000


async def test_a_picture_that_is_none_is_told_in_words(shop: Shop) -> None:
    async with shop.open(odd()) as pool:
        outcome = await shop.call(pool, "mcp__odd__picture")
    assert not any(isinstance(part, Image) for part in outcome.content) and "no PNG" in str(outcome.content)


@pytest.mark.parametrize(
    "content",
    [b'{"type":"text","text":"abcdefghij"}', b"{}", b'{"type":"text","text":"x","_meta":{"a":[[],[],[]]}}'],
    ids=["texts", "nothing", "meta"],
)
async def test_sixteen_mebibytes_cost_little(content: bytes) -> None:
    count = (16 << 20) // (len(content) + 1) - 10
    line = b'{"jsonrpc":"2.0","id":7,"result":{"content":[' + b",".join([content] * count) + b"]}}"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    small = shrink(line)
    assert time.process_time() - began < 2
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10 < 450  # MiB
    assert len(small) < 200_000 and f"{count - MOST_PARTS:,} more parts".encode() in small


def test_what_is_no_content_is_bounded_as_a_whole() -> None:
    with pytest.raises(UnreadableMessage, match="not content"):
        shrink(b'{"jsonrpc":"2.0","id":7,"result":{"other":[' + b"[],[]," * 900_000 + b"[]]}}")


async def test_answers_over_http_are_made_small_on_their_way() -> None:
    from teamwright.host.mcp.http import _Events, _Whole

    message = b'{"jsonrpc":"2.0","id":7,"result":{"content":[' + b",".join([b"{}"] * 100_000) + b"]}}"

    async def pieces(data: bytes) -> AsyncIterator[bytes]:
        for start in range(0, len(data), 9_999):
            yield data[start : start + 9_999]

    whole = b"".join([piece async for piece in _Whole(pieces(message))])
    events = b": hi\nevent: message\ndata: " + message + b"\n\ndata: {}\n\n"
    streamed = b"".join([piece async for piece in _Events(pieces(events))])
    assert b"99,000 more parts" in whole and len(whole) < 50_000
    assert streamed == b": hi\nevent: message\ndata:" + whole + b"\n\ndata: {}\n\n"
    deep = b"data: " + b"[" * 100_000 + b"\n\n"
    assert b"unreadable" in b"".join([piece async for piece in _Events(pieces(deep))])
