"""Renders a project's settings file for review and comparison: all that could matter, in one order."""

import hashlib
import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from teamwright.core.jsontext import as_list
from teamwright.core.policies.redaction import redacted

# Settings that only affect appearance. Everything else counts, even names that only other programs know.
HARMLESS = frozenset(
    {
        "$schema",
        "theme",
        "language",
        "verbose",
        "outputStyle",
        "spinnerTipsEnabled",
        "cleanupPeriodDays",
        "includeCoAuthoredBy",
        "attribution",
        "alwaysThinkingEnabled",
        "editorMode",
        "vimMode",
        "tui",
    }
)
_SECRET = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)$", re.IGNORECASE)
_STARTS = re.compile(r"(?:command|cmd|helper|script|refresh|export|program|exec|run|check)$", re.IGNORECASE)
_DEEPEST = 20


def settings_text(data: bytes) -> tuple[str, bytes, tuple[str, ...]]:
    """(text to show, bytes to hash, what it starts). A new theme or other whitespace is no change."""
    try:
        found = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "(it cannot be read)", data, ()
    if not isinstance(found, dict):
        return "", b"", ()
    whole = cast("dict[str, Any]", found)
    parts = {name: value for name, value in whole.items() if value and name not in HARMLESS}
    if not parts:
        return "", b"", ()
    shown = msgspec.json.format(msgspec.json.encode(_without_keys(parts), order="sorted"), indent=2)
    return shown.decode() + "\n", msgspec.json.encode(parts, order="sorted"), tuple(started(parts))


def _without_keys(value: Any, name: str = "") -> Any:
    """Masks values that may be keys; equal values get equal masks."""
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        if name in ("env", "headers"):
            return {key: shown_value(key, one, secret=name == "headers") for key, one in pairs}
        return {key: _without_keys(one, key) for key, one in pairs}
    if isinstance(value, list):
        return [_without_keys(one) for one in cast("list[Any]", value)]
    return value


def shown_value(name: str, value: Any, *, secret: bool = False) -> str:
    """A variable's value: people must see what programs are told, unless it is a key."""
    text = str(value)
    if secret or _SECRET.search(name) or redacted(text) != text:
        return f"(hidden, {hashlib.sha256(text.encode(errors='replace')).hexdigest()[:8]})"
    return text


def started(value: Any, name: str = "", depth: int = 0) -> Iterator[str]:
    """Every text in it that is or could be a command line, and variables, which can tell programs what to load."""
    if depth > _DEEPEST:
        return
    if isinstance(value, dict):
        yield from _started_by(cast("dict[str, Any]", value), name, depth)
    elif isinstance(value, list):
        for one in cast("list[Any]", value):
            yield from started(one, name, depth + 1)
    elif isinstance(value, str) and (name == "env" or _STARTS.search(name)):
        yield value


def _started_by(fields: dict[str, Any], name: str, depth: int) -> Iterator[str]:
    if line := command_line(fields):
        yield line
        yield from map(str, as_list(fields.get("args")))  # an argument may contain blanks
    for key, one in fields.items():
        if key not in ("command", "args"):
            yield from started(one, "env" if "env" in (name, key) else key, depth + 1)


def command_line(fields: dict[str, Any]) -> str:
    """What a hook or server starts or connects to; empty if it says neither."""
    first = fields.get("command") or fields.get("url")
    words = as_list(first) or [first]
    return " ".join(map(str, [*words, *as_list(fields.get("args"))])) if first else ""
