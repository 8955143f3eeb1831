"""Names of models: what they mean, what is known about them, and errors for those that mean nothing."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.core.errors import ModelError
from teamwright.models.catalog import Catalog, default_model, packaged

catalog = Catalog.load()


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("sonnet", "anthropic/claude-sonnet-5-5"),
        ("Opus", "anthropic/claude-opus-5-5"),
        ("haiku[1m]", "anthropic/claude-haiku-5-5[1m]"),
        ("anthropic/sonnet", "anthropic/claude-sonnet-5-5"),
        ("claude-sonnet-4-6", "anthropic/claude-sonnet-4-6"),
        ("claude-of-the-future", "anthropic/claude-of-the-future"),
        ("anthropic/claude-opus-4-6[1m]", "anthropic/claude-opus-4-6[1m]"),
        ("gpt-5.4", "openai/gpt-5.4"),
        ("o3", "openai/o3"),
        ("o4-mini-2025-04-16", "openai/o4-mini-2025-04-16"),
        ("openai/qwen3:8b", "openai/qwen3:8b"),
        ("openai/org/model", "openai/org/model"),
        ("ollama/hf.co/x/y", "ollama/hf.co/x/y"),
        ("script/demo.json", "script/demo.json"),
        ("script//tmp/demo.json", "script//tmp/demo.json"),
        ("  sonnet ", "anthropic/claude-sonnet-5-5"),
    ],
)
def test_a_name_means_one_model(name: str, full: str) -> None:
    assert catalog.resolve(name, named=["ollama"]).full == full


@pytest.mark.spec("A7")
@pytest.mark.parametrize("name", ["qwen3", "o2", "ollama/x", "/x", "", "anthropic/", "sonnets", "llama gpt"])
def test_an_unknown_name_is_one_sentence_that_lists_what_is_possible(name: str) -> None:
    with pytest.raises(ModelError) as caught:
        catalog.resolve(name, named=["vllm", "openai"])
    words = str(caught.value)
    assert caught.value.fault == "config"
    for form in ("`sonnet`", "`opus`", "`haiku`", "`anthropic/NAME`", "`openai/NAME`", "`vllm/NAME`", "`script/FILE`"):
        assert words.count(form) >= 1
    assert f"`{name}`" in words or not name


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("sonnet", 200_000),
        ("sonnet[1m]", 1_000_000),
        ("claude-unheard-of", 200_000),
        ("bedrock/claude-opus-5-5", 200_000),
        ("gpt-5-mini-2025-08-07", 400_000),
        ("gpt-5.4-2026-03-05", 1_050_000),
        ("gpt-5.3-codex", 400_000),
        ("gpt-5.99", None),  # not a dated gpt-5
        ("openai/qwen3", None),
        ("script/claude.json", None),
    ],
)
def test_the_window_follows_from_the_name(name: str, window: int | None) -> None:
    assert catalog.resolve(name, named=["bedrock"]).window == window


def test_settings_say_otherwise() -> None:
    own = Catalog.load({"openai/qwen3": 32_768, "sonnet": 500_000, "gpt-5.4": 100_000})
    assert own.resolve("openai/qwen3").window == 32_768
    assert own.resolve("claude-sonnet-5-5").window == 500_000
    assert own.resolve("sonnet[1m]").window == 500_000
    assert own.resolve("openai/gpt-5.4").window == 100_000
    assert own.resolve("opus").window == 200_000


@pytest.mark.parametrize(
    ("name", "max_output", "thinking"),
    [
        ("claude-opus-4-6-20260205", 128_000, "adaptive"),
        ("claude-opus-4-20250514", 32_000, "budget"),
        ("claude-sonnet-4-5-20250929", 64_000, "budget"),
        ("claude-3-7-sonnet-latest", 64_000, "budget"),
        ("claude-3-5-haiku-latest", 8_192, "none"),
        ("claude-3-haiku-20240307", 4_096, "none"),
        ("claude-sonnet-5-5[1m]", 128_000, "adaptive"),
        ("claude-new-9", 64_000, "adaptive"),
        ("gpt-4o-2024-11-20", 16_384, "none"),
        ("openai/qwen3", None, "none"),
    ],
)
def test_the_longest_known_beginning_decides(name: str, max_output: int | None, thinking: str) -> None:
    info = catalog.resolve(name)
    assert (info.max_output, info.thinking) == (max_output, thinking)


@given(st.text(max_size=30), st.sampled_from(["", "anthropic/", "openai/", "mine/", "script/"]))
def test_any_name_is_resolved_or_refused_in_words(rest: str, prefix: str) -> None:
    try:
        info = catalog.resolve(prefix + rest, named=["mine"])
    except ModelError as error:
        assert error.fault == "config"
    else:
        assert catalog.resolve(info.full, named=["mine"]) == info


def test_what_is_listed_can_be_resolved_and_agrees_with_the_price_data() -> None:
    from genai_prices.data import providers

    names = catalog.names()
    assert names[:3] == ["sonnet", "opus", "haiku"]
    assert len(names) == len(set(names)) > 30
    windows = {f"{p.id}/{m.id}": m.context_window for p in providers for m in p.models}
    for info in map(catalog.resolve, names):
        assert info.full in windows, f"{info.full} is not a model that is sold"
        assert info.max_output
        if info.provider == "openai":
            assert info.window == windows[info.full]


def test_aliases_are_the_newest_of_their_family() -> None:
    from genai_prices.data import providers

    claude = [m.id for p in providers if p.id == "anthropic" for m in p.models]
    for alias, full in catalog.aliases.items():
        family = [m for m in claude if m.startswith(f"claude-{alias}-")]
        newest = max(family, key=lambda m: [int(part) for part in m.split("-")[2:]])
        assert full == f"anthropic/{newest}"


# --- the default


@pytest.mark.parametrize(
    ("env", "setting", "chosen"),
    [
        ({"TEAMWRIGHT_MODEL": "opus", "OPENAI_API_KEY": "k"}, "haiku", "opus"),
        ({"TEAMWRIGHT_MODEL": "", "OPENAI_API_KEY": "k"}, "haiku", "haiku"),
        ({"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, None, "sonnet"),
        ({"ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": "t"}, "", "sonnet"),
        ({"OPENAI_API_KEY": "k"}, None, "openai/gpt-5.4"),
        ({"OPENAI_BASE_URL": "http://localhost:1/v1", "ANTHROPIC_API_KEY": ""}, None, "openai/gpt-5.4"),
    ],
)
def test_the_default_model(env: dict[str, str], setting: str | None, chosen: str) -> None:
    assert default_model(env, setting) == chosen
    assert catalog.resolve(chosen).max_output


@pytest.mark.spec("A7")
@pytest.mark.parametrize("env", [{}, {"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}])
def test_without_any_key_three_ways_on_are_named(env: dict[str, str]) -> None:
    with pytest.raises(ModelError) as caught:
        default_model(env, None)
    assert caught.value.fault == "config"
    for way in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "openai/NAME", "`teamwright demo`"):
        assert way in str(caught.value)


def test_the_file_is_read_quickly_and_without_heavy_imports() -> None:
    code = (
        "import sys, msgspec, pathlib, re, time\n"
        "from teamwright.models.catalog import Catalog\n"
        "begin = time.process_time(); Catalog.load().resolve('sonnet'); print(time.process_time() - begin)\n"
        "print([m for m in ('genai_prices', 'aiohttp', 'yaml', 'importlib.resources') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    seconds, heavy = run.stdout.splitlines()
    assert heavy == "[]"
    assert float(seconds) < 0.01  # a quiet machine needs a fifth of it


def test_an_entry_of_the_file_is_checked() -> None:
    data = packaged()
    assert set(data.families) <= set(data.models) == {"anthropic", "openai"}
    assert not any(facts.window for facts in data.models["anthropic"].values())
    assert Catalog.load().resolve("openai/b").full == "openai/b"
