"""Providers' own search tools over real HTTP: what is sent, and how the answer is read."""

from typing import Any

import pytest

from fake_api import FakeApi, Step, answer, events, stream
from teamwright.core.data.extensions.search import MOST_ANSWER, WebFound, WebQuery
from teamwright.core.data.message import Reply, Request, user
from teamwright.core.errors import ModelError
from teamwright.models.providers import Providers, ProviderSettings

KEY = "sk-search-key-4711"
CITED = {"type": "web_search_result_location", "url": "https://b.org", "title": "B", "cited_text": "words of B"}
CLAUDE: dict[str, Any] = {
    "type": "message",
    "content": [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s1",
            "content": [
                {"type": "web_search_result", "url": "https://a.org", "title": "A", "encrypted_content": "zzz"},
                {"type": "web_search_result", "url": "https://b.org", "title": "B", "encrypted_content": "zzz"},
            ],
        },
        {"type": "text", "text": "It is "},
        {"type": "text", "text": "so.", "citations": [CITED]},
    ],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 100, "output_tokens": 20, "server_tool_use": {"web_search_requests": 1}},
}
GPT: dict[str, Any] = {
    "object": "response",
    "status": "completed",
    "output": [
        {"type": "reasoning", "summary": []},
        {
            "type": "web_search_call",
            "status": "completed",
            "action": {
                "type": "search",
                "sources": [{"type": "url", "url": u} for u in ("https://a.org", "https://b.org")],
            },
        },
        {
            "type": "message",
            "content": [
                {
                    "type": "output_text",
                    "text": "It is so.",
                    "annotations": [{"type": "url_citation", "url": "https://b.org", "title": "B", "start_index": 0}],
                }
            ],
        },
    ],
    "usage": {"input_tokens": 100, "output_tokens": 20, "input_tokens_details": {"cached_tokens": 60}},
}


async def search(api: FakeApi, model: str, query: WebQuery, retries: int = 0) -> tuple[WebFound, Reply]:
    env = {
        "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": api.url, "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": f"{api.url}/v1", "GATE": KEY,
    }  # fmt: skip
    named = {"gate": ProviderSettings(api.url, "GATE", "anthropic")}
    providers = Providers(env, silence=5, retries=retries, named=named)
    try:
        searcher = providers.searcher(model.partition("/")[0], query)
        reply = await searcher.reply(Request(model, (), (), (user(query.text),)), lambda _: None)
        return searcher.found, reply
    finally:
        await providers.aclose()


@pytest.mark.spec("A13")
@pytest.mark.parametrize("provider", ["anthropic", "gate"])
async def test_claude_searches_with_its_own_tool(provider: str) -> None:
    async with FakeApi([answer(200, CLAUDE)]) as api:
        found, reply = await search(api, f"{provider}/claude-x", WebQuery("what is so", blocked=("c.org",)))
    assert [(h.title, h.url, h.text) for h in found.hits] == [
        ("A", "https://a.org", ""),
        ("B", "https://b.org", "words of B"),
    ]
    assert found.answer == reply.message.text == "It is so." and reply.usage.input == 100 and reply.usage.output == 20
    sent = api.asked[0]
    assert sent.path == "/v1/messages" and sent.headers["x-api-key"] == KEY and sent.headers["anthropic-version"]
    (tool,) = sent.json["tools"]
    assert tool["type"] == "web_search_20250305" and tool["max_uses"] == 3 and tool["blocked_domains"] == ["c.org"]
    assert "allowed_domains" not in tool and sent.json["messages"][0]["content"].endswith("what is so")
    assert sent.json["model"] == "claude-x" and not sent.json.get("stream")


@pytest.mark.spec("A13")
async def test_gpt_searches_over_responses() -> None:
    async with FakeApi([answer(200, GPT)]) as api:
        found, reply = await search(api, "openai/gpt-x", WebQuery("what is so", allowed=("a.org", "b.org")))
    assert [(h.title, h.url) for h in found.hits] == [("B", "https://b.org"), ("", "https://a.org")]  # cited first
    assert found.answer == "It is so." and (reply.usage.input, reply.usage.cache_read) == (40, 60)
    sent = api.asked[0]
    assert sent.path == "/v1/responses" and sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.json["tools"] == [{"type": "web_search", "filters": {"allowed_domains": ["a.org", "b.org"]}}]
    assert sent.json["store"] is False and sent.json["model"] == "gpt-x"


FAILED = {
    "type": "web_search_tool_result",
    "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"},
}


@pytest.mark.spec("A13")
@pytest.mark.parametrize(
    ("model", "play", "words"),
    [
        ("anthropic/c", answer(401, {"error": {"type": "authentication_error", "message": f"bad {KEY}"}}), "401"),
        ("openai/g", answer(404, {"error": {"message": "no such route"}}), "404"),
        ("anthropic/c", answer(200, {"type": "message", "content": [FAILED]}), "could not search (unavailable)"),
        ("openai/g", answer(200, {"output": [{"type": "web_search_call", "status": "failed"}]}), "could not search"),
        ("anthropic/c", answer(200, b"{"), "makes no sense"),
        ("anthropic/c", stream(events([{"type": "message_start", "message": {}}])), "makes no sense"),
    ],
)
async def test_a_failed_search_is_an_error_without_the_key(model: str, play: list[Step], words: str) -> None:
    async with FakeApi([play]) as api:
        with pytest.raises(ModelError) as caught:
            await search(api, model, WebQuery("x"))
    assert words in str(caught.value) and KEY not in str(caught.value)


@pytest.mark.spec("A13")
@pytest.mark.parametrize(
    "body", [{}, [], {"content": 1, "output": 1, "usage": 1}, {"content": [1], "output": [{"content": [1]}]}]
)
async def test_an_answer_of_another_shape_finds_nothing(body: Any) -> None:
    async with FakeApi([answer(200, body)]) as api:
        for model in ("anthropic/c", "openai/g"):
            found, reply = await search(api, model, WebQuery("x"))
            assert found == WebFound(()) and reply.usage.total == 0


@pytest.mark.spec("A13")
async def test_an_overloaded_provider_is_asked_again_and_a_long_answer_is_cut() -> None:
    long = {"type": "message", "content": [{"type": "text", "text": "x" * 99_999}]}
    async with FakeApi([answer(529, {"error": {"type": "overloaded_error"}}), answer(200, long)]) as api:
        found, _ = await search(api, "anthropic/c", WebQuery("x"), retries=1)
    assert len(api.asked) == 2 and len(found.answer) == MOST_ANSWER + 1
