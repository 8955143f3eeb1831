"""Costs agree with the library whose data they come from, without importing it."""

import subprocess
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.core.data.message import Usage
from teamwright.models import prices
from teamwright.models.prices import cost, saved_by_cache

counts = st.integers(0, 2_000_000)
usages = st.builds(Usage, input=counts, output=counts, cache_read=counts, cache_write=counts)
KNOWN = (
    "anthropic/claude-sonnet-4-5",
    "anthropic/claude-haiku-5-5[1m]",
    "openai/gpt-5.4",
    "openai/gpt-4o",
    "openai/o3",
)


def by_library(model: str, usage: Usage) -> float | None:
    """The oracle. Its `input_tokens` include the cached ones."""
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    provider, _, name = model.removesuffix("[1m]").partition("/")
    tokens = Tokens(
        input_tokens=usage.input + usage.cache_read + usage.cache_write,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
    )
    try:
        return float(calc_price(tokens, name, provider_id=provider).total_price)
    except LookupError:
        return None


@pytest.mark.spec("O5")
def test_every_model_of_every_provider_has_the_rates_of_the_library() -> None:
    from genai_prices.data import providers

    now, left_to_the_library = datetime(2026, 11, 1, 12, tzinfo=UTC), set[str]()
    for provider in providers:
        source = prices._source(provider.id)
        assert source is not None
        for entry in provider.models:
            try:
                mine = prices._find_prices(source, entry.id.lower(), now)
            except ValueError:
                left_to_the_library.add(provider.id)
                continue
            found = provider.find_model(entry.id, all_providers=providers)
            theirs = found.get_prices(now) if found else None
            assert (mine and prices._as_rates(mine)) == (theirs and prices._as_rates(theirs)), entry.id
    assert left_to_the_library <= {"deepseek", "azure", "google"}


@pytest.mark.spec("O5")
@pytest.mark.parametrize("model", ["azure/gpt-5", "deepseek/deepseek-chat", "mistral/mistral-large-latest"])
def test_other_providers_cost_what_the_library_says(model: str) -> None:
    usage = Usage(1_000, 700, 30_000, 5_000)
    assert cost(model, usage) == pytest.approx(by_library(model, usage), rel=1e-9)


@pytest.mark.spec("O5")
@given(st.sampled_from(KNOWN), usages)
def test_any_usage_costs_what_the_library_says(model: str, usage: Usage) -> None:
    assert cost(model, usage) == pytest.approx(by_library(model, usage), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("model", "same_as"),
    [
        ("anthropic/claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-5-5-20260901", "anthropic/claude-sonnet-5-5"),
        ("anthropic/claude-opus-5-5[1m]", "anthropic/claude-opus-5-5"),
        ("anthropic/Claude-Opus-5-5", "anthropic/claude-opus-5-5"),
        ("openai/gpt-5-2025-08-07", "openai/gpt-5"),
        ("openai/gpt-5-20250807", "openai/gpt-5"),
    ],
)
def test_dated_names_have_the_price_of_their_model(model: str, same_as: str) -> None:
    usage = Usage(10, 10, 10, 10)
    assert cost(model, usage) == cost(same_as, usage) != None  # noqa: E711


@pytest.mark.spec("O5")
@pytest.mark.parametrize(
    "model",
    [
        "openai/qwen3:8b",
        "ollama/llama3",
        "my-openai-proxy/gpt-5",
        "script/demo.json",
        "anthropic/claude-unheard-of",
        "openai/whisper-1",  # sold by the hour
        "openai/omni-moderation-latest",
        "anthropic",
        "anthropic/",
        "",
        "it's/'quoted'",
    ],
)
def test_an_unknown_model_costs_none_and_never_zero(model: str) -> None:
    assert cost(model, Usage(1_000, 1_000)) is None
    assert saved_by_cache(model, Usage(1_000, 1_000, 5)) is None


def test_nothing_said_costs_nothing() -> None:
    assert cost("anthropic/claude-sonnet-5-5", Usage()) == 0


@given(st.sampled_from(KNOWN), usages, st.sampled_from(["input", "output", "cache_read", "cache_write"]), counts)
def test_more_tokens_never_cost_less(model: str, usage: Usage, field: str, more: int) -> None:
    larger = usage + Usage(**{field: more})
    assert cost(model, larger) >= cost(model, usage)  # pyright: ignore[reportOptionalOperand]


