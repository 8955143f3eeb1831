"""An agent searches the web: who may, what it costs, whose keys are used, and when it is not offered."""

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Walker
from fake_api import FakeApi, answer
from teamwright.core.data.event import Denied, Warned
from teamwright.models.scripted import ScriptedModel

KEY = "walk-search-key-4711"
ROW = {"url": "https://a.org/x", "title": "A page", "content": "what it says"}
CALL = {"tool": "WebSearch", "input": {"query": "the thing"}}


def settle(walker: Walker, folder: Path | None = None, **search: Any) -> None:
    place = folder or walker.home / ".teamwright"
    place.mkdir(parents=True, exist_ok=True)
    (place / "settings.json").write_text(json.dumps({"teamwright": {"webSearch": search}}))


def offered(model: ScriptedModel) -> list[str]:
    return [spec.name for spec in model.requests[0].tools]


@pytest.mark.spec("A13")
async def test_without_a_setting_it_is_not_offered(walker: Walker) -> None:
    walk = await walker.walk(["done"])
    assert "WebSearch" not in offered(walk.model) and "WebFetch" in offered(walk.model)


@pytest.mark.spec("A13")
async def test_an_engine_answers_once_a_rule_allows_it(walker: Walker) -> None:
    async with FakeApi([answer(200, {"results": [ROW]})]) as api:
        settle(walker, provider="searxng", url=api.url, keyEnv="SEARCHING")
        walker.env["SEARCHING"] = KEY
        refused = await walker.walk([[CALL], "done"])
        assert refused.of(Denied) and api.asked == []
        walk = await walker.walk([[CALL], "done"], allowed_tools=["WebSearch"])
        assert api.asked[0].headers["authorization"] == f"Bearer {KEY}"
    ((text, is_error),) = walk.results
    assert not is_error and "https://a.org/x" in text and "what it says" in text and "not instructions" in text
    hidden = await walker.walk(["done"], disallowed_tools=["WebSearch"])
    assert "WebSearch" not in offered(hidden.model)
    kept = [path for path in walker.home.rglob("*") if path.is_file()]
    assert not [path for path in kept if KEY.encode() in path.read_bytes()]


@pytest.mark.spec("A13")
async def test_no_command_sees_the_key_of_the_engine(walker: Walker) -> None:
    settle(walker, provider="searxng", url="http://127.0.0.1:9", keyEnv="SEARCHING")
    file = walker.home / ".teamwright" / "settings.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"env": {"SEARCHING": KEY, "PLAIN": "seen"}}))
    script = [[{"tool": "Bash", "input": {"command": "env"}}], "done"]
    walk = await walker.walk(script, allowed_tools=["Bash"])
    ((text, _),) = walk.results
    assert "PLAIN=seen" in text and KEY not in text and "SEARCHING" not in text


@pytest.mark.spec("A13")
async def test_a_provider_searches_on_the_agents_account(walker: Walker) -> None:
    said = {
        "type": "message",
        "content": [
            {"type": "web_search_tool_result", "content": [{"type": "web_search_result", "url": u, "title": "T"}]}
            for u in ("https://a.org", "https://b.net")
        ]
        + [{"type": "text", "text": "It is so."}],
        "usage": {"input_tokens": 1000, "output_tokens": 10},
    }
    call = {"tool": "WebSearch", "input": {"query": "x", "allowed_domains": ["a.org"]}}
    async with FakeApi([answer(200, said)]) as api:
        walker.env |= {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": api.url, "TEAMWRIGHT_MAX_RETRIES": "0"}
        settle(walker, provider="anthropic")
        walk = await walker.walk([[call], "done"], allowed_tools=["WebSearch"])
        assert [a.path for a in api.asked] == ["/v1/messages"]
    ((text, is_error),) = walk.results
    assert not is_error and "It is so." in text and "https://a.org" in text and "b.net" not in text
    spent = walk.session.meter.by_model["anthropic/claude-haiku-5-5"]
    assert spent.input == 1000 and walk.session.meter.turns == 2


@pytest.mark.spec("A13")
async def test_a_failure_is_a_result_and_not_the_end(walker: Walker) -> None:
    async with FakeApi([answer(401, {"error": {"type": "authentication_error", "message": KEY}})]) as api:
        walker.env |= {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{api.url}/v1", "TEAMWRIGHT_MAX_RETRIES": "0"}
        settle(walker, provider="openai", model="openai/gpt-x")
        walk = await walker.walk([[CALL], "done"], allowed_tools=["WebSearch"])
    ((text, is_error),) = walk.results
    assert is_error and text.startswith("The web search failed: ") and KEY not in text
    assert walk.ends[0].reason == "done"


@pytest.mark.spec("A13")
@pytest.mark.parametrize(
    ("search", "words"),
    [
        ({"provider": "brave"}, "no key in the variable BRAVE_API_KEY"),
        ({"provider": "searxng"}, "`url` must be"),
        ({"provider": "searxng", "url": "ftp://x"}, "`url` must be"),
        ({"provider": "anthropic"}, "no key for api.anthropic.com"),
        ({"provider": "openai", "model": "sonnet"}, "not asked in the way of openai"),
        ({"provider": "anthropic", "url": "http://x"}, "are for engines"),
    ],
)
async def test_what_cannot_work_is_told_and_not_offered(walker: Walker, search: Any, words: str) -> None:
    settle(walker, **search)
    walk = await walker.walk(["done"])
    assert "WebSearch" not in offered(walk.model)
    assert [w.text for w in walk.of(Warned) if words in w.text] or [n for n in walk.session.notes if words in n]


@pytest.mark.spec("A13")
async def test_no_project_chooses_who_is_asked(walker: Walker) -> None:
    settle(walker, walker.project / ".teamwright", provider="searxng", url="http://127.0.0.1:9")
    walk = await walker.walk(["done"], trust=True)
    assert "WebSearch" not in offered(walk.model)
    assert any("teamwright.webSearch: a project cannot set this" in note for note in walk.session.notes)
