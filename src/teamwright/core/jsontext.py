"""JSON that people wrote, decoded with the place of a mistake told by line and column."""

import re
from typing import Any, cast

import msgspec

from teamwright.core.errors import SettingsError

_AT_BYTE = re.compile(r"\s*\(byte (\d+)\)$")


def decode_object(data: bytes, name: str) -> dict[str, Any]:
    """The object that `data` holds; nothing at all is an empty one. `name` is how errors call the text."""
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
    return cast("dict[str, Any]", value)


def _place(error: Exception, data: bytes) -> tuple[str, int, int]:
    if isinstance(error, UnicodeDecodeError):
        return ("a byte that is not UTF-8", *_line_and_column(data, error.start))
    words = str(error)
    found = _AT_BYTE.search(words)
    if found is None:  # the text just stops
        return ("the text ends too early", *_line_and_column(data, len(data.rstrip())))
    reason = words[: found.start()].removeprefix("JSON is malformed: ")
    return (reason, *_line_and_column(data, int(found[1])))


def _line_and_column(data: bytes, at: int) -> tuple[int, int]:
    before = data[:at]
    start = before.rfind(b"\n") + 1
    return before.count(b"\n") + 1, len(before[start:].decode(errors="replace")) + 1
