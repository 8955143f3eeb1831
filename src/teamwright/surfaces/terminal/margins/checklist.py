"""Checklist of open work above the input."""

from collections.abc import Mapping, Sequence

from textual.content import Content
from textual.widgets import Static

from teamwright.core.data.tasks import Task
from teamwright.surfaces.terminal.render.themes import Palette, agent_style
from teamwright.surfaces.terminal.widgets.rows import Piece, palette_of
from teamwright.surfaces.view.checklist import ChecklistRow, State, checklist

MARKS: dict[State, str] = {"done": "✓", "active": "▸", "open": "○", "blocked": "◇"}
SHARE, LEAST, MOST = 4, 3, 10  # share of the screen's height, and limits in lines


class TaskChecklist(Static):
    DEFAULT_CSS = """
    TaskChecklist {
        height: auto; display: none; padding: 0 1; background: $background;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__("", id=id, markup=False)
        self._drawn: object = None

    def show(self, tasks: Sequence[Task], colors: Mapping[str, str], *, alone: bool) -> bool:
        """Draw it if it has changed. `colors` of owners by name; `alone`: there is only the main agent."""
        most = min(MOST, max(LEAST, self.screen.size.height // SHARE))
        found = checklist(tasks, most)
        palette = palette_of(self)
        key = (found, palette.name, alone, tuple(colors.items()))
        if key == self._drawn:
            return False
        self._drawn = key
        lines = [_line(row, palette, {} if alone else colors, named=not alone) for row in found.rows]
        if found.more:
            lines.append(Content.assemble((f"  +{found.more} more  Ctrl+T hides them", palette.dim)))
        self.display = bool(lines)
        self.update(Content("\n").join(lines))
        return True


def _line(row: ChecklistRow, palette: Palette, colors: Mapping[str, str], *, named: bool) -> Content:
    style = {"done": palette.dim, "active": palette.text, "open": palette.text, "blocked": palette.dim}[row.state]
    mark = {"done": palette.good, "active": palette.accent, "open": palette.dim, "blocked": palette.warn}[row.state]
    text = f"bold {style}".strip() if row.state == "active" else style
    pieces: list[Piece] = [(f"  {MARKS[row.state]} ", mark), (row.text, text)]
    if named and row.owner:
        pieces.append((f"  {row.owner}", agent_style(colors.get(row.owner, ""), palette)))
    return Content.assemble(*pieces)
