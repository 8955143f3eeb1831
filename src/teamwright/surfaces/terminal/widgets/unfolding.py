"""A list whose chosen row can be unfolded: its details are in a sheet below."""

from collections.abc import Callable, Mapping
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static

from teamwright.surfaces.terminal.render.themes import Palette
from teamwright.surfaces.terminal.widgets.rows import Follow, RowList, palette_of
from teamwright.surfaces.terminal.widgets.sheet import Sheet
from teamwright.surfaces.view.diff import DiffRow

Item = TypeVar("Item")


class UnfoldingList(Vertical, Generic[Item]):
    """Holds a `RowList` and a `Sheet`; Enter unfolds, Esc folds again."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "fold", "Fold", show=False)]
    DEFAULT_CSS = """
    UnfoldingList { height: 1fr; }
    UnfoldingList > Sheet { display: none; max-height: 50%; border-top: solid $border-blurred; }
    UnfoldingList.-open > Sheet { display: block; }
    UnfoldingList > .unfolding--head, UnfoldingList > .unfolding--keys { height: 1; padding: 0 1; color: $text-muted; }
    """

    def __init__(
        self,
        draw_row: Callable[[Item, int, Palette, Mapping[str, str]], Content],
        detail_rows: Callable[[Item], list[DiffRow]],
        *,
        id: str,
        keys: str,
        head: str = "",
        nothing: str = "",
        follow: Follow = "choice",
    ) -> None:
        """`head`: a line above the rows, if any. `nothing` is shown if there are no rows."""
        super().__init__(id=id)
        self._draw_row, self._detail_rows = draw_row, detail_rows
        self._keys, self._head, self._nothing = keys, head, nothing
        self._follow: Follow = follow
        self._items: dict[str, Item] = {}

    def compose(self) -> ComposeResult:
        if self._head:
            yield Static(self._head, classes="unfolding--head", markup=False)
        yield RowList()
        yield Sheet()
        yield Static(self._keys, classes="unfolding--keys", markup=False)

    def put(self, items: dict[str, Item], colors: Mapping[str, str], head: str = "") -> None:
        """`colors` of owners, by name."""
        self._items, palette = items, palette_of(self)
        if head:
            self.query_one(".unfolding--head", Static).update(Content(head))

        def rows(width: int) -> list[tuple[str, Content]]:
            found = [(key, self._draw_row(item, width, palette, colors)) for key, item in items.items()]
            return found or ([("none", Content.assemble((self._nothing, palette.dim)))] if self._nothing else [])

        self.query_one(RowList).show(rows, follow=self._follow)
        self._fill()

    def _fill(self) -> None:
        item = self._items.get(self.query_one(RowList).chosen or "")
        if self.has_class("-open") and item is not None:
            self.query_one(Sheet).show(self._detail_rows(item))

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self._fill()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.toggle_class("-open")
        self._fill()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.has_class("-open") if action == "fold" else True

    def action_fold(self) -> None:
        self.remove_class("-open")
