"""What has changed in a work tree, as a page over the conversation."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from teamwright.surfaces.terminal.widgets.sheet import Sheet
from teamwright.surfaces.view.diff import DiffRow
from teamwright.surfaces.view.text import safe

_HEADERS = ("index ", "--- ", "+++ ", "new file", "deleted file", "similarity", "rename ", "old mode", "new mode")


def diff_rows(text: str) -> list[DiffRow]:
    """The lines of `git diff` as the app draws changes."""
    rows: list[DiffRow] = []
    inside = False  # a hunk, where `--- ` is a line that goes
    for raw in text.split("\n"):
        line = safe(raw)
        if line.startswith("diff --git "):
            inside = False
            rows += [DiffRow("plain", ""), DiffRow("strong", line.removeprefix("diff --git ").rpartition(" b/")[2])]
        elif line.startswith("@@"):
            inside = True
            rows.append(DiffRow("dim", line))
        elif inside:
            rows.append(_hunk_row(line))
        elif not line.startswith(_HEADERS):
            rows.append(DiffRow("plain", line))
    return rows[1:] if rows and not rows[0].text else rows


def _hunk_row(line: str) -> DiffRow:
    if line[:1] in ("+", "-"):
        return DiffRow("add" if line[0] == "+" else "del", line[1:])
    return DiffRow("plain", line.removeprefix(" "))


class DiffScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,ctrl+c", "dismiss", "Close", priority=True)]
    DEFAULT_CSS = """
    DiffScreen {
        align: center middle;
        & > Vertical { height: 90%; width: 100%; background: $surface; border: round $border; padding: 0 1; }
        & Sheet { height: 1fr; }
        & Static { height: auto; color: $text-muted; }
    }
    """

    def __init__(self, rows: Sequence[DiffRow], note: str) -> None:
        super().__init__()
        self._rows, self._note = rows, note

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Sheet(self._rows)
            yield Static(f"{self._note} · ↑↓ PgUp PgDn scroll · Esc: close", markup=False)

    def on_mount(self) -> None:
        self.query_one(Sheet).focus()
