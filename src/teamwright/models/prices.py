"""Prices replies offline from the data of `genai-prices`; an unknown model costs None, never 0.

Importing that library takes over half a second and 30 MB (pydantic, an HTTP client). Its data is one generated file of
plain constructor calls, so the few numbers we need are read from the source of one model's record, without running it.
If the file looks different than expected, the library itself is used. Its updater is never started.
"""

import ast
import mmap
import re
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from msgspec import Struct

from teamwright.core.data.message import Usage

MILLION = 1_000_000
_MODEL = b"\n            ModelInfo("  # begins a model's record
_FIELD, _END = b"\n                ", b"\n            )"  # begin a field of it, and end the record
_RESELLS = b"\n        fallback_model_providers="
_SUFFIX = re.compile(r"\[[^\]]*\]$")  # `[1m]` chooses a window, not a model


class TokenPrice(Struct, frozen=True):
    """Dollars per million tokens. If the whole input exceeds a tier's start, every token costs that tier's price."""

    base: float
    tiers: tuple[tuple[int, float], ...] = ()

    def at(self, whole_input: int) -> float:
        return next((price for start, price in reversed(self.tiers) if whole_input > start), self.base)


class Rates(Struct, frozen=True):
    input: TokenPrice
    output: TokenPrice
    cache_read: TokenPrice
    cache_write: TokenPrice


