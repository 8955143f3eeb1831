"""A sheet of text that is shown whole, however long: wrapped hard at the edge, drawn line by line."""

from collections.abc import Sequence
from typing import ClassVar

from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from teamwright.surfaces.terminal.render.diff_lines import DiffLine, draw_line, lay_out
from teamwright.surfaces.terminal.widgets.rows import palette_of
from teamwright.surfaces.view.diff import DiffRow


class Sheet(ScrollView, can_focus=True):
    """No line is cut: one that is too long continues beneath, behind a mark that no text can make there."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_up", "Up", show=False),
        Binding("down,j", "scroll_down", "Down", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("pagedown,space", "page_down", "Page down", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"sheet--plain", "sheet--strong", "sheet--dim"}
    DEFAULT_CSS = """
    Sheet { height: auto; max-height: 100%; background: $surface; overflow-x: hidden; }
    Sheet > .sheet--plain { color: $foreground; }
    Sheet > .sheet--strong { color: $foreground; text-style: bold; }
    Sheet > .sheet--dim { color: $text-muted; }
    """

    class Scrolled(Message):
        """`first` to `last` of `total` lines can be seen."""

        def __init__(self, first: int, last: int, total: int) -> None:
            super().__init__()
            self.first, self.last, self.total = first, last, total

    def __init__(self, rows: Sequence[DiffRow] = (), *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows = list(rows)
        self._lines: list[DiffLine] = []  # as wide as the sheet
        self._width = 0
        self._ended = False  # has somebody turned to the last line?

    def show(self, rows: Sequence[DiffRow]) -> None:
        self._rows, self._width, self._ended = list(rows), 0, False
        self._wrap(self.scrollable_content_region.width)
        self.refresh(layout=True)
        self.call_after_refresh(self._tell)  # it may be just as high as before

    @property
    def is_read(self) -> bool:
        """Is all of it on the screen, or has somebody turned to its end?"""
        if not self._rows:
            return True
        whole = 0 < len(self._lines) <= self.scrollable_content_region.height
        return self._width > 0 and (whole or self._ended)

    @property
    def height_needed(self) -> int:
        return len(self._lines)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        self._wrap(width)
        return max(1, len(self._lines))

    def on_resize(self) -> None:
        self._wrap(self.scrollable_content_region.width)
        self._tell()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._tell()

    def _tell(self) -> None:
        first, height = int(self.scroll_offset.y), self.scrollable_content_region.height
        total = len(self._lines)
        self._ended = self._ended or (first > 0 and height > 0 and first + height >= total > 0)
        self.post_message(self.Scrolled(first + 1, min(total, first + height), total))

    def _wrap(self, width: int) -> None:
        if width <= 2 or width == self._width:
            return
        self._width = width
        self._lines = lay_out(self._rows, width)
        self.virtual_size = Size(width, len(self._lines))

    def _style(self, kind: str) -> Style:
        """Of what goes and comes it is the one that conversations have."""
        palette = palette_of(self)
        changes = {"add": palette.added, "del": palette.removed}
        return Style.parse(changes[kind]) if kind in changes else self.get_component_rich_style(f"sheet--{kind}")

    def render_line(self, y: int) -> Strip:
        at = int(self.scroll_offset.y) + y
        width = self.scrollable_content_region.width
        if at >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        line = self._lines[at]
        style = self._style(line.row.kind)
        return draw_line(line, palette_of(self), style).adjust_cell_length(width, style).apply_style(self.rich_style)
