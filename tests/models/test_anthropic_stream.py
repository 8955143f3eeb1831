"""Messages API: how everything that a server may stream back is read."""

import json
from typing import Any

import msgspec
import pytest
from streams import (
    ANTHROPIC,
    ANTHROPIC_EVENTS,
    ANTHROPIC_MESSAGE,
    ANTHROPIC_USAGE,
    WORDS,
    begin,
    delta,
    end,
    said,
    start,
    stop,
)
from wires import CLAUDE as MODEL
from wires import ask_claude as ask
from wires import hear_claude as hear

from fake_api import CLOSE, CUT, HANG, FakeApi, Step, answer, events, stream
from teamwright.core.data.message import (
    BlockEnded,
    BlockStarted,
    Delta,
    InputDelta,
    Opaque,
    Raw,
    ReplyEnded,
    ReplyStarted,
    Retrying,
    Text,
    TextDelta,
    ThinkingDelta,
    ToolCall,
)
from teamwright.core.errors import ModelError
from teamwright.core.ids import CallId
from teamwright.models.faults import Failed
from teamwright.models.wires import draft


def blocks_of(*values: dict[str, Any]) -> tuple[Any, ...]:
    return hear(events([begin(), *values, *end()])).message.blocks


# --- streams


@pytest.mark.anyio
@pytest.mark.parametrize("size", [0, 1, 7, 100])
async def test_a_recorded_stream_in_chunks_of_every_size(size: int) -> None:
    async with FakeApi([stream(ANTHROPIC, size=size)]) as api:
        reply, deltas = await ask(api)
    assert reply.message == ANTHROPIC_MESSAGE
    assert (reply.stop, reply.usage, reply.id) == ("tool_use", ANTHROPIC_USAGE, "msg_1")
    assert reply.seconds > 0
    assert "".join(d.text for d in deltas if isinstance(d, TextDelta)) == WORDS.text


@pytest.mark.spec("A8")
def test_a_cut_at_every_byte_is_never_a_reply() -> None:
    for at in range(len(ANTHROPIC)):
        with pytest.raises(Failed) as caught:
            hear(ANTHROPIC[:at])
        assert caught.value.tries == "many"
    assert hear(ANTHROPIC).message == ANTHROPIC_MESSAGE


@pytest.mark.spec("A7", "A8")
@pytest.mark.anyio
@pytest.mark.parametrize("how", [CUT, CLOSE])
async def test_a_cut_connection_is_asked_again(how: str) -> None:
    places = range(0, len(ANTHROPIC), 61)
    plays: list[list[Step]] = [stream(ANTHROPIC[:at] or b"\n", end=how) for at in places]
    async with FakeApi([*plays, stream(ANTHROPIC)]) as api:
        reply, deltas = await ask(api, retries=len(plays))
    assert reply.message == ANTHROPIC_MESSAGE
    assert [d.fault for d in deltas if isinstance(d, Retrying)] == ["network"] * len(plays)
    assert sum(isinstance(d, ReplyEnded) for d in deltas) == 1


@pytest.mark.anyio
async def test_a_stream_that_ends_well_but_early_is_asked_again() -> None:
    async with FakeApi([stream(events(ANTHROPIC_EVENTS[:-1])), stream(ANTHROPIC)]) as api:
        reply, _ = await ask(api)
    assert len(api.asked) == 2
    assert reply.message == ANTHROPIC_MESSAGE


def test_deltas_come_in_the_order_of_the_stream() -> None:
    deltas: list[Delta] = []
    text = [start(0, type="text", text="a"), delta(0, "text_delta", text="b"), stop(0)]
    call = [start(1, type="tool_use", id="t", name="Read"), delta(1, "input_json_delta", partial_json="{}"), stop(1)]
    thought = [start(2, type="thinking"), delta(2, "thinking_delta", thinking="h"), stop(2)]
    hear(events([begin(input_tokens=1), *text, *call, *thought, *end("tool_use")]), deltas)
    started, *middle, ended = deltas
    assert isinstance(started, ReplyStarted) and (started.id, started.model, started.usage.input) == ("msg_1", MODEL, 1)
    assert isinstance(ended, ReplyEnded) and ended.stop == "tool_use"
    assert middle == [
        BlockStarted(0, "text"), TextDelta(0, "a"), TextDelta(0, "b"), BlockEnded(0),
        BlockStarted(1, "tool_use", "t", "Read"), InputDelta(1, "{}"), BlockEnded(1),
        BlockStarted(2, "thinking"), ThinkingDelta(2, "h"), BlockEnded(2),
    ]  # fmt: skip


