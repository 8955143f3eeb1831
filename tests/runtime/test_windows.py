"""How many tokens a model takes: known, asked for once, or learnt from a refusal."""

import pytest

from teamwright.runtime.agents.compactor import Windows

pytestmark = [pytest.mark.anyio, pytest.mark.spec("I1")]


async def test_a_server_is_asked_until_it_says_and_only_where_nothing_is_known() -> None:
    asked: list[str] = []

    async def ask(model: str) -> int | None:
        asked.append(model)
        return 8_192 if model == "openai/local" else None

    windows = Windows({"anthropic/c": 200_000}.get, ask)
    assert await windows.of("anthropic/c") == 200_000 and not asked
    assert [await windows.of("openai/local") for _ in range(2)] == [8_192, 8_192]
    assert [await windows.of("openai/other") for _ in range(2)] == [None, None]
    assert asked == ["openai/local", "openai/other", "openai/other"]


async def test_a_refusal_teaches_the_smaller_figure() -> None:
    windows = Windows(lambda _: None)
    windows.learn("m", 9_000)
    windows.learn("m", 12_000)
    assert await windows.of("m") == 9_000
    windows.learn("m", 4_000)
    assert await windows.of("m") == 4_000


async def test_a_guess_that_proves_wrong_gives_way_to_what_was_known() -> None:
    windows = Windows({"known": 200_000}.get)
    for model in ("known", "said", "unknown"):
        if model == "said":
            windows.learn(model, 8_000)
        await windows.of(model)
        windows.guess(model, 5_000)
        windows.guess(model, 4_000)
        assert await windows.of(model) == 4_000
        windows.doubt(model)
        windows.doubt(model)
    assert [await windows.of(model) for model in ("known", "said", "unknown")] == [200_000, 8_000, None]
