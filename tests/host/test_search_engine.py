"""Search engines over real HTTP: what is sent, what is kept, and what is reported when they fail."""

import json
from typing import Any

import pytest

from fake_api import HANG, FakeApi, Step, answer
from teamwright.core.data.extensions.search import MOST_TEXT, MOST_TITLE, WebFound, WebQuery
from teamwright.core.errors import ToolError
from teamwright.host.web.search import MOST_BYTES, Engine, search_engine

KEY = "engine-key-4711"
ODD: list[Any] = [{}, [], None, {"results": 1}, {"results": [1, None, {}]}, {"web": 1}]


def searxng(*rows: dict[str, Any]) -> list[Step]:
    return answer(200, {"query": "q", "results": list(rows), "unresponsive_engines": [["bing", "timeout"]]})


def row(url: str, title: str = "T", content: str = "c") -> dict[str, Any]:
    return {"url": url, "title": title, "content": content, "engine": "x"}


async def ask(api: FakeApi, query: WebQuery, *, kind: str = "searxng", key: str = "", **more: Any) -> WebFound:
    engine = Engine("brave" if kind == "brave" else "searxng", more.pop("url", api.url), key)
    return await search_engine(engine, query, more.pop("most", 10), more.pop("env", {}), **more)


def params(api: FakeApi, n: int = -1) -> dict[str, str]:
    from urllib.parse import parse_qsl

    return dict(parse_qsl(api.asked[n].path.partition("?")[2]))


@pytest.mark.spec("A13")
async def test_searxng_is_asked_for_json_and_its_results_are_listed() -> None:
    async with FakeApi(
        [searxng(row("https://a.org/x", "One &amp; two", "a <b>bold</b>  word"), row("https://b.org"))]
    ) as api:
        found = await ask(api, WebQuery("tree sitter"))
        assert [(h.title, h.url, h.text) for h in found.hits] == [
            ("One & two", "https://a.org/x", "a bold word"),
            ("T", "https://b.org", "c"),
        ]
        assert api.asked[0].path.startswith("/search?") and params(api) == {"q": "tree sitter", "format": "json"}
        assert "authorization" not in api.asked[0].headers
        await ask(api, WebQuery("x"), url=f"{api.url}/deep/search", key=KEY)
        assert (
            api.asked[1].path.startswith("/deep/search?") and api.asked[1].headers["authorization"] == f"Bearer {KEY}"
        )


@pytest.mark.spec("A13")
async def test_brave_gets_its_key_in_its_header() -> None:
    rows = [{"url": "https://a.org", "title": "<strong>A</strong>", "description": "it&#x27;s <strong>here</strong>"}]
    async with FakeApi([answer(200, {"type": "search", "web": {"results": rows}})]) as api:
        found = await ask(api, WebQuery("x y"), kind="brave", key=KEY, most=7)
        assert [(h.title, h.text) for h in found.hits] == [("A", "it's here")]
        assert params(api) == {"q": "x y", "count": "7"} and api.asked[0].headers["x-subscription-token"] == KEY


@pytest.mark.spec("A13")
async def test_domains_are_words_of_the_query_and_hold_whatever_the_engine_does() -> None:
    urls = ["https://docs.a.org/1", "https://a.org.evil.net/", "https://nota.org/", "HTTPS://A.ORG/2", "https://b.org/"]
    async with FakeApi([searxng(*map(row, urls))]) as api:
        only = await ask(api, WebQuery("x", allowed=("a.org",)))
        assert [h.url for h in only.hits] == [urls[0], urls[3]] and params(api)["q"] == "x site:a.org"
        some = await ask(api, WebQuery("x", allowed=("a.org", "b.org")))
        assert len(some.hits) == 3 and params(api)["q"] == "x (site:a.org OR site:b.org)"
        rest = await ask(api, WebQuery("x", blocked=("a.org",)))
        assert [h.url for h in rest.hits] == [urls[1], urls[2], urls[4]] and params(api)["q"] == "x -site:a.org"


@pytest.mark.spec("A13")
async def test_what_is_kept_is_bounded_and_has_an_address_of_the_web() -> None:
    odd = [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "",
        "http://[",
        "https://a.org/ b",
        "https://a.org/" + "x" * 3000,
    ]
    rows = [*map(row, odd), row("https://a.org/1", "t" * 999, "w " * 9999), row("https://a.org/1")]
    rows += [row(f"https://a.org/{n}") for n in range(2, 40)]
    async with FakeApi([searxng(*rows)]) as api:
        found = await ask(api, WebQuery("x"), most=5)
        assert [h.url for h in found.hits] == [f"https://a.org/{n}" for n in range(1, 6)]
        assert len(found.hits[0].title) == MOST_TITLE and len(found.hits[0].text) <= MOST_TEXT


@pytest.mark.spec("A13")
@pytest.mark.parametrize(
    ("play", "words"),
    [
        (answer(403, b"no"), "search.formats"),
        (answer(429, b"slow"), "status 429"),
        (answer(500, b"x"), "status 500"),
        (answer(302, b"", location="http://127.0.0.1:9/"), "not followed"),
        (answer(200, b"<html>"), "not JSON"),
        (answer(200, b"[" * 100_000), "not JSON"),
        (answer(200, b" " * (MOST_BYTES + 1)), "more than"),
        ([HANG], "did not answer within"),
        (["cut"], "could not be reached"),
    ],
)
async def test_a_failing_engine_is_an_error_without_the_key(play: list[Step], words: str) -> None:
    async with FakeApi([play]) as api:
        with pytest.raises(ToolError) as caught:
            await ask(api, WebQuery("x"), key=KEY, url=api.url.replace("//", "//me:pass4711@"), seconds=2)
    assert words in str(caught.value) and api.host in str(caught.value)
    assert KEY not in str(caught.value) and "pass4711" not in str(caught.value)
    assert len(api.asked) == (2 if play == ["cut"] else 1)  # aiohttp tries a broken connection once more


@pytest.mark.spec("A13")
@pytest.mark.parametrize("body", ODD)
async def test_an_answer_of_another_shape_finds_nothing(body: Any) -> None:
    async with FakeApi([answer(200, json.dumps(body).encode())]) as api:
        assert (await ask(api, WebQuery("x"))).hits == () and (await ask(api, WebQuery("x"), kind="brave")).hits == ()


@pytest.mark.spec("A13")
async def test_no_proxy_stands_between_us_and_this_machine() -> None:
    async with FakeApi([searxng(row("https://a.org"))]) as api:
        assert (await ask(api, WebQuery("x"), env={"HTTP_PROXY": "http://127.0.0.1:9"})).hits
