"""Callbacks for messages that an MCP server initiates."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from msgspec import Struct

from teamwright.core.data.extensions.server import Elicited

Listing = Literal["tools", "prompts", "resources"]


def _ignore(*_: Any) -> None:
    return


class Ears(Struct, kw_only=True):
    changed: Callable[[Listing], None] = _ignore
    push: Callable[[str, dict[str, Any]], None] = _ignore  # a channel's message and its metadata
    log: Callable[[str], None] = _ignore
    elicit: Callable[[str, dict[str, Any]], Awaitable[Elicited]] | None = None  # question, schema of the answer
