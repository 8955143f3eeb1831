"""Runs each test of a box in each tier, as the user who runs the tests and as a user without privileges."""

import os
from collections.abc import Iterator

import pytest
from box_kit import House, house_for, miss, why_not


@pytest.fixture(params=["bwrap", "landlock"])
def tier(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["me", "nobody"] if os.geteuid() == 0 else ["me"])
def user(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def house(tier: str, user: str) -> Iterator[House]:
    if why := why_not(tier, user):
        miss(f"{tier} as {user}: {why}")
    with house_for(tier, user) as made:
        yield made


@pytest.fixture
def mine(tier: str) -> Iterator[House]:
    """As whoever runs the tests."""
    if why := why_not(tier, "me"):
        miss(f"{tier}: {why}")
    with house_for(tier, "me") as made:
        yield made


@pytest.fixture
def namespaced() -> Iterator[House]:
    if why := why_not("bwrap", "me"):
        miss(f"bwrap: {why}")
    with house_for("bwrap", "me") as made:
        yield made