def cost(model: str, usage: Usage) -> float | None:
    """Dollars for one reply of `provider/name`. Price replies one by one: long inputs can have a price of their own."""
    rates = _rates(model, int(time.time() // 900))  # a few providers' prices depend on the time of day
    return None if rates is None else _amount(rates, usage)


def saved_by_cache(model: str, usage: Usage) -> float | None:
    """How much more the reply would have cost without a cache; negative if storing cost more than reading saved."""
    rates = _rates(model, int(time.time() // 900))
    if rates is None:
        return None
    plain = Usage(input=usage.input + usage.cache_read + usage.cache_write, output=usage.output)
    return _amount(rates, plain) - _amount(rates, usage)


def _amount(rates: Rates, usage: Usage) -> float:
    whole = usage.input + usage.cache_read + usage.cache_write
    return (
        usage.input * rates.input.at(whole)
        + usage.output * rates.output.at(whole)
        + usage.cache_read * rates.cache_read.at(whole)
        + usage.cache_write * rates.cache_write.at(whole)
    ) / MILLION


@lru_cache(maxsize=256)
def _rates(model: str, quarter: int) -> Rates | None:
    """The prices during this quarter of an hour, cached."""
    provider, _, name = model.partition("/")
    name = _SUFFIX.sub("", name).lower()
    now = datetime.fromtimestamp(quarter * 900, UTC)
    try:
        prices = _read_prices(provider, name, now)
    except (OSError, SyntaxError, ValueError, AttributeError, TypeError):
        prices = _ask_library(provider, name, now)
    return None if prices is None else _as_rates(prices)


def _as_rates(prices: Any) -> Rates | None:
    """The four numbers of a price record; None for models that are not priced by input and output tokens."""
    input, output = _as_rate(prices, "input_mtok"), _as_rate(prices, "output_mtok")
    if input is None or output is None:
        return None
    # without their own price, cached tokens cost as much as input
    read, write = _as_rate(prices, "cache_read_mtok") or input, _as_rate(prices, "cache_write_mtok") or input
    return Rates(input, output, read, write)


def _as_rate(prices: Any, key: str) -> TokenPrice | None:
    value = getattr(prices, key, None)
    if value is None:
        return None
    if hasattr(value, "tiers"):
        tiers = sorted((int(tier.start), float(tier.price)) for tier in value.tiers)
        return TokenPrice(float(value.base), tuple(tiers))
    return TokenPrice(float(value))


# --- the library, used if its file cannot be parsed


def _ask_library(provider: str, name: str, now: datetime) -> Any:
    from genai_prices import Usage as Tokens  # noqa: PLC0415
    from genai_prices import calc_price  # noqa: PLC0415
    from genai_prices.data import providers  # noqa: PLC0415

    if not any(known.id == provider for known in providers):
        return None  # the library would guess a provider whose id is part of this one
    try:
        return calc_price(Tokens(), name, provider_id=provider, genai_request_timestamp=now).model_price
    except LookupError:
        return None


# --- its data, read as source text; ValueError: not in the expected form


def _read_prices(provider: str, name: str, now: datetime) -> Any:
    source = _source(provider)
    return None if source is None else _find_prices(source, name, now)


def _find_prices(source: bytes, name: str, now: datetime) -> Any:
    head, *models = source.split(_MODEL)
    if not models and b"ModelInfo(" in source:
        raise ValueError("ModelInfo")
    model = _find_model(models, name) or _find_model(models, _dashed(name))
    if model is not None:
        return _prices_at(_read_field(model, b"prices"), now)
    if _RESELLS in head or (models and _RESELLS in models[-1]):
        raise ValueError("it also resells other providers' models")
    return None


def _source(provider: str) -> bytes | None:
    """The source of one provider's record."""
    spec = find_spec("genai_prices")
    if spec is None or not spec.submodule_search_locations:
        raise ValueError("genai_prices")
    with Path(spec.submodule_search_locations[0], "data.py").open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with data:
        if data.find(b"\n    Provider(\n        id='anthropic',\n") < 0:
            raise ValueError("data.py")
        begin = data.find(f"\n    Provider(\n        id={provider!r},\n".encode())
        if begin < 0:
            return None
        end = data.find(b"\n    ),\n", begin)
        if end < 0:
            raise ValueError(provider)
        return data[begin:end]


def _read_field(model: bytes, name: bytes) -> Any:
    """One field of a model's record. Parsing the whole record of a provider would take twenty times as long."""
    begin = model.find(b"%b%b=" % (_FIELD, name))
    if begin < 0:  # a short record has all fields on one line
        fields = model[: model.index(_END)] + b")" if model.startswith(b"\n") else model.partition(b"\n")[0]
        return getattr(_read(b"ModelInfo(" + fields), name.decode())
    begin = end = begin + len(_FIELD) + len(name) + 1
    while (end := model.find(_FIELD, end + 1)) >= 0:
        if model[end + len(_FIELD) : end + len(_FIELD) + 1].isalpha():  # a name, not the end of a list
            return _read(model[begin:end])
    return _read(model[begin : model.index(_END, begin)])


def _read(source: bytes) -> Any:
    return _value(ast.parse(source.strip().rstrip(b","), mode="eval").body)


def _value(node: ast.expr) -> Any:
    """Evaluates constants, lists, dicts and keyword calls, which is all that the data contains. Runs no code."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.List(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {_value(key): _value(value) for key, value in zip(keys, values, strict=True) if key is not None}
        case ast.Call(func=ast.Name(id="Decimal"), args=[ast.Constant(value=str(number))]):
            return float(number)
        case ast.Call(func=ast.Attribute(attr="date"), args=[*parts], keywords=[]):
            return date(*(_value(part) for part in parts))
        case ast.Call(func=ast.Name(id=kind), args=[], keywords=fields):
            return SimpleNamespace(kind=kind, **{str(field.arg): _value(field.value) for field in fields})
        case ast.Call():
            return SimpleNamespace(kind="?")  # e.g. a time of day; whatever needs it fails as unreadable
        case _:
            raise ValueError(ast.dump(node))


def _find_model(models: Sequence[bytes], name: str) -> bytes | None:
    return next((model for model in models if _matches(_read_field(model, b"match"), name)), None)


def _matches(clause: Any, name: str) -> bool:
    match clause.kind:
        case "ClauseEquals":
            return name == clause.equals.lower()
        case "ClauseStartsWith":
            return name.startswith(clause.starts_with.lower())
        case "ClauseEndsWith":
            return name.endswith(clause.ends_with.lower())
        case "ClauseContains":
            return clause.contains.lower() in name
        case "ClauseRegex":
            return re.search(clause.regex, name) is not None
        case "ClauseOr":
            return any(_matches(part, name) for part in clause.or_)
        case "ClauseAnd":
            return all(_matches(part, name) for part in clause.and_)
        case _:
            raise ValueError(clause.kind)


def _prices_at(prices: Any, now: datetime) -> Any:
    """The last record whose condition holds, as in the library."""
    if not isinstance(prices, list):
        return prices
    records = cast("list[Any]", prices)
    for record in reversed(records):
        condition = getattr(record, "constraint", None)
        if condition is not None and condition.kind != "StartDateConstraint":
            raise ValueError(condition.kind)
        if condition is None or now.date() >= condition.start_date:
            return record.prices
    return records[0].prices


def _dashed(name: str) -> str:
    """Adds dashes to a date: `gpt-5.2-20251211` is listed as `gpt-5.2-2025-12-11`."""
    return re.sub(r"-(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=-|:|$)", r"-\1-\2-\3", name)
