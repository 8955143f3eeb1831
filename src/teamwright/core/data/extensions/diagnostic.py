"""Diagnostics that a language server reports about a file, and which of them are new after a change."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

Severity = Literal["error", "warning"]  # hints and remarks are for people who look at the file


class Diagnostic(Struct, frozen=True):
    line: int  # counted from 1
    severity: Severity
    message: str
    code: str = ""

    @property
    def kind(self) -> tuple[str, str, str]:
        """Identifies the diagnostic regardless of its line, which a change may move."""
        return self.severity, self.message, self.code


def new_ones(before: Sequence[Diagnostic], after: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Those of `after` that are not in `before`; errors first, then by line."""
    known = Counter(one.kind for one in before)
    found: list[Diagnostic] = []
    for one in after:
        if known[one.kind]:
            known[one.kind] -= 1
        else:
            found.append(one)
    return sorted(found, key=lambda one: (one.severity != "error", one.line))
