"""The scripted model: which step answers a request, how it streams, and how script files are read and refused."""

from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.core.data.message import (
    BlockEnded,
    BlockStarted,
    Delta,
    Image,
    InputDelta,
    Message,
    Opaque,
    Reply,
    ReplyEnded,
    ReplyStarted,
    Request,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    user,
)
from teamwright.core.errors import ModelError
from teamwright.core.ids import CallId
from teamwright.core.ports import Model
from teamwright.models.scripted import Script, ScriptedModel, ScriptStep, call, thinking

HELLO = user("hello")


def said(text: str) -> Message:
    return Message("assistant", (Text(text),), "script/x")


def result(text: str, id: str = "c1") -> Message:
    return Message("user", (ToolResult(CallId(id), (Text(text),)),))


def ask(*messages: Message, previous: int = 0) -> Request:
    return Request("script/x", ("be kind",), (), messages or (HELLO,), previous)


async def play(model: Model, request: Request) -> Reply:
    return await model.reply(request, lambda _: None)


def answer(model: ScriptedModel, *messages: Message) -> str:
    """The text of one reply, for tests that are not about time."""
    return anyio.run(play, model, ask(*messages)).message.text


class Clock:
    """Records sleeps instead of waiting."""

    def __init__(self) -> None:
        self.naps: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        await anyio.lowlevel.checkpoint()


# --- which step


async def converse(model: ScriptedModel, prompt: str, turns: int) -> list[Message]:
    messages = [user(prompt)]
    for _ in range(turns):
        reply = await play(model, ask(*messages))
        messages.append(reply.message)
        results = tuple(ToolResult(c.id, (Text("ok"),)) for c in reply.message.calls)
        messages.append(Message("user", results) if results else user("go on"))
    return messages


async def test_a_list_is_played_step_by_step_and_then_it_is_done() -> None:
    model = ScriptedModel([call("Bash", command="ls"), "three files"])
    messages = await converse(model, "look", 4)
    replies = messages[1::2]
    assert replies[0].calls[0].name == "Bash"
    assert replies[0].calls[0].args == {"command": "ls"}
    assert [m.text for m in replies[1:]] == ["three files", "done", "done"]
    assert [m.model for m in replies] == ["script/x"] * 4
    assert [len(r.messages) for r in model.requests] == [1, 3, 5, 7]


async def test_agents_forks_and_resumed_sessions_play_at_once() -> None:
    model = ScriptedModel({"main": ["m0", "m1"], "child": ["c0", "c1"]})
    main = await converse(model, "SCRIPT:main", 1)
    fork = [*main, user("SCRIPT:child now")]
    again = ScriptedModel({"main": ["m0", "m1"], "child": ["c0", "c1"]})  # another process
    assert (await play(again, ask(*main))).message.text == "m1"
    assert (await play(again, ask(*fork))).message.text == "c0"
    assert (await play(model, ask(*main))).message.text == "m1"


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([user("anything")], "main 0"),
        ([user("anything"), said("x")], "main 1"),
        ([user("play SCRIPT:a.")], "a 0"),
        ([user("SCRIPT:a then SCRIPT:b")], "b 0"),
        ([user("SCRIPT:b"), said("x"), user("please fix the bug")], "fix 0"),
        ([user("fix the bug SCRIPT:a")], "a 0"),
        ([user("SCRIPT:a fix the bug")], "fix 0"),
        ([user("SCRIPT:a"), said("x"), result("SCRIPT:b fix the bug")], "a 1"),
        ([user("SCRIPT:a"), said("SCRIPT:b")], "a 1"),
        ([user("SCRIPT:a"), said("x"), user("SCRIPT:a"), said("x")], "a 1"),
        ([user("SCRIPT:v1.2-x, please")], "v 0"),
    ],
)
def test_the_last_mark_in_the_users_text_chooses(messages: list[Message], expected: str) -> None:
    model = ScriptedModel(
        {
            "main": ["main 0", "main 1"],
            "a": ["a 0", "a 1"],
            "b": ["b 0", "b 1"],
            "fix": {"when": "fix the bug", "steps": ["fix 0"]},
            "v1.2-x": Script((ScriptStep((Text("v 0"),)),)),
        }
    )
    assert answer(model, *messages) == expected


