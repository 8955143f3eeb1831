"""Chat completions: how everything that a server may stream back is read."""

from typing import Any

import pytest
from streams import (
    CALLS,
    OPENAI,
    OPENAI_EVENTS,
    OPENAI_MESSAGE,
    OPENAI_USAGE,
    WORDS,
    call,
    chat,
    chunk,
)
from wires import ask_chat as ask
from wires import hear_chat as hear

from fake_api import CLOSE, CUT, HANG, FakeApi, Step, answer, stream
from teamwright.core.data.message import (
    BlockEnded,
    BlockStarted,
    Delta,
    InputDelta,
    ReplyEnded,
    Retrying,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    Usage,
)
from teamwright.core.errors import ModelError
from teamwright.models.faults import Failed


def calls_of(*deltas: list[dict[str, Any]]) -> tuple[ToolCall, ...]:
    return hear(chat(*(chunk({"tool_calls": d}) for d in deltas), chunk({}, "tool_calls"))).message.calls


# --- streams


@pytest.mark.anyio
@pytest.mark.parametrize("size", [0, 1, 7, 100])
async def test_a_recorded_stream_in_chunks_of_every_size(size: int) -> None:
    async with FakeApi([stream(OPENAI, size=size)]) as api:
        reply, deltas = await ask(api)
    assert reply.message == OPENAI_MESSAGE
    assert (reply.stop, reply.usage, reply.id) == ("tool_use", OPENAI_USAGE, "c1")
    assert "".join(d.text for d in deltas if isinstance(d, TextDelta)) == WORDS.text


@pytest.mark.spec("A8")
def test_a_cut_at_every_byte_is_a_reply_only_when_all_was_said() -> None:
    finish = OPENAI.index(b"\n\n", OPENAI.index(b'"finish_reason": "tool_calls"')) + 2
    for at in range(finish):
        with pytest.raises(Failed) as caught:
            hear(OPENAI[:at])
        assert caught.value.tries == "many"
    for at in range(finish, len(OPENAI)):
        assert hear(OPENAI[:at]).message == OPENAI_MESSAGE


@pytest.mark.spec("A7", "A8")
@pytest.mark.anyio
@pytest.mark.parametrize("how", [CUT, CLOSE])
async def test_a_cut_connection_is_asked_again(how: str) -> None:
    end = OPENAI.index(b"data: [DONE]")
    plays: list[list[Step]] = [stream(OPENAI[:at] or b"\n", end=how) for at in [*range(0, end, 61), end]]
    async with FakeApi([*plays, stream(OPENAI)]) as api:
        reply, deltas = await ask(api, retries=len(plays))
    assert reply.message == OPENAI_MESSAGE
    assert [d.fault for d in deltas if isinstance(d, Retrying)] == ["network"] * len(plays)
    assert sum(isinstance(d, ReplyEnded) for d in deltas) == 1


def test_deltas_and_blocks_in_order() -> None:
    deltas: list[Delta] = []
    hear(OPENAI, deltas)
    assert deltas[1:-1] == [
        BlockStarted(0, "thinking"), ThinkingDelta(0, "Hm, "), ThinkingDelta(0, "f."), BlockEnded(0),
        BlockStarted(1, "text"), TextDelta(1, "I look "), TextDelta(1, "at it 🙂\n"), BlockEnded(1),
        BlockStarted(2, "tool_use", "toolu_a", "Read"), InputDelta(2, '{"file_'), InputDelta(2, 'path" : "f"}'),
        BlockEnded(2),
        BlockStarted(3, "tool_use", "toolu_b", "Bash"), InputDelta(3, '{"command": "ls"}'), BlockEnded(3),
    ]  # fmt: skip
    assert deltas[-1] == ReplyEnded("tool_use", OPENAI_USAGE)


def test_line_ends_comments_and_unknown_fields_change_nothing() -> None:
    noisy = b": OPENROUTER PROCESSING\n\n" + chat(*({**e, "brand_new": [1]} for e in OPENAI_EVENTS), line="\r\n")
    assert hear(noisy).message == OPENAI_MESSAGE


@pytest.mark.parametrize(
    "data", [b"data: nonsense\n\n", b"data: []\n\n", b'data: {"choices": 5}\n\n', b"data: " + b"[" * 5000 + b"\n\n"]
)
def test_a_stream_that_makes_no_sense_is_a_fault_that_may_heal(data: bytes) -> None:
    with pytest.raises(Failed) as caught:
        hear(data + OPENAI)
    assert (caught.value.fault, caught.value.tries) == ("server", "many")


