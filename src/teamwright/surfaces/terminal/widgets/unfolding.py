"""A list whose chosen row can be unfolded: what there is to say of it stands in a sheet below."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import OptionList

from teamwright.surfaces.terminal.widgets.rows import RowList
from teamwright.surfaces.terminal.widgets.sheet import Sheet
from teamwright.surfaces.view.diff import DiffRow


class UnfoldingList(Vertical):
    """Holds a `RowList` and a `Sheet`; Enter unfolds, Esc folds again."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "fold", "Fold", show=False)]
    DEFAULT_CSS = """
    UnfoldingList { height: 1fr; }
    UnfoldingList > Sheet { display: none; max-height: 50%; border-top: solid $border-blurred; }
    UnfoldingList.-open > Sheet { display: block; }
    """

    def details(self, key: str) -> list[DiffRow] | None:
        """The rows of the sheet for what is chosen; None if there is no such thing."""
        raise NotImplementedError

    def fill(self) -> None:
        if self.has_class("-open") and (rows := self.details(self.query_one(RowList).chosen or "")) is not None:
            self.query_one(Sheet).show(rows)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self.fill()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.toggle_class("-open")
        self.fill()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.has_class("-open") if action == "fold" else True

    def action_fold(self) -> None:
        self.remove_class("-open")
