"""Page over the conversation that shows the changes in a work tree."""

import re
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from teamwright.core.data.content.patch import Hunk
from teamwright.surfaces.terminal.widgets.sheet import Sheet
from teamwright.surfaces.view.diff import DiffRow, hunk_rows
from teamwright.surfaces.view.text import safe

_FILE = re.compile(r"^diff --git ", re.MULTILINE)  # lines of a file have a sign before them, so they never match
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)")
_HEADERS = ("index ", "--- ", "+++ ", "new file", "deleted file", "similarity", "rename ", "old mode", "new mode")


def diff_rows(text: str) -> list[DiffRow]:
    """The lines of `git diff`, drawn like other changes: numbered, in colours, with the changed words marked."""
    rows: list[DiffRow] = []
    for file in filter(None, _FILE.split(text)):
        rows += [*([DiffRow("plain", "")] if rows else []), *_file_rows(file)]
    return rows


def _file_rows(text: str) -> list[DiffRow]:
    head, *lines = text.split("\n")
    path = safe(head).rpartition(" b/")[2]
    rows, hunks = [DiffRow("strong", path)], list[tuple[int, int, list[str]]]()
    for line in lines:
        if starts := _HUNK.match(line):
            hunks.append((int(starts[1]), int(starts[2]), []))
        elif hunks:
            if line and not line.startswith("\\"):  # this one says that there is no newline at the end
                hunks[-1][2].append(line)
        elif line and not line.startswith(_HEADERS):
            rows.append(DiffRow("plain", safe(line)))
    return [*rows, *hunk_rows([Hunk(old, new, tuple(told)) for old, new, told in hunks], path)]


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
