"""Limits as values: which one is reached first, and how that is worded."""

import pytest

from teamwright.core.policies.budget import Limits, Spent, reached, words


@pytest.mark.spec("O6")
@pytest.mark.parametrize(
    ("limits", "spent", "limit"),
    [
        (Limits(), Spent(10**6, 1e9, 10**12, 1e9), None),
        (Limits(turns=3), Spent(turns=2), None),
        (Limits(turns=3), Spent(turns=3), "turns"),
        (Limits(turns=3), Spent(turns=4), "turns"),
        (Limits(usd=0.5), Spent(usd=0.49), None),
        (Limits(usd=0.5), Spent(usd=0.5), "usd"),
        (Limits(tokens=10), Spent(tokens=9), None),
        (Limits(tokens=10), Spent(tokens=11), "tokens"),
        (Limits(seconds=1.5), Spent(seconds=1.4), None),
        (Limits(seconds=1.5), Spent(seconds=1.5), "seconds"),
        (Limits(turns=1, usd=1, tokens=1, seconds=1), Spent(1, 1, 1, 1), "turns"),
        (Limits(turns=2, usd=1, tokens=1, seconds=1), Spent(1, 1, 1, 1), "usd"),
        (Limits(tokens=1, seconds=1), Spent(0, 0, 1, 1), "tokens"),
        (Limits(usd=0.0), Spent(), "usd"),
    ],
)
def test_the_first_limit_that_is_reached(limits: Limits, spent: Spent, limit: str | None) -> None:
    assert reached(limits, spent) == limit


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("turns", "the limit of 7 turns"),
        ("usd", "the budget of $0.25"),
        ("tokens", "the limit of 12,000 tokens"),
        ("seconds", "the time limit of 90 seconds"),
    ],
)
def test_a_limit_is_said_as_a_person_would(limit: str, said: str) -> None:
    assert words(limit, Limits(turns=7, usd=0.25, tokens=12_000, seconds=90.0)) == said
