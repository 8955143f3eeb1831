"""Messages API: what is sent."""

from typing import Any

import pytest
from streams import (
    ANTHROPIC,
    ASKED,
    CALLS,
    SYSTEM,
    TOOLS,
    said,
)
from wires import CLAUDE as MODEL
from wires import ask_claude as ask

from fake_api import FakeApi, events, stream
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
from teamwright.core.policies.normalize import fit_id
from teamwright.models.wires.anthropic import ThinkingStyle


@pytest.mark.anyio
async def test_how_its_thinking_is_given_is_asked_for() -> None:
    async with FakeApi([stream(events(said("hi")))]) as api:
        await ask(api, thinking="adaptive", thinking_display="omitted")
    assert api.asked[0].json["thinking"] == {"type": "adaptive", "display": "omitted"}


@pytest.mark.anyio
async def test_the_request() -> None:
    async with FakeApi([stream(events(said("hi")))]) as api:
        await ask(api, betas=("b1",))
        await ask(api, Request(f"{MODEL}[1m]", (), (), ASKED, max_output=99), betas=("b1",))
    first, second = api.asked
    assert (first.method, first.path) == ("POST", "/v1/messages")
    want = {
        "x-api-key": "k",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "b1",
        "content-type": "application/json",
    }
    assert want.items() <= first.headers.items()
    assert first.headers["user-agent"] == "teamwright" and int(first.headers["content-length"]) == len(first.body)
    mark = {"cache_control": {"type": "ephemeral"}}
    tools = [{"name": t.name, "description": t.description, "input_schema": t.schema} for t in TOOLS]
    assert first.json == {
        "model": "claude-x",
        "max_tokens": 32_000,
        "stream": True,
        "tools": [*tools[:-1], tools[-1] | mark],
        "system": [{"type": "text", "text": SYSTEM[0], **mark}, {"type": "text", "text": SYSTEM[1]}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "look at f", **mark}]}],
    }
    assert list(first.json) == ["model", "max_tokens", "stream", "tools", "system", "messages"]
    assert (second.json["model"], second.json["max_tokens"]) == ("claude-x", 99)
    assert second.headers["anthropic-beta"] == "b1,context-1m-2025-08-07"
    assert list(second.json) == ["model", "max_tokens", "stream", "messages"]


async def sent(request: Request, **more: Any) -> Any:
    async with FakeApi([stream(events(said("hi")))]) as api:
        await ask(api, request, **more)
        return api.asked[0].json


@pytest.mark.spec("P4")
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("thinking", "effort", "want"),
    [
        ("adaptive", None, {"thinking": {"type": "adaptive"}}),
        ("adaptive", "high", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        ("adaptive", 5000, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"}}),
        ("budget", None, {}),
        ("budget", 5000, {"thinking": {"type": "enabled", "budget_tokens": 5000}}),
        ("budget", 10, {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        ("budget", 10**6, {"thinking": {"type": "enabled", "budget_tokens": 7999}}),
        ("budget", "low", {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        ("none", "max", {"output_config": {"effort": "max"}}),
        ("none", 5000, {}),
    ],
)
async def test_effort_and_thinking(thinking: ThinkingStyle, effort: Any, want: dict[str, Any]) -> None:
    body = await sent(Request(MODEL, (), (), ASKED, effort=effort), thinking=thinking, max_output=8000)
    assert {k: v for k, v in body.items() if k in ("thinking", "output_config")} == want


@pytest.mark.anyio
async def test_a_turn_that_began_without_thinking_goes_on_without() -> None:
    calls = Message("assistant", CALLS[:1], "openai/m")
    results = Message("user", (ToolResult(CALLS[0].id, (Text("x"),)),))
    body = await sent(Request(MODEL, (), (), (*ASKED, calls, results), effort=5000), thinking="budget")
    assert "thinking" not in body
    own = Message("assistant", (Thinking("h", "s"), *CALLS[:1]), MODEL)
    body = await sent(Request(MODEL, (), (), (*ASKED, own, results), effort=5000), thinking="budget")
    assert "thinking" in body
    body = await sent(Request(MODEL, (), (), (*ASKED, calls, results, user("next")), effort=5000), thinking="budget")
    assert "thinking" in body


@pytest.mark.anyio
async def test_thinking_goes_back_byte_for_byte_and_only_to_its_model() -> None:
    hidden = Opaque(Raw(b'{"type":"redacted_thinking", "data":"\\u00e9"}'))
    odd = Thinking('a\u2028b \U0001f642 "q" \\ \x7f\n', "sig+/=")
    spoken = Message("assistant", (odd, hidden, Text("words")), MODEL)
    only = Message("assistant", (odd,), MODEL)
    request = Request(MODEL, (), (), (*ASKED, spoken, user("x"), only, user("y")))
    async with FakeApi([stream(events(said("hi")))]) as api:
        await ask(api, request)
        await ask(api, Request("anthropic/other", (), (), request.messages))
    own, other = api.asked
    assert bytes(hidden.raw) in own.body
    block = {"type": "thinking", "thinking": odd.thinking, "signature": "sig+/="}
    assert own.json["messages"][1]["content"][0] == block
    assert own.json["messages"][3]["content"] == [block]
    assert other.json["messages"][1]["content"] == [{"type": "text", "text": "words"}]
    assert other.json["messages"][3]["content"] == [{"type": "text", "text": "(thinking left out)"}]


@pytest.mark.anyio
async def test_blocks_of_every_kind() -> None:
    image, call = Image("image/png", "aGk="), ToolCall(CallId("t"), "Bash", Raw(b'{"b":1,"a":2}'), fault="was broken")
    results = (
        ToolResult(CallId("t"), (Text("out"), image, Text(" "))),
        ToolResult(CallId("u"), (), is_error=True),
    )
    messages = (
        Message("user", (image, Text(""), Text("see"))),
        Message("assistant", (call,), "openai/m"),
        Message("user", results),
    )
    async with FakeApi([stream(events(said("hi")))]) as api:
        await ask(api, Request(MODEL, (), (), messages))
    (asked,) = api.asked
    shown = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    one, two, three = (m["content"] for m in asked.json["messages"])
    t = fit_id("t")  # another model made the call
    assert one == [shown, {"type": "text", "text": "see"}]
    assert two == [{"type": "tool_use", "id": t, "name": "Bash", "input": {"b": 1, "a": 2}}]
    assert b'"input":{"b":1,"a":2}' in asked.body
    assert three[0] == {"type": "tool_result", "tool_use_id": t, "content": [{"type": "text", "text": "out"}, shown]}
    assert three[1]["content"] == [{"type": "text", "text": "(no output)"}] and three[1]["is_error"] is True


@pytest.mark.spec("A11")
@pytest.mark.anyio
async def test_what_came_back_goes_out_again_and_extends_the_prefix() -> None:
    async with FakeApi([stream(ANTHROPIC)]) as api:
        reply, _ = await ask(api)
        results = Message("user", tuple(ToolResult(c.id, (Text("ok"),)) for c in reply.message.calls))
        await ask(api, Request(MODEL, SYSTEM, TOOLS, (*ASKED, reply.message, results), previous=1))
    first, second = (a.json for a in api.asked)
    sent_back = second["messages"][1]["content"]
    assert sent_back[0] == {"type": "thinking", "thinking": "Hm, “f” first — then g.", "signature": "RXJz+/8="}
    assert second["messages"][0] == first["messages"][0]  # with its marker, as the previous request ended there
    assert first["system"] == second["system"] and first["tools"] == second["tools"]
