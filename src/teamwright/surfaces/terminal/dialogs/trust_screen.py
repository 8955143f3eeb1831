"""Dialog that asks whether a directory is trusted, with what it would run or what changed since the last yes."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from teamwright.library.trust.decision import TrustContents
from teamwright.surfaces.port.trust_question import change_rows, trust_rows
from teamwright.surfaces.terminal.dialogs.base import BOX, make_room, show_hidden
from teamwright.surfaces.terminal.dialogs.docked import turn_page
from teamwright.surfaces.terminal.widgets.choices import GRACE, Choice, Choices
from teamwright.surfaces.terminal.widgets.rows import palette_of
from teamwright.surfaces.terminal.widgets.sheet import Sheet
from teamwright.surfaces.view.text import safe

_WARNING = "Its files can start programs and change what needs approval. Trust it only if you know who wrote them."
_CHANGED = "This directory has changed since you trusted it. Do you still trust it?"
_TOO_MUCH = "There is too much to show here. Read the files yourself, then start with --trust."
_ONCE = "asked once, and again when these files change; `teamwright --trust` trusts it for one run"


class TrustScreen(ModalScreen[bool]):
    """Shows, before anything of a directory is obeyed, what it would run, and asks whether the person wants that."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(False)", "No"),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
    ]
    DEFAULT_CSS = f"""
    TrustScreen {{
        align: center bottom;
        & > Vertical {{
            height: auto; max-height: 90%; width: 100%; max-width: 120;
            background: $surface; border: round $warning; padding: 0 1;
        }}
        {BOX}
    }}
    """

    def __init__(self, found: TrustContents, *, grace: float = GRACE) -> None:
        super().__init__()
        self._found, self._grace = found, grace
        self._never = _TOO_MUCH if any(part.hidden for part in found.parts) else ""

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("", classes="dialog--head", markup=False)
            yield Static(_WARNING, classes="dialog--reason", markup=False)
            yield Sheet(change_rows(self._found) if self._found.changes else trust_rows(self._found))
            yield Static("", classes="dialog--more", markup=False)
            no, yes = Choice("no", "No, work here without these files", "n"), Choice("yes", "Yes, I trust it", "y")
            yield Choices([no, yes], grace=self._grace)
            yield Static(_ONCE, classes="dialog--note", markup=False)

    def on_resize(self) -> None:
        self.call_after_refresh(make_room, self)

    def on_mount(self) -> None:
        where = safe(str(self._found.project))
        words = _CHANGED if self._found.changes else "Do you trust this directory?"
        head = Content.assemble((f"{words}\n", "bold"), (where, palette_of(self).accent))
        self.query_one(".dialog--head", Static).update(head)
        self.query_one(Choices).focus()

    def on_sheet_scrolled(self, event: Sheet.Scrolled) -> None:
        show_hidden(self, event, yes=("yes",), never=self._never)

    def action_page(self, by: int) -> None:
        turn_page(self.query_one(Sheet), by)

    @on(Choices.Chosen)
    def _chosen(self, event: Choices.Chosen) -> None:
        if event.choice != "yes" or (self.query_one(Sheet).is_read and not self._never):
            self.dismiss(event.choice == "yes")
