"""Dialogs of a rewind: the session's prompts, then what is to go back, and a last question about others' work."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static

from teamwright.core.data.op import Rewind
from teamwright.core.text import plural
from teamwright.runtime.port import RewindPoint, RewindPreview
from teamwright.surfaces.terminal.dialogs.base import make_room
from teamwright.surfaces.terminal.dialogs.docked import turn_page
from teamwright.surfaces.terminal.render.themes import Palette
from teamwright.surfaces.terminal.widgets.choices import Choice, Choices, no_first
from teamwright.surfaces.terminal.widgets.rows import Piece, RowList, palette_of, row
from teamwright.surfaces.terminal.widgets.sheet import Sheet
from teamwright.surfaces.view.diff import DiffRow, lines_of
from teamwright.surfaces.view.text import one_line, said

if TYPE_CHECKING:
    from teamwright.surfaces.terminal.app import TerminalApp

DAY = 24 * 3600
_HINT = "↑↓ Enter: go back to before it · Esc: leave everything as it is"
_BOX = """
    align: center bottom;
    & > Vertical {
        height: auto; max-height: 90%; width: 100%; max-width: 120;
        background: $surface; border: round $border; padding: 0 1;
    }
    & .dialog--head, & .dialog--note { height: auto; }
    & .dialog--note { color: $text-muted; margin-top: 1; }
    & Sheet { max-height: 16; margin: 1 0; }
    & RowList { height: auto; max-height: 20; margin-top: 1; }
"""


def point_row(point: RewindPoint, clock: str, width: int, palette: Palette) -> Content:
    """Time, first line, and what was changed from there to the next point."""
    right: list[Piece] = []
    if point.files:
        right.append((f"  {plural(point.files, 'file')}", palette.dim))
        right += [(f" +{point.plus}", palette.good), (f" -{point.minus}", palette.bad)]
    if point.gaps and width >= 60:
        right.append(("  not all covered", palette.warn))
    left: list[Piece] = [(f"{clock}  ", palette.dim)]
    if point.kind == "rewind":
        left.append(("↶ take this rewind back", palette.accent))
    else:
        left.append((one_line(said(point.text).strip() or "(no words)", 300), palette.text))
    return row(left, right, width)


def _clock(at: int, now: float) -> str:
    moment = at / 1000
    return time.strftime("%H:%M" if now - moment < DAY else "%b %d %H:%M", time.localtime(moment))


class RewindPicker(ModalScreen[RewindPoint | None]):
    """The newest point is the last one, and is chosen first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Leave")]
    DEFAULT_CSS = f"RewindPicker {{ {_BOX} }}"

    def __init__(self, points: Sequence[RewindPoint]) -> None:
        super().__init__()
        self._points = {str(point.line): point for point in points}

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("Rewind: back to before which prompt?", classes="dialog--head", markup=False)
            yield RowList()
            yield Static("", classes="dialog--note", markup=False)

    def on_mount(self) -> None:
        palette, now = palette_of(self), time.time()
        clocks = {id: _clock(point.at, now) for id, point in self._points.items()}
        widest = max(map(len, clocks.values()), default=0)

        def rows(width: int) -> list[tuple[str, Content]]:
            points = self._points.items()
            return [(id, point_row(point, clocks[id].rjust(widest), width, palette)) for id, point in points]

        listing = self.query_one(RowList)
        listing.show(rows, follow="end")
        listing.focus()
        gaps = list(dict.fromkeys(gap for point in self._points.values() for gap in point.gaps))
        words = [_HINT, *(f"not covered: {one_line(gap, 200)}" for gap in gaps[:3])]
        self.query_one(".dialog--note", Static).update(Content("\n".join(words)))

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self._points[event.option_id or ""])


def preview_rows(preview: RewindPreview, home: str) -> list[DiffRow]:
    """Every file by name, with anything that stands against it."""
    others = set(preview.others)

    def line(verb: str, path: str) -> str:
        changed = "   changed by somebody else since" if path in others else ""
        return f"{verb}  {one_line(path.removeprefix(f'{home}/'), 300)}{changed}"

    rows = [row for path in preview.restores for row in lines_of("plain", line("put back", path))]
    rows += [row for path in preview.removes for row in lines_of("plain", line("remove  ", path))]
    rows += [row for left in preview.left for row in lines_of("dim", f"stays     {one_line(left, 400)}")]
    return rows + [row for note in preview.notes for row in lines_of("dim", one_line(note, 400))]