def test_comments_unknown_events_and_other_line_ends_change_nothing() -> None:
    odd = events([{"type": "brand_new", "delta": "text", "index": "x"}, {"type": "ping"}, {}], named=False)
    noisy = (
        b": keep-alive\n\n" + odd + ANTHROPIC.replace(b"event: content_block_stop", odd + b"event: content_block_stop")
    )
    assert hear(noisy).message == ANTHROPIC_MESSAGE
    assert hear(noisy.replace(b"\n", b"\r\n")).message == ANTHROPIC_MESSAGE


def test_a_beginning_said_twice_is_one() -> None:
    deltas: list[Delta] = []
    assert hear(events([begin(), begin(), *said("hi")]), deltas).message.text == "hi"
    assert sum(isinstance(d, ReplyStarted) for d in deltas) == 1


@pytest.mark.parametrize(
    "values",
    [
        [start(0, type="text")],
        [*end()],
        [begin(), start(0, type="text"), begin()],
        [begin(), delta(0, "text_delta", text="x")],
        [begin(), stop(0)],
        [begin(), start(0, type="text"), start(0, type="text")],
        [begin(), start(0, type="text"), stop(0), delta(0, "text_delta", text="late")],
        [begin(), start(0, type="text"), delta(0, "input_json_delta", partial_json="{}")],
        [begin(), start(0, type="tool_use", id="t", name="n"), *end("tool_use")],
        [begin(), start(0)],
        [begin(), {"type": "content_block_start", "index": 0}],
        [begin(), {"type": "content_block_delta", "index": "zero", "delta": {}}],
        ["this is no json"],
        ["[]"],
        ["{" * 5000],
    ],
)
def test_a_stream_that_makes_no_sense_is_a_fault_that_may_heal(values: list[Any]) -> None:
    with pytest.raises(Failed) as caught:
        hear(events(values))
    assert (caught.value.fault, caught.value.tries) == ("server", "many")


def test_half_a_character_costs_the_character_not_the_reply() -> None:
    data = events([begin(), start(0, type="text", text="")])
    data += b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\\ud83d"}}\n\n'
    data += (
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\xff\\ud83d\\ude42"}}\n\n'
    )
    assert hear(data + events([stop(0), *end()])).message.text == "a?\ufffd🙂"


@pytest.mark.spec("A9")
@pytest.mark.parametrize("raw", ['{"command": "touch ran', "[1]", "nul", '{"a": 1} x', "{" * 10_000])
def test_malformed_arguments_are_a_call_that_says_so(raw: str) -> None:
    (call,) = blocks_of(
        start(0, type="tool_use", id="t", name="Bash"), delta(0, "input_json_delta", partial_json=raw), stop(0)
    )
    assert isinstance(call, ToolCall)
    assert call.fault and call.args == {}


def test_arguments_are_normalised_once() -> None:
    grown = delta(0, "input_json_delta", partial_json=' {"a" : [1.50, "é"]} ')
    (call,) = blocks_of(start(0, type="tool_use", id="t", name="Bash"), grown, stop(0))
    assert call == ToolCall(CallId("t"), "Bash", Raw('{"a":[1.5,"é"]}'.encode()))


def test_arguments_that_came_with_the_start() -> None:
    deltas: list[Delta] = []
    whole = start(0, type="tool_use", id="t", name="Bash", input={"command": "ls"})
    reply = hear(events([begin(), whole, stop(0), *end("tool_use")]), deltas)
    assert reply.message.calls[0].args == {"command": "ls"}
    assert InputDelta(0, '{"command": "ls"}') in deltas
    assert blocks_of(start(0, type="tool_use", id="t", name="Bash", input={}), stop(0))[0].fault == ""


