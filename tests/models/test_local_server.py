"""The context size of a local server's model, as the server reports it."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from streams import ASKED, chat, chunk

from fake_api import HANG, LOCAL, FakeApi, answer, local_routes, said_routes, stream
from teamwright.core.data.message import Delta, PromptRead, Request
from teamwright.models.faults import Endpoint
from teamwright.models.http import HttpClient
from teamwright.models.local_server import LocalServer, Name
from teamwright.models.retry import Reach
from teamwright.models.wires.openai import BASE, OpenAI, OpenAIStream

pytestmark = [pytest.mark.anyio, pytest.mark.spec("I9")]
ASK = Request(model="openai/m", system=(), tools=(), messages=ASKED)
DONE = stream(chat(chunk({"content": "x"}), chunk({}, "stop")))


@asynccontextmanager
async def opened(api: FakeApi) -> AsyncGenerator[OpenAI]:
    http = HttpClient({})
    try:
        yield OpenAI(http, Reach(f"{api.url}/v1/", headers={"Authorization": "Bearer k"}))
    finally:
        await http.aclose()


async def window_of(model: OpenAI, limit: float = 2.0) -> int | None:
    server = await model.server("m", limit)
    assert server is not None
    return server.window


@pytest.mark.parametrize("server", LOCAL)
async def test_each_server_says_it_in_its_own_place(server: Name) -> None:
    async with FakeApi(routes=local_routes(server, 8192)) as api, opened(api) as model:
        assert [await model.server("m") for _ in range(2)] == [LocalServer(server, 8192)] * 2
        assert len(api.asked) == 4, "asked once"
        assert {a.headers["authorization"] for a in api.asked} == {"Bearer k"}


@pytest.mark.parametrize(
    ("said", "window"),
    [
        ({"/v1/models": {"data": [{"id": "file.gguf", "meta": {"n_ctx": 4096, "n_ctx_train": 131072}}]}}, 4096),
        ({"/v1/models": {"data": [{"id": "m", "meta": {"n_ctx_train": 131072}}]}}, None),
        ({"/api/ps": {"models": []}, "/api/show": {"parameters": 'stop "x"\nnum_ctx    16384'}}, 16384),
        ({"/api/ps": {"models": []}, "/api/show": {"parameters": "num_ctx " + "9" * 5_000}}, None),
        ({"/api/ps": {"models": []}, "/api/show": {"model_info": {"llama.context_length": 131072}}}, None),
        ({"/api/v0/models": {"data": [{"id": "m", "max_context_length": 131072, "state": "not-loaded"}]}}, None),
        ({"/v1/models": {"data": [{"id": "a", "max_model_len": 5}, {"id": "b", "max_model_len": 6}]}}, None),
        ({"/props": [1], "/v1/models": {"data": [{"max_model_len": "x"}]}, "/api/ps": {"models": 3}}, None),
    ],
)
async def test_only_what_the_server_really_gives_counts(said: dict[str, Any], window: int | None) -> None:
    async with FakeApi(routes=said_routes(said)) as api, opened(api) as model:
        assert await window_of(model) == window


async def test_a_server_that_hangs_or_talks_nonsense_costs_the_limit_at_most() -> None:
    routes = local_routes("vLLM", 32768) | {"/props": [HANG], "/api/ps": answer(200, b"nonsense")}
    async with FakeApi(routes=routes) as api, opened(api) as model:
        assert await window_of(model, 0.3) == 32768


async def test_a_model_that_is_not_loaded_yet_is_asked_about_again_after_its_reply() -> None:
    async with FakeApi([DONE], routes=said_routes({"/api/ps": {"models": []}})) as api, opened(api) as model:
        assert [await window_of(model) for _ in range(2)] == [None, None]
        assert len(api.asked) == 5
        api.routes = local_routes("Ollama", 4096)
        await model.reply(ASK, lambda _: None)
        assert await window_of(model) == 4096


@pytest.mark.spec("I11")
@pytest.mark.parametrize("server", LOCAL)
async def test_llama_cpp_tells_how_much_of_the_prompt_it_has_read(server: Name) -> None:
    """Other servers are not asked: they might refuse what they do not know."""
    read = [chunk(prompt_progress={"total": 900, "cache": 0, "processed": n, "time_ms": 1}) for n in (300, 300, 900)]
    play, deltas = stream(chat(*read, chunk({"content": "x"}), chunk({}, "stop"))), list[Delta]()
    async with FakeApi([play], routes=local_routes(server, 8192)) as api, opened(api) as model:
        await model.server("m")
        await model.reply(ASK, deltas.append)
        asked = api.asked[-1].json
    assert asked.get("return_progress") is (True if server == "llama.cpp" else None)
    assert [d for d in deltas if isinstance(d, PromptRead)] == [PromptRead(300, 900), PromptRead(900, 900)]


@pytest.mark.spec("I11")
async def test_a_prompt_that_is_still_being_read_is_not_silence() -> None:
    """Each step counts as news; the same figure again does not."""
    answer, heard = OpenAIStream("openai/m", Endpoint("h", "m", "K", "B"), lambda _: None), list[int]()
    for done in (100, 200, 200, 300):
        data = chunk(prompt_progress={"total": 900, "processed": done})
        answer.hear("message", json.dumps(data).encode())
        heard.append(answer.heard)
    assert heard[0] < heard[1] == heard[2] < heard[3]


async def test_the_provider_itself_is_never_asked() -> None:
    http = HttpClient({"HTTPS_PROXY": "http://127.0.0.1:9"})
    assert await OpenAI(http, Reach(BASE)).server("m") is None
    await http.aclose()
