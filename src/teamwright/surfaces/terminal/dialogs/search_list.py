"""Common base of the pickers: a list below an input that keeps the focus."""

from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from teamwright.surfaces.terminal.widgets.rows import RowList

Result = TypeVar("Result")


class SearchList(ModalScreen[Result]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "move(1)", show=False, priority=True),
        Binding("up", "move(-1)", show=False, priority=True),
    ]

    DEFAULT_CSS = """
    SearchList RowList > .option-list--option-highlighted {
        background: $block-cursor-background; text-style: $block-cursor-text-style;
    }
    """  # the input has the focus, and Enter takes the marked row
    _parts = 0

    def on_mount(self) -> None:
        self._parts = len(self.query("Vertical > *"))

    @property
    def is_whole(self) -> bool:
        """False while it closes: its parts go one by one, and late results may still want to be drawn."""
        return len(self.query("Vertical > *")) >= max(self._parts, 1)

    def action_move(self, by: int) -> None:
        listing = self.query_one(RowList)
        listing.action_cursor_down() if by > 0 else listing.action_cursor_up()