def test_interleaved_calls_by_their_numbers() -> None:
    one, two = calls_of(
        [call(0, '{"a":', "x", "Read"), call(1, '{"b":', "y", "Bash")],
        [call(1, "2}")],
        [call(0, "1}")],
    )
    assert (one.id, one.args, two.id, two.args) == ("x", {"a": 1}, "y", {"b": 2})


def test_servers_that_number_every_call_zero() -> None:
    calls = calls_of([call(0, '{"a":1}', "x", "Read")], [call(0, '{"b":2}', "y", "Bash")])
    assert [(c.id, c.name, c.args) for c in calls] == [("x", "Read", {"a": 1}), ("y", "Bash", {"b": 2})]


def test_servers_without_numbers() -> None:
    calls = calls_of([call(None, '{"a":', "x", "Read")], [call(None, "1}")], [call(None, "{}", "y", "Bash")])
    assert [(c.id, c.args) for c in calls] == [("x", {"a": 1}), ("y", {})]


def test_servers_without_ids() -> None:
    calls = calls_of([call(0, '{"a":', name="Read"), call(1, "{}", name="Bash")], [call(0, "1}")])
    assert [(c.name, c.args) for c in calls] == [("Read", {"a": 1}), ("Bash", {})]
    assert calls[0].id and calls[0].id != calls[1].id
    bare = calls_of([call(None, "{}", name="Read"), call(None, "{}", name="Bash")])
    assert [c.name for c in bare] == ["Read", "Bash"]


def test_servers_that_repeat_id_and_name() -> None:
    (only,) = calls_of([call(0, '{"a":', "x", "Read")], [call(0, "1}", "x", "Read")])
    assert (only.name, only.args) == ("Read", {"a": 1})


def test_arguments_as_an_object() -> None:
    (only,) = calls_of([call(0, {"a": [1]}, "x", "Read")])
    assert only.args == {"a": [1]} and only.fault == ""


@pytest.mark.spec("A9")
def test_malformed_and_missing_arguments() -> None:
    one, two = calls_of([call(0, '{"command": "touch', "x", "Bash")], [call(1, None, "y", "Bash")])
    assert one.fault and one.args == {}
    assert not two.fault and two.args == {}


def test_other_choices_are_left_out() -> None:
    two = chunk({"content": "yes"}) | {
        "choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}]
    }
    assert hear(chat(two, chunk({}, "stop"))).message.text == "yes"


def test_reasoning_under_its_other_name_and_text_in_parts() -> None:
    parts = chunk({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, "odd"]})
    reply = hear(chat(chunk({"reasoning": "r", "content": None}), parts, chunk({}, "stop")))
    assert reply.message.blocks == (Thinking("r"), Text("ab"))


@pytest.mark.spec("A9")
@pytest.mark.parametrize(
    ("reason", "plain", "with_call"),
    [
        ("stop", "end_turn", "tool_use"), ("tool_calls", "end_turn", "tool_use"),
        ("length", "max_tokens", "max_tokens"),
        ("content_filter", "refusal", "refusal"), ("function_call", "end_turn", "tool_use"),
        ("odd", "end_turn", "tool_use"),
    ],
)  # fmt: skip
def test_reasons_to_stop(reason: str, plain: str, with_call: str) -> None:
    assert hear(chat(chunk({"content": "x"}), chunk({}, reason))).stop == plain
    assert hear(chat(chunk({"tool_calls": [call(0, "{}", "x", "n")]}), chunk({}, reason))).stop == with_call


def test_words_of_refusal() -> None:
    reply = hear(chat(chunk({"refusal": "I can"}), chunk({"refusal": "not."}), chunk({}, "stop")))
    assert (reply.message.text, reply.stop, reply.why) == ("I cannot.", "refusal", "I cannot.")