@given(st.lists(st.sampled_from(["a", "b", "reply", "result", "plain"]), max_size=12))
def test_the_step_is_the_number_of_replies_after_the_last_mark(plan: list[str]) -> None:
    made = {
        "a": user("SCRIPT:a"),
        "b": user("SCRIPT:b"),
        "reply": said("hm"),
        "result": result("SCRIPT:a SCRIPT:b"),
        "plain": user("go on"),
    }
    model = ScriptedModel({name: [f"{name}{n}" for n in range(12)] for name in ("main", "a", "b")})
    marks = [n for n, kind in enumerate(plan) if kind in ("a", "b")]
    script, after = (plan[marks[-1]], plan[marks[-1] :]) if marks else ("main", plan)
    expected = f"{script}{after.count('reply')}" if after.count("reply") < 12 else "done"
    assert answer(model, HELLO, *(made[kind] for kind in plan)) == expected


@pytest.mark.parametrize("prompt", ["no mark at all", "SCRIPT:typo"])
def test_a_mark_that_names_nothing_says_what_there_is(prompt: str) -> None:
    with pytest.raises(ModelError, match=r"`SCRIPT:one`, `SCRIPT:two`") as caught:
        answer(ScriptedModel({"one": [], "two": []}), user(prompt))
    assert caught.value.fault == "config"


async def test_a_function_decides_from_the_request() -> None:
    async def later(request: Request) -> Any:
        await anyio.lowlevel.checkpoint()
        return [thinking("hm"), call("Read", n="{{step}}")]

    assert (await play(ScriptedModel(lambda r: r.messages[-1].text.upper()), ask())).message.text == "HELLO"
    reply = await play(ScriptedModel(later), ask(HELLO, said("x"), HELLO))
    assert reply.message.blocks[0] == Thinking("hm", "scripted")
    assert reply.message.calls[0].args == {"n": "1"}


# --- what is filled in


@pytest.mark.parametrize(
    ("written", "filled"),
    [
        ("{{re:agentId: ([\\w@.-]+)}}", "a22"),
        ("to {{re:agentId: (\\w+)}} and {{step}}", "to a22 and 1"),
        ("{{re:\\d{2}}}", "22"),
        ("{{re:(nothing)?a22}}", ""),
        ("{{other}} {step} {{", "{{other}} {step} {{"),
        (["{{step}}", {"deep": "{{step}}"}, 3, None], ["1", {"deep": "1"}, 3, None]),
    ],
)
async def test_inputs_are_filled_from_the_conversation(written: Any, filled: Any) -> None:
    model = ScriptedModel(["one", call("SendMessage", to=written)])
    reply = await play(model, ask(user("agentId: a11"), said("one"), result("done\nagentId: a22 ...")))
    assert reply.message.calls[0].args == {"to": filled}


@pytest.mark.parametrize("pattern", ["{{re:never (said)}}", "{{re:(}}"])
async def test_a_pattern_that_gives_nothing_is_an_error_that_names_it(pattern: str) -> None:
    with pytest.raises(ModelError, match=r"never \(said\)|`\(`") as caught:
        await play(ScriptedModel([call("Bash", command=pattern)]), ask())
    assert caught.value.fault == "config"


async def test_ids_are_the_same_for_the_same_request_and_differ_between_requests() -> None:
    model = ScriptedModel(lambda _: [call("Read", file_path="a"), call("Read", file_path="a")])
    requests = [ask(HELLO), ask(user("other agent")), ask(HELLO, said("x"), HELLO), ask(HELLO, said("x"), user("fork"))]
    ids = [[c.id for c in (await play(model, r)).message.calls] for r in requests]
    assert len({id for pair in ids for id in pair}) == 8
    assert [c.id for c in (await play(model, requests[2])).message.calls] == ids[2]
    own = await play(ScriptedModel([ToolCall(CallId("mine"), "Read")]), ask())
    assert own.message.calls[0].id == "mine"


def test_a_call_may_have_any_parameter() -> None:
    assert call("Agent", name="x", tool="y", input=1).args == {"name": "x", "tool": "y", "input": 1}
    assert call("Grep", **{"-i": True}).args == {"-i": True}


# --- how it streams


async def stream(model: Model, request: Request) -> tuple[list[Delta], Reply]:
    deltas: list[Delta] = []
    return deltas, await model.reply(request, deltas.append)


async def test_it_streams_like_a_provider() -> None:
    model = ScriptedModel([[thinking("well now"), "All is\n\nwell. ", call("Bash", command="x" * 600)]])
    deltas, reply = await stream(model, ask())
    first, *middle, last = deltas
    assert isinstance(first, ReplyStarted)
    assert (first.id, first.model) == (reply.id, "script/x")
    assert first.usage.output == 0 < first.usage.input
    assert last == ReplyEnded("tool_use", reply.usage)
    bash = reply.message.calls[0]
    assert middle[0] == BlockStarted(0, "thinking")
    assert middle[1:3] == [ThinkingDelta(0, "well"), ThinkingDelta(0, " now")]
    assert middle[3:5] == [BlockEnded(0), BlockStarted(1, "text")]
    assert middle[5:9] == [TextDelta(1, word) for word in ("All", " is", "\n\nwell.", " ")]
    assert middle[9:11] == [BlockEnded(1), BlockStarted(2, "tool_use", bash.id, "Bash")]
    pieces = [d.json for d in middle[11:-1] if isinstance(d, InputDelta)]
    assert len(pieces) == len(middle[11:-1]) > 1
    assert msgspec.json.decode("".join(pieces)) == bash.args
    assert middle[-1] == BlockEnded(2)


