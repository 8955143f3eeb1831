"""A sheet that shows all of a text, however long: hard-wrapped, and drawn line by line."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from teamwright.surfaces.terminal.render.diff_lines import DiffLine, draw_line, lay_out
from teamwright.surfaces.terminal.widgets.rows import palette_of
from teamwright.surfaces.view.diff import DiffRow
from teamwright.surfaces.view.text import MOST_TEXT


class Sheet(ScrollView, can_focus=True):
    """No line is cut: a long one continues below, behind a mark that text cannot produce."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_up", "Up", show=False),
        Binding("down,j", "scroll_down", "Down", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("pagedown,space", "page_down", "Page down", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"sheet--plain", "sheet--strong", "sheet--dim"}
    DEFAULT_CSS = """
    Sheet {
        height: auto; max-height: 100%; background: $surface; overflow-x: hidden; scrollbar-size-vertical: 1;
    }
    Sheet > .sheet--plain { color: $foreground; }
    Sheet > .sheet--strong { color: $foreground; text-style: bold; }
    Sheet > .sheet--dim { color: $text-muted; }
    """

    class Scrolled(Message):
        """Lines `first` to `last` of `total` are visible."""

        def __init__(self, first: int, last: int, total: int) -> None:
            super().__init__()
            self.first, self.last, self.total = first, last, total

    def __init__(self, rows: Sequence[DiffRow] = (), *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows = list(rows)
        self._lines: list[DiffLine] = []  # as wide as the sheet
        self._width = self._height = 0
        self._ended = False  # whether somebody has gone to the last line

    def show(self, rows: Sequence[DiffRow]) -> None:
        self._rows, self._width, self._ended = list(rows), 0, False
        self._wrap(self.scrollable_content_region.width)
        self.refresh(layout=True)
        self.call_after_refresh(self._tell)  # the height may be unchanged

    @property
    def is_read(self) -> bool:
        """Whether all of it is on the screen, or somebody has gone to its end."""
        if not self._rows:
            return True
        whole = 0 < self._height <= self.scrollable_content_region.height
        return self._width > 0 and (whole or self._ended)

    @property
    def is_laid_out(self) -> bool:
        """Whether it is as wide as the room beside a scrollbar."""
        return self._width == self.scrollable_content_region.width

    @property
    def height_needed(self) -> int:
        return self._height

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        self._wrap(width)
        return max(1, self._height)

    def on_resize(self) -> None:
        self._wrap(self.scrollable_content_region.width)
        self._tell()

    def watch_show_vertical_scrollbar(self) -> None:
        """The scrollbar takes the last cells, which must not be hidden below it."""
        self.call_after_refresh(self.on_resize)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._tell()

    def _tell(self) -> None:
        first, height = int(self.scroll_offset.y), self.scrollable_content_region.height
        total = self._height
        self._ended = self._ended or (first > 0 and height > 0 and first + height >= total > 0)
        self.post_message(self.Scrolled(first + 1, min(total, first + height), total))

    def _wrap(self, width: int) -> None:
        if width <= 2 or width == self._width:
            return
        self._width = width
        self._height = self._lay_out(width)
        self.virtual_size = Size(width, self._height)

    def _lay_out(self, width: int) -> int:
        """Lay out the rows; returns the number of lines in this width."""
        self._lines = lay_out(self._rows, width)
        return len(self._lines)

    def _draw(self, at: int) -> Strip:
        line = self._lines[at]
        style = self._style(line.row.kind)
        return draw_line(line, palette_of(self), style).adjust_cell_length(self._width, style)

    def _style(self, kind: str) -> Style:
        """The style of a kind of row; added and removed rows look as in conversations."""
        palette = palette_of(self)
        changes = {"add": palette.added, "del": palette.removed}
        return Style.parse(changes[kind]) if kind in changes else self.get_component_rich_style(f"sheet--{kind}")

    def render_line(self, y: int) -> Strip:
        at = int(self.scroll_offset.y) + y
        width = self.scrollable_content_region.width
        if at >= self._height:
            return Strip.blank(width, self.rich_style)
        return self._draw(at).adjust_cell_length(width).apply_style(self.rich_style)


class PlanSheet(Sheet):
    """A plan, drawn as Markdown; if it is too long for that, as it was written."""

    def __init__(self, args: Mapping[str, Any], rows: Sequence[DiffRow]) -> None:
        """`rows` are the whole request as plain lines."""
        super().__init__(rows)
        self._plan = str(args.get("plan", ""))
        self._strips: list[Strip] = []

    def _lay_out(self, width: int) -> int:
        from teamwright.surfaces.terminal.render.markdown import MarkdownPieces  # noqa: PLC0415  # slow to import

        if not self._plan.strip() or len(self._plan) > MOST_TEXT:
            return super()._lay_out(width)
        self._strips = MarkdownPieces().draw(self._plan, width - 1, palette_of(self))
        return len(self._strips)

    def _draw(self, at: int) -> Strip:
        return self._strips[at] if self._strips else super()._draw(at)
