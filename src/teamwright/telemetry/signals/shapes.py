"""Plain shapes of the three signals; `sdk` converts them for the SDK."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from teamwright.telemetry.facts.ids import Spot

Attributes = Mapping[str, Any]


class SpanEvent(Struct, frozen=True):
    name: str
    at: int
    attributes: Attributes


class Span(Struct, frozen=True, kw_only=True):
    name: str
    kind: Literal["internal", "client"] = "internal"
    spot: Spot
    parent: str
    start: int
    end: int
    attributes: Attributes
    links: tuple[Spot, ...] = ()
    events: tuple[SpanEvent, ...] = ()
    error: bool = False


class Measure(Struct, frozen=True):
    metric: str
    value: float
    attributes: Attributes


class LogEvent(Struct, frozen=True):
    body: str
    at: int
    attributes: Attributes
    spot: Spot | None = None
