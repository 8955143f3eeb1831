"""Chat completions: what is sent."""

import json
from typing import Any

import pytest
from streams import (
    ASKED,
    SYSTEM,
    TOOLS,
    call,
    chat,
    chunk,
)
from wires import CHAT as MODEL
from wires import ask_chat as ask
from wires import hear_chat as hear

from fake_api import FakeApi, stream
from teamwright.core.data.message import (
    Image,
    Message,
    Opaque,
    Raw,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    user,
)
from teamwright.core.ids import CallId
from teamwright.models.wires.openai import OpenAIWire


def calls_of(*deltas: list[dict[str, Any]]) -> tuple[ToolCall, ...]:
    return hear(chat(*(chunk({"tool_calls": d}) for d in deltas), chunk({}, "tool_calls"))).message.calls


@pytest.mark.anyio
async def test_the_request() -> None:
    async with FakeApi([stream(chat(chunk({}, "stop")))]) as api:
        await ask(api)
        await ask(
            api, Request(MODEL, (), (), ASKED, effort="max", max_output=99), headers={"Authorization": "Bearer k"}
        )
    first, second = api.asked
    assert (first.method, first.path) == ("POST", "/v1/chat/completions")
    assert "authorization" not in first.headers and second.headers["authorization"] == "Bearer k"
    assert first.json == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.schema}}
            for t in TOOLS
        ],
        "messages": [{"role": "system", "content": "\n\n".join(SYSTEM)}, {"role": "user", "content": "look at f"}],
    }
    assert (second.json["reasoning_effort"], second.json["max_tokens"]) == ("high", 99)
    assert "tools" not in second.json and len(second.json["messages"]) == 1


@pytest.mark.spec("A1")
@pytest.mark.anyio
async def test_messages_of_every_kind() -> None:
    image = Image("image/png", "aGk=")
    calls = (ToolCall(CallId("t"), "Bash", Raw(b'{"b":1,"a":2}')), ToolCall(CallId("u"), "Read"))
    results = (
        ToolResult(CallId("t"), (Text("out"), Text("more")), is_error=True),
        ToolResult(CallId("u"), (image,)),
    )
    messages = (
        Message("user", (Text("see"), image)),
        Message("assistant", (Thinking("h", "s"), Text("words"), *calls), MODEL),
        Message("user", (*results, Text("note"))),
        Message("assistant", (Thinking("h"), Opaque(Raw(b"{}"))), MODEL),
        Message("user", (ToolResult(CallId("t"), ()),)),
        Message("assistant", (*calls,), MODEL),
    )
    async with FakeApi([stream(chat(chunk({}, "stop")))]) as api:
        await ask(api, Request(MODEL, (), (), messages))
    shown = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    functions = [
        {"id": "t", "type": "function", "function": {"name": "Bash", "arguments": '{"b":1,"a":2}'}},
        {"id": "u", "type": "function", "function": {"name": "Read", "arguments": "{}"}},
    ]
    assert api.asked[0].json["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "see"}, shown]},
        {"role": "assistant", "content": "words", "tool_calls": functions},
        {"role": "tool", "tool_call_id": "t", "content": "out\nmore"},
        {"role": "tool", "tool_call_id": "u", "content": "(images follow)"},
        {"role": "user", "content": [shown, {"type": "text", "text": "note"}]},
        {"role": "assistant", "content": "(thinking left out)"},
        {"role": "tool", "tool_call_id": "t", "content": "(no output)"},
        {"role": "assistant", "content": None, "tool_calls": functions},
    ]


def test_every_argument_is_sent_back_as_valid_json() -> None:
    (broken,) = calls_of([call(0, "{oops", "x", "Bash")])
    assert json.loads(bytes(broken.input)) == {}


@pytest.mark.spec("A14")
def test_a_call_through_another_tool_is_sent_as_the_call_of_that_one() -> None:
    call = ToolCall(CallId("c"), "mcp__a__b", Raw(b'{"x":1}'), via="CallTool")
    answered = Message("user", (ToolResult(CallId("c"), (Text("ok"),)),))
    asked = Request("openai/m", (), (), (user("go"), Message("assistant", (call,)), answered))
    sent = json.loads(b"".join(bytes(piece) for piece in OpenAIWire().body(asked, {"model": "m"})))
    (made,) = sent["messages"][1]["tool_calls"]
    assert made["function"] == {"name": "CallTool", "arguments": '{"name":"mcp__a__b","arguments":{"x":1}}'}
