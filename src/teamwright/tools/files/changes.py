"""File changes as hunks: for the person who approves a call, and for tool results."""

from collections.abc import Sequence
from typing import Any

from teamwright.core.data.content.patch import Hunk, hunks_between
from teamwright.tools.bounds import visible

_MOST_LINES = 400
_LONGEST = 500


def shown_hunks(before: str, after: str) -> tuple[Hunk, ...]:
    """Whole lines, with hidden characters escaped."""
    found = hunks_between(before, after)
    return tuple(Hunk(hunk.old_start, hunk.new_start, tuple(map(visible, hunk.lines))) for hunk in found)


def patch_data(before: str, after: str) -> dict[str, Any]:
    """The hunks as result data; left out if they have too many lines."""
    found = shown_hunks(before, after)
    if not found or sum(len(hunk.lines) for hunk in found) > _MOST_LINES:
        return {}
    return {"structuredPatch": [_hunk_data(hunk.old_start, hunk.new_start, hunk.lines) for hunk in found]}


def _hunk_data(old_start: int, new_start: int, lines: Sequence[str]) -> dict[str, Any]:
    return {
        "oldStart": old_start,
        "oldLines": sum(line[0] != "+" for line in lines),
        "newStart": new_start,
        "newLines": sum(line[0] != "-" for line in lines),
        "lines": [line[: _LONGEST + 1] for line in lines],
    }