def test_usage_may_be_missing_odd_or_repeated() -> None:
    odd = chunk({}, "stop", usage={"prompt_tokens": 5, "completion_tokens": None, "prompt_tokens_details": None})
    assert hear(chat(odd)).usage == Usage(5)
    many = [chunk({"content": "x"}, usage={"prompt_tokens": 5, "completion_tokens": n}) for n in (1, 2)]
    assert hear(chat(*many, chunk({}, "stop"))).usage == Usage(5, 2)
    more = chunk(
        {}, "stop", usage={"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 9}}
    )
    assert hear(chat(more)).usage == Usage(0, 1, 9)


@pytest.mark.anyio
@pytest.mark.spec("O5")
@pytest.mark.parametrize("usage", [None, {"prompt_tokens": None, "completion_tokens": 0}])
async def test_a_server_that_does_not_count_is_counted_for(usage: Any) -> None:
    async with FakeApi([stream(chat(chunk({"content": "x" * 40}), chunk({}, "stop", usage=usage)))]) as api:
        reply, _ = await ask(api)
        (sent,) = api.asked
    assert reply.usage == Usage(len(sent.body) // 4, 10)


@pytest.mark.anyio
async def test_an_end_without_the_closing_word_is_fine() -> None:
    async with FakeApi([stream(chat(*OPENAI_EVENTS, done=False))]) as api:
        reply, _ = await ask(api)
    assert (reply.message, reply.usage) == (OPENAI_MESSAGE, OPENAI_USAGE)


@pytest.mark.anyio
async def test_a_closing_word_without_a_reason_is_a_cut() -> None:
    async with FakeApi([stream(chat(chunk({"content": "half"}))), stream(OPENAI)]) as api:
        reply, _ = await ask(api)
        assert len(api.asked) == 2
    assert reply.message == OPENAI_MESSAGE


@pytest.mark.anyio
async def test_an_answer_that_is_not_streamed() -> None:
    calls = [
        {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": bytes(c.input).decode()}}
        for c in CALLS
    ]
    message = {"role": "assistant", "content": WORDS.text, "reasoning_content": "Hm, f.", "tool_calls": calls}
    choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
    usage = {"prompt_tokens": 50, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 32}}
    async with FakeApi([answer(200, {"id": "c1", "choices": choices, "usage": usage})]) as api:
        reply, _ = await ask(api)
    assert (reply.message, reply.usage, reply.stop) == (OPENAI_MESSAGE, OPENAI_USAGE, "tool_use")


# --- faults


@pytest.mark.spec("A7")
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("error", "fault"),
    [
        ({"error": {"message": "busy", "type": "server_error"}}, "server"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, "overloaded"),
        ({"error": {"message": "busy", "code": 429}}, "rate_limit"),
        ({"error": "busy"}, "server"),
        (chunk({}, "error"), "server"),
    ],
)
async def test_an_error_in_mid_stream_is_asked_again(error: dict[str, Any], fault: str) -> None:
    async with FakeApi([stream(chat(*OPENAI_EVENTS[:7], error)), stream(OPENAI)]) as api:
        reply, deltas = await ask(api)
    assert [d.fault for d in deltas if isinstance(d, Retrying)] == [fault]
    assert reply.message == OPENAI_MESSAGE


@pytest.mark.spec("A7")
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("play", "fault", "word"),
    [
        (answer(401, {"error": {"message": "no"}}), "auth", "OPENAI_API_KEY"),
        (answer(404, {"error": {"message": "no such model"}}), "not_found", "no such model"),
        (answer(413, b""), "too_large", "413"),
        (answer(400, {"error": {"code": "context_length_exceeded", "message": "x"}}), "context", "window"),
        (
            stream(chat({"error": {"type": "invalid_request_error", "message": "bad schema"}})),
            "bad_request",
            "bad schema",
        ),
        (answer(200, b"<html>log in</html>", content_type="text/html"), "not_found", "OPENAI_BASE_URL"),
    ],
)
async def test_what_cannot_heal_ends_at_once(play: list[Step], fault: str, word: str) -> None:
    async with FakeApi([play]) as api:
        with pytest.raises(ModelError, match=word) as caught:
            await ask(api)
        assert len(api.asked) == 1
    assert caught.value.fault == fault


@pytest.mark.spec("B9")
@pytest.mark.anyio
async def test_silence_is_cut_and_asked_again() -> None:
    async with FakeApi([[*stream(chat(*OPENAI_EVENTS[:3], done=False))[:-1], HANG], stream(OPENAI)]) as api:
        reply, deltas = await ask(api, silence=0.2)
    assert reply.message == OPENAI_MESSAGE
    assert [d.fault for d in deltas if isinstance(d, Retrying)] == ["silence"]
