"""Computes the change of a text as hunks: removed and added lines with line numbers and context."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

CONTEXT = 3
MOST_LINES = 1_500  # old and new together, from the first change to the last; above this no hunks are made


class Hunk(Struct, frozen=True):
    """`lines` begin with a space, `-` or `+`; numbers count from 1."""

    old_start: int
    new_start: int
    lines: tuple[str, ...]


class _ResultHunk(Struct):
    oldStart: int
    newStart: int
    lines: list[str]


def patch_of(data: dict[str, Any] | None) -> tuple[Hunk, ...]:
    """The hunks in a tool's result data. Third-party tools may put anything there, so bad data yields none."""
    try:
        hunks = msgspec.convert((data or {}).get("structuredPatch") or [], list[_ResultHunk])
    except msgspec.ValidationError:
        return ()
    return tuple(Hunk(hunk.oldStart, hunk.newStart, tuple(hunk.lines)) for hunk in hunks if all(hunk.lines))


def count_lines(hunks: Iterable[Hunk]) -> tuple[int, int]:
    """The number of added and of removed lines."""
    marks = [line[0] for hunk in hunks for line in hunk.lines]
    return marks.count("+"), marks.count("-")


def hunks_between(before: str, after: str) -> tuple[Hunk, ...]:
    """The hunks of a change; none if nothing changed or if too many lines lie between the first and the last change."""
    from difflib import SequenceMatcher  # noqa: PLC0415  # slow to import

    start, old_end, new_end = _changed_lines(before, after)
    old, new = _lines(before[start:old_end]), _lines(after[start:new_end])
    if len(old) + len(new) > MOST_LINES:
        return ()
    top = before.count("\n", 0, start) + 1
    hunks: list[Hunk] = []
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT):
        lines: list[str] = []
        for kind, a, b, c, d in group:
            lines += [f"{' ' if kind == 'equal' else '-'}{line}" for line in old[a:b]]
            lines += [f"+{line}" for line in new[c:d] if kind != "equal"]
        hunks.append(Hunk(top + group[0][1], top + group[0][3], tuple(lines)))
    return tuple(hunks)


def _lines(text: str) -> list[str]:
    """Splits lines; a final newline does not start another one."""
    return text.removesuffix("\n").split("\n") if text else []


def _changed_lines(before: str, after: str) -> tuple[int, int, int]:
    """Start of the differing lines, with context, and their end in both texts. Avoids splitting a big file as a
    whole."""
    most = min(len(before), len(after))
    same = _common(most, lambda n: before[:n] == after[:n])
    back = _common(most - same, lambda n: before[len(before) - n :] == after[len(after) - n :])
    start = same
    for _ in range(CONTEXT + 1):
        start = before.rfind("\n", 0, max(start, 0))
        if start < 0:
            break
    start = max(start + 1, 0)
    end = len(before) - back
    for _ in range(CONTEXT + 1):
        end = before.find("\n", end) + 1
        if not end:
            end = len(before)
            break
    return start, end, end + len(after) - len(before)


def _common(most: int, agree: Callable[[int], bool]) -> int:
    """The largest n up to `most` with `agree(n)`, by bisection: if it holds for n, it holds for all smaller numbers."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if agree(middle) else (low, middle - 1)
    return low
