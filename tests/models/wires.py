"""How the tests use the two wires: over real HTTP, or event by event."""

from typing import Any

from streams import ASKED, SYSTEM, TOOLS

from fake_api import FakeApi
from teamwright.core.data.message import Delta, Reply, Request
from teamwright.models.faults import Endpoint
from teamwright.models.http import HttpClient
from teamwright.models.retry import Patience, Reach
from teamwright.models.wires import anthropic, openai
from teamwright.models.wires.sse import EventReader

CLAUDE, CHAT = "anthropic/claude-x", "openai/m"
TO_CLAUDE, TO_CHAT = (Request(model, SYSTEM, TOOLS, ASKED) for model in (CLAUDE, CHAT))


async def at_once(_seconds: float) -> None:
    """A pause for tests that do not wait."""


async def ask_claude(
    api: FakeApi,
    request: Request = TO_CLAUDE,
    *,
    retries: int = 3,
    silence: float = 5,
    max_output: int | None = None,
    **more: Any,
) -> tuple[Reply, list[Delta]]:
    http, deltas = HttpClient({}, silence=silence), list[Delta]()
    names = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")
    reach = Reach(api.url, {"x-api-key": "k"}, *names, max_output, Patience(retries, at_once))
    model = anthropic.Anthropic(http, reach, **more)
    try:
        return await model.reply(request, deltas.append), deltas
    finally:
        await http.aclose()


async def ask_chat(
    api: FakeApi,
    request: Request = TO_CHAT,
    *,
    retries: int = 3,
    silence: float = 5,
    max_output: int | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[Reply, list[Delta]]:
    http, deltas = HttpClient({}, silence=silence), list[Delta]()
    names = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
    model = openai.OpenAI(http, Reach(f"{api.url}/v1", headers or {}, *names, max_output, Patience(retries, at_once)))
    try:
        return await model.reply(request, deltas.append), deltas
    finally:
        await http.aclose()


def hear_claude(data: bytes, deltas: list[Delta] | None = None) -> Reply:
    place = Endpoint("api.example", "claude-x", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")
    return _hear(anthropic.AnthropicStream(CLAUDE, place, [].append if deltas is None else deltas.append), data)


def hear_chat(data: bytes, deltas: list[Delta] | None = None) -> Reply:
    place = Endpoint("api.example", "m", "OPENAI_API_KEY", "OPENAI_BASE_URL", wire="openai")
    return _hear(openai.OpenAIStream(CHAT, place, [].append if deltas is None else deltas.append), data)


def _hear(listener: anthropic.AnthropicStream | openai.OpenAIStream, data: bytes) -> Reply:
    for event, value in EventReader().feed(data):
        if not listener.finished:
            listener.hear(event, value)
    return listener.reply(0.0)
