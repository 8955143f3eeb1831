"""Decodes JSON written by people, reports mistakes by line and column, and narrows values of unknown type."""

import re
from typing import Any, cast

import msgspec

from teamwright.core.errors import SettingsError
from teamwright.core.text import shown

_MOST_TOLD = 10
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\],:]')
_AT_BYTE = re.compile(r"\s*\(byte (\d+)\)$")


def decode_object(data: bytes, name: str, problems: list[str] | None = None) -> dict[str, Any]:
    """Decodes an object; empty input is an empty object. `name` identifies the text in errors.

    Duplicate keys are added to `problems`; without that list they are an error.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        return {}
    try:
        value = msgspec.json.decode(data)
    except RecursionError:
        raise SettingsError(f"{name}: the JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason, line, column = _place(error, data)
        raise SettingsError(f"{name}:{line}:{column}: not valid JSON: {reason}") from None
    if not isinstance(value, dict):
        raise SettingsError(f"{name}: must be a JSON object, `{{...}}`")
    twice = repeated_keys(data)
    if twice and problems is None:
        raise SettingsError(f"{name}: `{shown(twice[0], 120)}` stands there twice; put the two together")
    if problems is not None:
        problems += [
            f"{shown(name)}: `{shown(key, 120)}` stands there twice: only the last one counts, and what the other says "
            "is lost. Put the two together."
            for key in twice[:_MOST_TOLD]
        ]
    return cast("dict[str, Any]", value)


def as_object(value: object) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def repeated_keys(data: bytes) -> list[str]:
    """Paths of keys that occur twice in one object of valid JSON: parsers keep one and lose the others."""
    found: list[str] = []
    path: list[str] = []
    seen: list[set[str] | None] = []  # one per open container; None for a list
    last = ""
    for token in _TOKEN.findall(data):
        if token in (b"{", b"["):
            seen.append(set() if token == b"{" else None)
            path.append(last)
            last = ""
        elif token in (b"}", b"]"):
            seen.pop()
            last = path.pop()
        elif token == b":" and seen and (keys := seen[-1]) is not None:
            if last in keys:
                found.append(".".join(filter(None, (*path[1:], last))))
            keys.add(last)
        elif token not in (b",", b":"):
            last = str(msgspec.json.decode(token))
    return list(dict.fromkeys(found))


def _place(error: Exception, data: bytes) -> tuple[str, int, int]:
    if isinstance(error, UnicodeDecodeError):
        return ("a byte that is not UTF-8", *_line_and_column(data, error.start))
    words = str(error)
    found = _AT_BYTE.search(words)
    if found is None:  # no position: the text is truncated
        return ("the text ends too early", *_line_and_column(data, len(data.rstrip())))
    reason = words[: found.start()].removeprefix("JSON is malformed: ")
    return (reason, *_line_and_column(data, int(found[1])))


def _line_and_column(data: bytes, at: int) -> tuple[int, int]:
    before = data[:at]
    start = before.rfind(b"\n") + 1
    return before.count(b"\n") + 1, len(before[start:].decode(errors="replace")) + 1
