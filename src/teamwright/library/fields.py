"""Named values at the head of a file, with their lines and warnings."""

import re
from typing import Any

from msgspec import Struct, field

from teamwright.core.errors import SettingsError

_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?")
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


class FieldFault(SettingsError):
    """What is wrong, and on which line of the text, counted from 0."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


class Fields(Struct):
    """Values by name, their lines (counted from 0), and warnings with lines."""

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    lines: dict[str, int] = field(default_factory=dict[str, int])
    warnings: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def put(self, key: str, value: Any, line: int) -> None:
        if key in self.values:
            self.warnings.append((line, f"`{key}` is given twice; the last one counts"))
        self.values[key] = value
        self.lines[key] = line


def scalar(text: str) -> Any:
    """An unquoted value: null, a boolean, a number, else text. Dates, versions and `on` stay text."""
    if text in _WORDS:
        return _WORDS[text]
    found = _NUMBER.fullmatch(text)
    if found is None:
        return text
    return float(text) if found[1] else int(text)
