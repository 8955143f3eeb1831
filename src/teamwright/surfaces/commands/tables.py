"""Prints listings: plain tables for people, JSON for programs. Nothing reaches a terminal raw."""

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from teamwright.tools.bounds import visible


def print_json(value: Any) -> None:
    """All but plain ASCII is escaped: paths that are not UTF-8 survive, and nothing invisible gets through."""
    sys.stdout.write(json.dumps(msgspec.to_builtins(value), indent=2).replace("\x7f", "\\u007f") + "\n")


def local_time(at: int | None) -> str:
    """Milliseconds since 1970, as the clock on the wall shows them."""
    return "-" if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at / 1000))


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as their longest cell, but for the last one."""
    shown = [[visible(cell).replace("\n", " ") for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        sys.stdout.write("  ".join([*cells, row[-1]]).rstrip() + "\n")