@pytest.mark.spec("F8")
def test_what_the_cache_saved_is_the_discount_minus_the_surcharge() -> None:
    model = "anthropic/claude-sonnet-4-6"  # 3 in, 0.30 read, 3.75 write
    assert saved_by_cache(model, Usage(cache_read=1_000_000)) == pytest.approx(2.7)
    assert saved_by_cache(model, Usage(cache_write=1_000_000)) == pytest.approx(-0.75)
    assert saved_by_cache(model, Usage(10, 10, 1_000_000, 1_000_000)) == pytest.approx(2.7 - 0.75)
    assert saved_by_cache(model, Usage(5_000, 5_000)) == 0


def test_a_model_without_cache_prices_has_nothing_to_save() -> None:
    assert saved_by_cache("openai/gpt-4-turbo", Usage(0, 0, 1_000, 1_000)) == 0
    assert cost("openai/gpt-4-turbo", Usage(0, 0, 1_000, 0)) == pytest.approx(cost("openai/gpt-4-turbo", Usage(1_000)))


def test_a_tier_is_chosen_by_the_whole_input() -> None:
    model = "anthropic/claude-haiku-5-5"  # five times the price above 100,000
    below, above = Usage(1_000, 0, 99_000), Usage(1_000, 0, 99_001)
    assert by_library(model, below) == pytest.approx(cost(model, below))
    assert cost(model, above) == pytest.approx(5 * cost(model, below), rel=1e-4)  # pyright: ignore[reportOptionalOperand]


def test_the_price_is_that_of_the_day() -> None:
    def rate(year: int, month: int, day: int) -> float:
        quarter = int(datetime(year, month, day, 12, tzinfo=UTC).timestamp() // 900)
        found = prices._rates("openai/gpt-5.6-terra", quarter)
        assert found is not None
        return found.input.base

    assert (rate(2026, 7, 29), rate(2026, 7, 30)) == (2.5, 2.0)


NO_NETWORK = """
import sys
def deny(event, args):
    if event.startswith("socket.") and event != "socket.__new__" or event == "subprocess.Popen":
        raise SystemExit(f"network: {event}")
sys.addaudithook(deny)
from teamwright.core.data.message import Usage
from teamwright.models.prices import cost, saved_by_cache
print(cost(sys.argv[1], Usage(1000, 1000, 1000, 1000)), saved_by_cache(sys.argv[1], Usage(1, 1, 1, 1)))
print([m for m in ("genai_prices", "pydantic", "httpx", "httpx2") if m in sys.modules])
import threading
print(threading.active_count())
"""


@pytest.mark.parametrize(("model", "light"), [("anthropic/claude-sonnet-5-5", True), ("azure/gpt-5", False)])
def test_no_network_no_thread_and_for_our_providers_no_heavy_import(model: str, light: bool) -> None:
    argv = [sys.executable, "-c", NO_NETWORK, model]
    run = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    amounts, heavy, threads = run.stdout.splitlines()
    assert float(amounts.split()[0]) > 0
    assert (heavy == "[]") == light
    assert threads == "1"


def test_the_hook_that_forbids_the_network_has_teeth() -> None:
    code = (
        NO_NETWORK.split("from teamwright", maxsplit=1)[0] + "import socket; socket.create_connection(('127.0.0.1', 9))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert "network:" in run.stderr


def test_where_the_file_cannot_be_read_the_library_is_asked() -> None:
    """Both ways give the same numbers, so a new layout of the data only costs time."""
    now = datetime(2026, 11, 1, tzinfo=UTC)
    for model in KNOWN:
        provider, _, name = model.removesuffix("[1m]").partition("/")
        slow = prices._as_rates(prices._ask_library(provider, name, now))
        assert slow == prices._as_rates(prices._read_prices(provider, name, now))
        assert isinstance(slow, prices.Rates)
    assert prices._ask_library("openai", "unheard-of", now) is None
    assert prices._ask_library("my-openai-proxy", "gpt-5", now) is None


@pytest.mark.parametrize("source", ["Provider(**x)", "Provider(id=1 + 1)", "Provider(models=[f()])"])
def test_data_that_is_not_plain_is_not_run(source: str) -> None:
    import ast

    try:
        value = prices._value(ast.parse(source, mode="eval").body)
    except ValueError:
        return
    assert value.models[0].kind in ("f", "?")