@given(st.text())
def test_the_words_that_stream_are_the_text(text: str) -> None:
    deltas, reply = anyio.run(stream, ScriptedModel([{"text": text}]), ask())
    assert "".join(d.text for d in deltas if isinstance(d, TextDelta)) == text == reply.message.text


@pytest.mark.parametrize(
    ("step", "stop"),
    [
        ("x", "end_turn"),
        (call("Bash"), "tool_use"),
        ({"text": "x", "stop": "max_tokens"}, "max_tokens"),
        ({"blocks": ["x", {"tool": "Bash"}], "stop": "max_tokens"}, "max_tokens"),
        ({"blocks": [], "stop": "refusal"}, "refusal"),
        (ScriptStep((Text("x"),), stop="pause"), "pause"),
    ],
)
async def test_how_a_reply_ends(step: Any, stop: str) -> None:
    assert (await play(ScriptedModel([step]), ask())).stop == stop


async def test_delay_and_pace_go_through_the_given_sleep() -> None:
    clock = Clock()
    steps = [{"text": "ab cd", "delay": 2, "pace": 10}, "fast one", {"text": "now", "pace": 0}]
    model = ScriptedModel({"main": {"steps": steps, "pace": 100}}, pace=1, sleep=clock.sleep)
    assert (await play(model, ask())).seconds == pytest.approx(2.5)
    assert clock.naps == pytest.approx([2, 0.2, 0.3])
    assert (await play(model, ask(HELLO, said("1"), HELLO))).seconds == pytest.approx(0.08)
    assert (await play(model, ask(HELLO, said("1"), HELLO, said("2"), HELLO))).seconds == 0
    after_the_last = await play(model, ask(*[HELLO, said("x")] * 3, HELLO))
    assert after_the_last.seconds == pytest.approx(0.04)


async def test_a_reply_under_way_can_be_cancelled() -> None:
    model = ScriptedModel([{"text": "never", "delay": 3600}])
    with anyio.move_on_after(0.01) as scope:
        await play(model, ask())
    assert scope.cancelled_caught


async def test_a_step_can_fail_and_fails_again() -> None:
    error = ModelError("too many", "rate_limit", status=429)
    for model in (ScriptedModel([error]), ScriptedModel([{"error": {"fault": "rate_limit", "status": 429}}])):
        for _ in range(2):
            with pytest.raises(ModelError) as caught:
                await play(model, ask())
            assert (caught.value.fault, caught.value.status) == ("rate_limit", 429)
        assert len(model.requests) == 2
    with pytest.raises(KeyError):
        await play(ScriptedModel([KeyError("a bug")]), ask())


# --- what it costs


async def test_usage_is_counted_from_sizes_and_the_last_request_is_cached() -> None:
    model = ScriptedModel(["x" * 40, "y"])
    spec = ToolSpec("Read", "reads", {"type": "object"})
    first = Request("script/x", ("s" * 400,), (spec,), (user("p" * 400),))
    one = await play(model, first)
    tools = len("Read") + len("reads") + len(b'{"type":"object"}')
    assert one.usage == Usage(input=(800 + tools + 3) // 4, output=10)
    second = msgspec.structs.replace(first, messages=(*first.messages, one.message, user("q" * 80)), previous=1)
    two = await play(model, second)
    assert two.usage == Usage(input=(920 + tools + 3) // 4 - one.usage.input, output=1, cache_read=one.usage.input)


async def test_every_kind_of_block_is_counted() -> None:
    blocks = (
        Text("t" * 4),
        Thinking("t" * 4),
        Image("image/png", "eHl6"),
        ToolCall(CallId("c"), "Bash", msgspec.Raw(b'{"a":1}')),
        ToolResult(CallId("c"), (Text("r" * 8), Image("image/png", "eHl6"))),
        Opaque(msgspec.Raw(b'{"type":"x"}')),
    )
    bare = (await play(ScriptedModel(["x"]), Request("m", (), (), ()))).usage.input
    full = (await play(ScriptedModel([], pace=0), Request("m", (), (), (Message("user", blocks),)))).usage.input
    assert bare == 0
    assert full == (4 + 4 + 6000 + 11 + 8 + 6000 + 12 + 3) // 4
