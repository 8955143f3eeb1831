"""The vendors' own SDKs as oracles: they read what our fake server plays, and validate the requests that we write."""

import json
from typing import Any

import pytest
from streams import ANTHROPIC, ANTHROPIC_MESSAGE, ASKED, OPENAI, OPENAI_MESSAGE, SYSTEM, TOOLS, said

from fake_api import FakeApi, events, stream
from teamwright.core.data.message import Image, Message, Request, Text, ToolResult
from teamwright.models.http import HttpClient
from teamwright.models.retry import Reach
from teamwright.models.wires.anthropic import Anthropic
from teamwright.models.wires.openai import OpenAI

pydantic = pytest.importorskip("pydantic")
ONE, TWO = (call.id for call in ANTHROPIC_MESSAGE.calls)
SHOWN = ToolResult(ONE, (Text("out"), Image("image/png", "aGk=")))
RESULTS = Message("user", (SHOWN, ToolResult(TWO, (), is_error=True)))


def check(kind: Any, body: Any) -> None:
    """Validate strictly by the SDK's own request type: unknown fields fail."""
    pydantic.TypeAdapter(kind, config=None).validate_python(body)
    assert set(body) <= set(kind.__annotations__) | {
        k for base in kind.__orig_bases__ for k in getattr(base, "__annotations__", {})
    }


@pytest.mark.anyio
async def test_anthropic() -> None:
    anthropic = pytest.importorskip("anthropic")
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    request = Request(
        "anthropic/claude-x", SYSTEM, TOOLS, (*ASKED, ANTHROPIC_MESSAGE, RESULTS), previous=1, effort="high"
    )
    async with FakeApi([stream(ANTHROPIC, size=9), stream(events(said("hi")))]) as api:
        async with anthropic.AsyncAnthropic(base_url=api.url, api_key="k") as client:
            fields = {"model": "claude-x", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
            async with client.messages.stream(**fields) as events_of:
                message = await events_of.get_final_message()
        http = HttpClient({})
        await Anthropic(http, Reach(api.url), thinking="adaptive").reply(request, lambda _: None)
        await http.aclose()
    thinking, text, *calls = message.content
    assert (thinking.thinking, thinking.signature) == ("Hm, “f” first — then g.", "RXJz+/8=")
    assert text.text == ANTHROPIC_MESSAGE.text
    assert [(c.id, c.name, c.input) for c in calls] == [(c.id, c.name, c.args) for c in ANTHROPIC_MESSAGE.calls]
    assert message.stop_reason == "tool_use" and message.usage.output_tokens == 77
    check(MessageCreateParamsStreaming, api.asked[1].json)
    assert api.asked[0].path == api.asked[1].path


@pytest.mark.anyio
async def test_openai() -> None:
    openai = pytest.importorskip("openai")
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    request = Request("openai/m", SYSTEM, TOOLS, (*ASKED, OPENAI_MESSAGE, RESULTS), effort="max", max_output=5)
    async with FakeApi([stream(OPENAI, size=9)]) as api:
        async with openai.AsyncOpenAI(base_url=f"{api.url}/v1", api_key="k") as client:
            fields = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
            chunks = [c async for c in await client.chat.completions.create(**fields, stream=True)]
        http = HttpClient({})
        await OpenAI(http, Reach(f"{api.url}/v1")).reply(request, lambda _: None)
        await http.aclose()
    deltas = [c.choices[0].delta for c in chunks if c.choices]
    assert "".join(d.content or "" for d in deltas) == OPENAI_MESSAGE.text
    parts = [t for d in deltas for t in d.tool_calls or []]
    joined = {n: "".join(t.function.arguments or "" for t in parts if t.index == n) for n in (0, 1)}
    assert [json.loads(joined[n]) for n in (0, 1)] == [c.args for c in OPENAI_MESSAGE.calls]
    assert chunks[-1].usage.prompt_tokens_details.cached_tokens == 32
    check(CompletionCreateParamsStreaming, api.asked[1].json)
    assert api.asked[0].path == api.asked[1].path