def choices_for(preview: RewindPreview) -> list[Choice]:
    files = len(preview.restores) + len(preview.removes)
    talk = Choice("conversation", "the conversation; files stay as they are", "c")
    if not files:
        return [talk]
    words = plural(files, "file")
    return [
        Choice("both", f"the conversation and {words}", "b"),
        talk,
        Choice("files", f"{words}; the conversation stays as it is", "f"),
    ]


class RewindQuestion(ModalScreen[str | None]):
    """A question with its details, and its answers by id; None: back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back"),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
    ]
    DEFAULT_CSS = f"RewindQuestion {{ {_BOX} }}"

    def __init__(self, head: Sequence[Piece], rows: Sequence[DiffRow], choices: Sequence[Choice]) -> None:
        super().__init__()
        self._head, self._rows, self._choices = head, rows, choices

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Content.assemble(*self._head), classes="dialog--head", markup=False)
            yield Sheet(self._rows)
            yield Static("", classes="dialog--more", markup=False)
            yield Choices(self._choices, grace=0)
            yield Static("PgUp PgDn: all lines · Esc: back", classes="dialog--note", markup=False)

    def on_mount(self) -> None:
        self.query_one(Sheet).display = bool(self._rows)
        self.query_one(".dialog--more").display = False
        self.query_one(Choices).focus()

    def on_resize(self) -> None:
        self.call_after_refresh(make_room, self)

    @on(Choices.Chosen)
    def _chosen(self, event: Choices.Chosen) -> None:
        self.dismiss(event.choice)

    def action_page(self, by: int) -> None:
        turn_page(self.query_one(Sheet), by)


def ask_what(point: RewindPoint, preview: RewindPreview, home: str) -> RewindQuestion:
    """Ask what goes back; names of files are relative to `home`."""
    about = "the rewind" if point.kind == "rewind" else f"“{one_line(said(point.text).strip(), 200)}”"
    head = [("Back to before ", "bold"), (about, ""), (": what goes back?", "bold")]
    return RewindQuestion(head, preview_rows(preview, home), choices_for(preview))


def ask_about_others(preview: RewindPreview, home: str) -> RewindQuestion:
    """Ask before overwriting what somebody else has written."""
    count = plural(len(preview.others), "file")
    head = [(f"Somebody else has changed {count} since the agents did. Rewind over that?", "bold")]
    rows = [row for path in preview.others for row in lines_of("plain", one_line(path.removeprefix(f"{home}/"), 300))]
    yes = Choice("yes", "Yes; what is there now is kept, and this rewind can be taken back", "y")
    return RewindQuestion(head, rows, no_first([yes, Choice("no", "No, leave everything as it is", "n")], "no"))


async def rewind_by_dialogs(app: "TerminalApp") -> None:
    """From the list of points to the rewind itself; the prompt that is left returns to the input."""
    points = await app.session.points()
    if not points:
        app.hint("there is no prompt to go back to yet")
        return
    while (point := await app.push_screen_wait(RewindPicker(points))) is not None:
        if (op := await _choose(app, point)) is not None:
            app.open_agent(app.view.main)
            await app.session.submit(op)
            if op.conversation and not app.prompt.text:
                app.prompt.put(point.text)
            return


async def _choose(app: "TerminalApp", point: RewindPoint) -> Rewind | None:
    """None: back to the list."""
    preview, home = await app.session.preview(point.line), str(app.session.cwd)
    chosen = await app.push_screen_wait(ask_what(point, preview, home))
    if chosen is None:
        return None
    talk, files = chosen in ("both", "conversation"), chosen in ("both", "files")
    force = files and bool(preview.others)
    if force and await app.push_screen_wait(ask_about_others(preview, home)) != "yes":
        return None
    return Rewind(point.line, talk, files, force)
