"""Prints listings: plain tables for people, JSON for programs. Everything is escaped before it reaches a terminal."""

import json
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import msgspec

from teamwright.tools.bounds import visible

_NARROWEST = 40  # columns of a terminal
_LEAST = 8  # of a column that is made narrower
_PADDED = 60  # longer cells do not widen their column if rows are lines


def print_json(value: Any) -> None:
    """Escapes all but plain ASCII: paths that are not UTF-8 survive, and nothing invisible gets through."""
    sys.stdout.write(json.dumps(msgspec.to_builtins(value), indent=2).replace("\x7f", "\\u007f") + "\n")


def say(line: str) -> None:
    sys.stdout.write(visible(line) + "\n")


def local_time(at: int | None) -> str:
    """Milliseconds since 1970 as local time."""
    return "-" if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at / 1000))


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """On a terminal, cells are wrapped so that all columns fit; elsewhere each row is one line, for `grep`."""
    widths, lines = _laid_out([[visible(cell).replace("\n", " ") for cell in row] for row in rows])
    for row in lines:
        for parts in zip_longest(*row, fillvalue=""):
            padded = (part.ljust(width) for part, width in zip(parts, widths, strict=True))
            sys.stdout.write("  ".join(padded).rstrip() + "\n")


def _laid_out(shown: list[list[str]]) -> tuple[list[int], list[list[list[str]]]]:
    """The width of each column, and the lines of each cell."""
    room, columns = _room(), list(zip(*shown, strict=True))
    if room is None:
        widths = [max((len(cell) for cell in column if len(cell) <= _PADDED), default=0) for column in columns]
        return widths, [list(map(_whole, row)) for row in shown]
    widths = _fitting([max(map(len, column)) for column in columns], room)
    return widths, [[_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)] for row in shown]


def _room() -> int | None:
    """Width of the terminal, or the one that the environment sets; None: unlimited."""
    if not (sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()):
        return None
    return max(_NARROWEST, shutil.get_terminal_size().columns)


def _fitting(widths: list[int], room: int) -> list[int]:
    """Make the widest columns narrower, except the first one, whose words are copied into commands."""
    fitted, excess = list(widths), sum(widths) + 2 * (len(widths) - 1) - room
    while excess > 0:
        n = max(range(1, len(fitted)), key=lambda n: fitted[n], default=0)
        if n == 0 or fitted[n] <= _LEAST:
            break
        fitted[n] -= 1
        excess -= 1
    return fitted


def _whole(cell: str) -> list[str]:
    return [cell]


def _wrapped(cell: str, width: int) -> list[str]:
    if len(cell) <= width:
        return [cell]
    return textwrap.wrap(cell, max(1, width), break_on_hyphens=False) or [""]
