"""Reads what a tool's result says that it changed."""

from typing import Any

import msgspec
from msgspec import Struct

from teamwright.core.data.content.patch import Hunk


class ResultHunk(Struct):
    oldStart: int
    newStart: int
    lines: list[str]


def patch_of(data: dict[str, Any] | None) -> tuple[Hunk, ...]:
    """The hunks of a result; a tool that somebody else brought may have written anything there."""
    try:
        hunks = msgspec.convert((data or {}).get("structuredPatch") or [], list[ResultHunk])
    except msgspec.ValidationError:
        return ()
    return tuple(Hunk(hunk.oldStart, hunk.newStart, tuple(hunk.lines)) for hunk in hunks if all(hunk.lines))