def test_huge_arguments_and_duplicate_ids_arrive_as_they_are() -> None:
    big = json.dumps({"content": "x" * 3_000_000})
    calls = [
        v
        for n in range(2)
        for v in (
            start(n, type="tool_use", id="same", name="Write"),
            delta(n, "input_json_delta", partial_json=big),
            stop(n),
        )
    ]
    blocks = blocks_of(*calls)
    assert [b.id for b in blocks] == ["same", "same"]  # made unique when the reply arrives
    assert len(blocks[1].args["content"]) == 3_000_000


@pytest.mark.spec("A5")
def test_a_reply_is_bounded() -> None:
    megabyte = delta(0, "text_delta", text="x" * 1024 * 1024)
    with pytest.raises(Failed) as caught:
        hear(events([begin(), start(0, type="text"), *[megabyte] * 33, stop(0), *end()]))
    assert (caught.value.fault, caught.value.tries) == ("server", "no")
    with pytest.raises(Failed):
        hear(events([begin(), *(v for n in range(draft.MOST_BLOCKS + 1) for v in (start(n, type="text"), stop(n)))]))


def test_thinking_without_its_signature_is_not_kept() -> None:
    thinking = [start(0, type="thinking", thinking=""), delta(0, "thinking_delta", thinking="half"), stop(0)]
    words = [start(1, type="text", text="said"), stop(1)]
    assert blocks_of(*thinking, *words) == (Text("said"),)


def test_unknown_blocks_are_kept_verbatim() -> None:
    hidden = b'{"type":"redacted_thinking",  "data":"\\u00e9=="}'
    data = events([begin()]) + b'data: {"type":"content_block_start","index":0,"content_block":' + hidden + b"}\n\n"
    (block,) = hear(data + events([stop(0), *end()])).message.blocks
    assert block == Opaque(Raw(hidden))


def test_unknown_blocks_grow_by_known_deltas() -> None:
    (block,) = blocks_of(
        start(0, type="server_tool_use", id="s", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query":'),
        delta(0, "input_json_delta", partial_json='"x"}'),
        delta(0, "future_delta", other=1),
        stop(0),
    )
    want = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
    assert msgspec.json.decode(block.raw) == want


@pytest.mark.spec("A9")
@pytest.mark.parametrize(
    ("reason", "stopped"),
    [
        ("end_turn", "end_turn"), ("stop_sequence", "end_turn"), ("tool_use", "tool_use"), ("max_tokens", "max_tokens"),
        ("model_context_window_exceeded", "max_tokens"), ("refusal", "refusal"), ("pause_turn", "pause"),
        ("brand_new", "end_turn"), (None, "end_turn"),
    ],
)  # fmt: skip
def test_reasons_to_stop(reason: str | None, stopped: str) -> None:
    assert hear(events([begin(), *end(reason)])).stop == stopped
    call = [start(0, type="tool_use", id="t", name="n"), stop(0)]
    assert hear(events([begin(), *call, *end("brand_new")])).stop == "tool_use"


@pytest.mark.spec("A9")
@pytest.mark.parametrize(
    ("details", "why"),
    [
        ({"type": "refusal", "category": "cyber", "explanation": "Too odd."}, "Too odd."),
        (None, ""),
        ("odd", ""),
        ([], ""),
    ],
)
def test_a_refusal_is_explained_in_the_providers_words(details: Any, why: str) -> None:
    delta = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}}
    reply = hear(events([begin(), delta, {"type": "message_stop"}]))
    assert (reply.stop, reply.why) == ("refusal", why)


def test_later_figures_replace_earlier_ones() -> None:
    values = [begin(input_tokens=5, cache_read_input_tokens=7, output_tokens=1), *end(output_tokens=9, input_tokens=6)]
    usage = hear(events(values)).usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (6, 9, 7, 0)
    nothing = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": None}}
    assert hear(events([begin(output_tokens=2), nothing, {"type": "message_stop"}])).usage.output == 2


