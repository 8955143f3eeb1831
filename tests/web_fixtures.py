"""The hub of a test: `pytest_plugins = ("web_fixtures",)`."""

from collections.abc import Iterator
from typing import Any

import pytest

from program import Program
from web_kit import OpenHub, WebHub


@pytest.fixture
def hub(program: Program) -> Iterator[OpenHub]:
    opened: list[WebHub] = []

    def open_hub(*args: str, **more: Any) -> WebHub:
        opened.append(WebHub(program, *args, **more))
        return opened[-1].enter()

    yield open_hub
    for one in opened:
        one.close()
