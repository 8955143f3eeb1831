"""Asks for one value in words. One that does not fit is refused at once, and stays for correction."""

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from teamwright.core.errors import TeamwrightError
from teamwright.surfaces.terminal.widgets.rows import palette_of


class ValueEntry(ModalScreen[str | None]):
    """`check` raises for words that cannot be accepted."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "dismiss(None)", "Close", priority=True),
    ]
    DEFAULT_CSS = """
    ValueEntry {
        align: left bottom;
        & > Vertical { height: auto; width: 100%; background: $surface; border: round $border; padding: 0 1; }
        & Static { height: auto; color: $text-muted; }
        & Input, & Input:focus { border: none; height: 1; margin-bottom: 1; padding: 0; background: transparent; }
    }
    """

    def __init__(self, title: str, now: str, about: str, check: Callable[[str], object]) -> None:
        super().__init__()
        self._title, self._now, self._about, self._check = title, now, about, check

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Content(f"{self._title}: {self._about}"), markup=False)
            yield Input(self._now, placeholder="empty: not set", select_on_focus=False)
            yield Static(Content("Enter saves it · Esc: leave it as it is"), classes="entry--note", markup=False)

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        words = event.value.strip()
        try:
            self._check(words)
        except TeamwrightError as error:
            note = Content.assemble((str(error), palette_of(self).bad))
            self.query_one(".entry--note", Static).update(note)
        else:
            self.dismiss(words)
