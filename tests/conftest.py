"""Fixtures that every room uses."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
