"""Limits on turns, money, tokens and time."""

from typing import Literal

from msgspec import Struct

from teamwright.core.text import plural

Limit = Literal["turns", "usd", "tokens", "seconds"]


class Limits(Struct, frozen=True):
    """None means no limit."""

    turns: int | None = None
    usd: float | None = None
    tokens: int | None = None
    seconds: float | None = None


class Spent(Struct, frozen=True):
    turns: int = 0
    usd: float = 0.0
    tokens: int = 0
    seconds: float = 0.0


class Reached(Struct, frozen=True):
    """A limit that forbids another model call. `may_report`: one more is allowed, to say what is done and what is
    not."""

    limit: Limit
    words: str
    may_report: bool


def reached(limits: Limits, spent: Spent) -> Limit | None:
    """The first limit reached. Turns come first, because that limit allows no final report."""
    pairs: tuple[tuple[Limit, float | None, float], ...] = (
        ("turns", limits.turns, spent.turns),
        ("usd", limits.usd, spent.usd),
        ("tokens", limits.tokens, spent.tokens),
        ("seconds", limits.seconds, spent.seconds),
    )
    return next((name for name, most, used in pairs if most is not None and used >= most), None)


def words(limit: Limit, limits: Limits) -> str:
    """The limit as a person would say it."""
    match limit:
        case "turns":
            return f"the limit of {plural(limits.turns or 0, 'turn')}"
        case "usd":
            return f"the budget of ${limits.usd:g}"
        case "tokens":
            return f"the limit of {limits.tokens:,} tokens"
        case "seconds":
            return f"the time limit of {limits.seconds:g} seconds"