@pytest.mark.anyio
async def test_an_answer_that_is_not_streamed() -> None:
    content = [
        {"type": "thinking", "thinking": "Hm, “f” first — then g.", "signature": "RXJz+/8="},
        {"type": "text", "text": WORDS.text},
        {"type": "tool_use", "id": "toolu_a", "name": "Read", "input": {"file_path": "f"}},
        {"type": "tool_use", "id": "toolu_b", "name": "Bash", "input": {"command": "ls"}},
    ]
    usage = {"input_tokens": 12, "output_tokens": 77, "cache_read_input_tokens": 400, "cache_creation_input_tokens": 30}
    whole = begin()["message"] | {"content": content, "usage": usage, "stop_reason": "tool_use"}
    async with FakeApi([answer(200, whole)]) as api:
        reply, deltas = await ask(api)
    assert reply.message == ANTHROPIC_MESSAGE
    assert (reply.stop, reply.usage) == ("tool_use", ANTHROPIC_USAGE)
    assert InputDelta(3, '{"command": "ls"}') in deltas and isinstance(deltas[-1], ReplyEnded)


# --- faults


@pytest.mark.spec("A7", "A8")
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kind", "fault", "status"),
    [("overloaded_error", "overloaded", 529), ("rate_limit_error", "rate_limit", 429), ("api_error", "server", 500)],
)
async def test_an_error_in_mid_stream_is_asked_again(kind: str, fault: str, status: int) -> None:
    error = {"type": "error", "error": {"type": kind, "message": "not now"}}
    async with FakeApi([stream(events([*ANTHROPIC_EVENTS[:14], error])), stream(ANTHROPIC)]) as api:
        reply, deltas = await ask(api)
    (retrying,) = (d for d in deltas if isinstance(d, Retrying))
    assert (retrying.fault, retrying.status, retrying.attempt) == (fault, status, 1)
    assert "not now" in retrying.reason
    assert reply.message == ANTHROPIC_MESSAGE and len(reply.message.calls) == 2


@pytest.mark.spec("A7")
@pytest.mark.anyio
async def test_an_error_in_mid_stream_that_cannot_heal_ends_it() -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}}
    async with FakeApi([stream(events([begin(), error]))]) as api:
        with pytest.raises(ModelError) as caught:
            await ask(api)
        assert len(api.asked) == 1
    assert caught.value.fault == "context"


@pytest.mark.spec("A7")
@pytest.mark.anyio
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 308])
async def test_a_refusal_is_final(status: int) -> None:
    said = {"type": "error", "error": {"type": "some_error", "message": "because"}}
    async with FakeApi([answer(status, said, location="http://elsewhere.example/")]) as api:
        with pytest.raises(ModelError, match=r"because|elsewhere") as caught:
            await ask(api)
        assert len(api.asked) == 1
    assert caught.value.status == status and type(caught.value) is ModelError


@pytest.mark.spec("A7")
@pytest.mark.anyio
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
async def test_what_may_heal_is_asked_again(status: int) -> None:
    async with FakeApi([answer(status, b"<html>no</html>"), answer(status, {}), stream(events(said("hi")))]) as api:
        reply, deltas = await ask(api)
        assert len(api.asked) == 3 and api.asked[0].body == api.asked[2].body
    assert reply.message.text == "hi"
    assert [d.status for d in deltas if isinstance(d, Retrying)] == [status, status]


@pytest.mark.spec("A7")
@pytest.mark.anyio
async def test_retries_are_used_up() -> None:
    async with FakeApi([answer(500, {})]) as api:
        with pytest.raises(ModelError, match="Gave up after 3 attempts") as caught:
            await ask(api, retries=2)
        assert len(api.asked) == 3
    assert (caught.value.fault, caught.value.status) == ("server", 500)


@pytest.mark.spec("B9")
@pytest.mark.anyio
@pytest.mark.parametrize("begun", [[], stream(events(ANTHROPIC_EVENTS[:5]), end=HANG)[:-1]])
async def test_silence_is_cut_and_asked_again(begun: list[Step]) -> None:
    async with FakeApi([[*begun, HANG], stream(ANTHROPIC)]) as api:
        reply, deltas = await ask(api, silence=0.2)
    assert reply.message == ANTHROPIC_MESSAGE
    (retrying,) = (d for d in deltas if isinstance(d, Retrying))
    assert retrying.fault == "silence" and "0.2 seconds" in retrying.reason
