"""Lines of a diff as the screen shows them: numbered, hard-wrapped, with colours for code and changed words."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct
from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from teamwright.surfaces.terminal.render.themes import Palette
from teamwright.surfaces.view.diff import DiffRow

SIGNS = {"add": "+ ", "del": "- "}
CONTINUES = "↪ "  # text cannot produce this


class DiffLine(Struct, frozen=True):
    """The part of a row that fits on one line of the screen."""

    row: DiffRow
    gutter: str
    start: int
    end: int


def lay_out(rows: Sequence[DiffRow], width: int, *, marked: bool = True) -> list[DiffLine]:
    """No row is cut: a long one continues below, behind a mark if there is a gutter for it.

    Without `marked`, rows that are neither removed nor added have no gutter.
    """
    digits = len(str(max((row.number for row in rows), default=0) or ""))
    marked = marked or any(row.kind in SIGNS for row in rows)
    lines: list[DiffLine] = []
    for row in rows:
        number = f"{row.number or '':>{digits}} " if digits else ""
        sign = SIGNS.get(row.kind, "  " if marked else "")
        room = max(4, width - len(number) - len(sign))
        lines += _broken(row, room, f"{number}{sign}", f"{' ' * len(number)}{CONTINUES[: len(sign)]}")
    return lines


def _broken(row: DiffRow, room: int, gutter: str, beneath: str) -> Iterator[DiffLine]:
    """The row in lines of this width; `beneath` begins all but the first."""
    at = 0
    for part in [row.text] if cell_len(row.text) <= room else chop_cells(row.text, room):
        yield DiffLine(row, gutter, at, at + len(part))
        at, gutter = at + len(part), beneath


def draw_line(line: DiffLine, palette: Palette, base: Style) -> Strip:
    """`base` is the style of the row's kind."""
    row = line.row
    edges = {line.start, line.end}
    edges.update(at for start, end in row.marks for at in (start, end))
    edges.update(at for start, end, _ in row.syntax for at in (start, end))
    inside = sorted(at for at in edges if line.start <= at <= line.end)
    number = Style.parse(palette.dim) if palette.dim else Style()
    gutter = [Segment(line.gutter, number + Style(bgcolor=base.bgcolor) if row.kind == "dim" else base)]
    parts = [Segment(row.text[a:b], _style(row, a, palette, base)) for a, b in pairwise(inside)]
    return Strip([*gutter, *parts])


def _style(row: DiffRow, at: int, palette: Palette, base: Style) -> Style:
    style = base
    name = next((name for start, end, name in row.syntax if start <= at < end), "")
    if name and palette.name != "none":
        style += syntax_style(palette.syntax, name)
    if any(start <= at < end for start, end in row.marks):
        style += Style.parse(palette.added_mark if row.kind == "add" else palette.removed_mark)
    return style


@lru_cache(500)
def syntax_style(theme: str, name: str) -> Style:
    """Only the colour: the background belongs to the change."""
    from pygments.token import string_to_tokentype  # noqa: PLC0415  # slow to import
    from rich.syntax import Syntax  # noqa: PLC0415

    found = Syntax.get_theme(theme).get_style_for_token(tuple(string_to_tokentype(name.removeprefix("Token."))))
    return Style(color=found.color)
