"""How each provider is reached, and what is said when something is not set."""

from typing import Any

import pytest
from streams import ASKED, chat, chunk, said

from fake_api import FakeApi, answer, events, stream
from teamwright.core.data.message import Request
from teamwright.core.errors import ModelError
from teamwright.models.providers import Providers, ProviderSettings

HI = stream(events(said("hi")))
OK = stream(chat(chunk({"content": "ok"}), chunk({}, "stop")))


async def ask(env: dict[str, str], model: str, **more: Any) -> str:
    providers = Providers(env, silence=5, retries=0, **more)
    try:
        reply = await providers.open(model.partition("/")[0]).reply(Request(model, (), (), ASKED), lambda _: None)
        return reply.message.text
    finally:
        await providers.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("env", "header"),
    [
        ({"ANTHROPIC_API_KEY": " key\n"}, ("x-api-key", "key")),
        ({"ANTHROPIC_AUTH_TOKEN": "tok"}, ("authorization", "Bearer tok")),
        ({"ANTHROPIC_AUTH_TOKEN": "tok", "ANTHROPIC_API_KEY": "key"}, ("authorization", "Bearer tok")),
        ({}, ("x-api-key", None)),
    ],
)
async def test_keys_of_anthropic(env: dict[str, str], header: tuple[str, str | None]) -> None:
    async with FakeApi([HI]) as api:
        assert await ask(env | {"ANTHROPIC_BASE_URL": f"{api.url}/"}, "anthropic/claude-x") == "hi"
    sent = api.asked[0].headers
    assert sent.get(header[0]) == header[1]
    assert not {"x-api-key", "authorization"} <= sent.keys()
    assert api.asked[0].path == "/v1/messages"


@pytest.mark.anyio
async def test_a_local_server_needs_no_key() -> None:
    async with FakeApi([OK]) as api:
        assert await ask({"OPENAI_BASE_URL": f"{api.url}/v1/"}, "openai/org/some-model") == "ok"
        assert await ask({"OPENAI_BASE_URL": f"{api.url}/v1", "OPENAI_API_KEY": "k"}, "openai/m") == "ok"
    first, second = api.asked
    assert "authorization" not in first.headers and second.headers["authorization"] == "Bearer k"
    assert first.json["model"] == "org/some-model" and first.path == "/v1/chat/completions"


@pytest.mark.anyio
async def test_named_providers() -> None:
    async with FakeApi([OK, HI]) as api:
        named = {
            "box": ProviderSettings(f"{api.url}/v1"),
            "gate": ProviderSettings(api.url, "GATE_KEY", "anthropic"),
        }
        env = {
            "GATE_KEY": "g",
            "ANTHROPIC_API_KEY": "never",
            "OPENAI_API_KEY": "never",
            "ANTHROPIC_AUTH_TOKEN": "never",
        }
        assert await ask(env, "box/llama", named=named) == "ok"
        assert await ask(env, "gate/claude-x", named=named) == "hi"
    first, second = api.asked
    assert (first.json["model"], first.path) == (
        "llama",
        "/v1/chat/completions",
    ) and "authorization" not in first.headers
    assert second.headers["x-api-key"] == "g" and "never" not in str([a.headers for a in api.asked])


@pytest.mark.parametrize(
    ("env", "provider", "words"),
    [
        ({}, "anthropic", "ANTHROPIC_API_KEY"),
        ({"ANTHROPIC_API_KEY": "  "}, "anthropic", "api.anthropic.com"),
        ({}, "openai", "OPENAI_API_KEY"),
        ({"OPENAI_BASE_URL": "https://api.openai.com/v1"}, "openai", "OPENAI_API_KEY"),
        ({}, "gate", "GATE_KEY"),
        ({}, "nobody", "`nobody`.*anthropic, gate, openai, wrong"),
        ({}, "wrong", "providers.wrong.baseUrl"),
        ({"ANTHROPIC_BASE_URL": "localhost:8080"}, "anthropic", "ANTHROPIC_BASE_URL"),
        ({"OPENAI_BASE_URL": "http://x:99999999"}, "openai", "OPENAI_BASE_URL"),
        ({"ANTHROPIC_API_KEY": "a\nb"}, "anthropic", "line break"),
        ({"ANTHROPIC_API_KEY": "“key”"}, "anthropic", "ANTHROPIC_API_KEY"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_sent(env: dict[str, str], provider: str, words: str) -> None:
    named = {"gate": ProviderSettings("http://gate.example", "GATE_KEY"), "wrong": ProviderSettings("ftp://x")}
    with pytest.raises(ModelError, match=words) as caught:
        Providers(env, named=named).open(provider)
    assert caught.value.fault == "config"
    assert "a\nb" not in str(caught.value)


def test_a_model_is_opened_once_for_each_kind() -> None:
    providers = Providers({"ANTHROPIC_API_KEY": "k"})
    one = providers.open("anthropic", max_output=10)
    assert providers.open("anthropic", max_output=10) is one
    assert providers.open("anthropic", max_output=20) is not one


@pytest.mark.spec("A11")
@pytest.mark.anyio
async def test_models_of_one_provider_share_connections() -> None:
    async with FakeApi([HI]) as api:
        providers = Providers({"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "k"}, version="9.9")
        for thinking in ("adaptive", "none"):
            await providers.open("anthropic", thinking=thinking).reply(
                Request("anthropic/c", (), (), ASKED), lambda _: None
            )
        await providers.aclose()
        assert api.connections == 1
    assert [("thinking" in a.json) for a in api.asked] == [True, False]
    assert api.asked[0].headers["user-agent"] == "teamwright/9.9"


@pytest.mark.anyio
async def test_a_wrong_key_names_the_variable_of_its_provider() -> None:
    async with FakeApi([answer(401, {"error": {"message": "invalid x-api-key"}})]) as api:
        named = {"gate": ProviderSettings(api.url, "GATE_KEY", "anthropic")}
        with pytest.raises(ModelError, match=r"invalid x-api-key.*GATE_KEY"):
            await ask({"GATE_KEY": "g"}, "gate/claude-x", named=named)
        with pytest.raises(ModelError, match=r"asks for a key.*OPENAI_API_KEY"):
            await ask({"OPENAI_BASE_URL": api.url}, "openai/m")


@pytest.mark.spec("A10")
@pytest.mark.anyio
@pytest.mark.parametrize("model", ["gate/claude-x", "open/m"])
async def test_a_server_that_says_the_key_back_does_not_get_it_into_our_words(model: str) -> None:
    key = "un-usual.shape/of+a=key"
    async with FakeApi([answer(401, {"error": {"message": f"no such key: {key}!"}})]) as api:
        named = {n: ProviderSettings(api.url, "A_KEY", w) for n, w in (("gate", "anthropic"), ("open", "openai"))}
        with pytest.raises(ModelError, match="no such key") as told:
            await ask({"A_KEY": key}, model, named=named)
    assert key not in str(told.value) and "[secret]!" in str(told.value)
