"""A first prompt that does not fit: the error names the server's context size, and what helps."""

from collections.abc import Mapping, Sequence

import pytest
from streams import ASKED

from fake_api import LOCAL, FakeApi, Step, answer, local_routes, said_routes
from teamwright.core.data.message import Message, Request, Text, ToolSpec, user
from teamwright.core.errors import ModelError
from teamwright.core.policies.compaction import read_window
from teamwright.models.catalog import Catalog
from teamwright.models.providers import Providers
from teamwright.models.routed import RoutedModel

pytestmark = [pytest.mark.anyio, pytest.mark.spec("I9")]
REFUSED = answer(400, {"error": {"code": 400, "message": "too long", "type": "exceed_context_size_error"}})
SPECS = tuple(ToolSpec(f"T{i}", "x" * 800, {"type": "object"}) for i in range(28))


async def refusal(
    routes: Mapping[str, Sequence[Step]], messages: tuple[Message, ...], tools: tuple[ToolSpec, ...] = SPECS
) -> ModelError:
    async with FakeApi([REFUSED], routes={**routes}) as api:
        providers = Providers({"OPENAI_BASE_URL": f"{api.url}/v1"})
        model = RoutedModel(Catalog.load(), providers, (), {})
        try:
            with pytest.raises(ModelError) as error:
                await model.reply(Request("openai/m", ("be good",), tools, messages), lambda _: None)
        finally:
            await model.aclose()
        assert error.value.fault == "context" and error.value.status == 400
        return error.value


@pytest.mark.parametrize(
    ("server", "setting"),
    list(zip(LOCAL, ("`-c`", "--max-model-len", "OLLAMA_CONTEXT_LENGTH", "context length"), strict=True)),
)
async def test_it_names_the_servers_size_and_setting(server: str, setting: str) -> None:
    error = await refusal(local_routes(server, 4096), ASKED)
    words = str(error)
    assert "context size of 4,096 tokens" in words and "28 tools have about 5," in words
    assert setting in words and "--lean" in words and "--tools" in words
    assert "ompact" not in words and "shorten the prompt" not in words.lower()
    assert read_window(error.said) == 4096, "which the session learns"


async def test_a_server_that_says_nothing_gets_the_settings_of_the_common_ones() -> None:
    words = str(await refusal(said_routes({}), ASKED, SPECS[:2]))
    assert "context size of" not in words and "`-c`" in words and "OLLAMA_CONTEXT_LENGTH" in words
    assert "--tools" in words and "--lean" not in words, "there is no leaner set than two tools"


async def test_a_prompt_that_is_large_itself_is_to_be_shortened() -> None:
    words = str(await refusal(local_routes("llama.cpp", 4096), (user("word " * 9_000),)))
    assert "Shorten the prompt, or offer fewer tools" in words and "the prompt 11,250" in words


async def test_a_conversation_is_still_to_be_compacted() -> None:
    said = (*ASKED, Message("assistant", (Text("yes"),), "m"), user("go on"))
    words = str(await refusal({}, said))
    assert "Compact it" in words and "--lean" not in words
