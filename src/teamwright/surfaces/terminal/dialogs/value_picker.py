"""Picker of one value from a list; typing narrows it."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import zip_longest
from typing import ClassVar

from msgspec import Struct
from rich.cells import cell_len
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static

from teamwright.core.errors import TeamwrightError
from teamwright.surfaces.terminal.dialogs.search_list import SearchList
from teamwright.surfaces.terminal.render.themes import Palette
from teamwright.surfaces.terminal.widgets.rows import Piece, RowList, palette_of, row
from teamwright.surfaces.view.text import one_line

AGAIN = 1.0  # seconds after which a changing list is read again
MOST_ROWS, MOST_CELLS = 16, 200
AROUND = 6  # lines of the picker in addition to its rows
WIDEST = 44  # cells of a column to which others are aligned


class Row(Struct, frozen=True):
    value: str
    columns: tuple[str, ...] = ()  # shown instead of the value
    note: str = ""  # shown below the list while the cursor is on it

    @property
    def cells(self) -> list[str]:
        return [one_line(text, MOST_CELLS) for text in self.columns or (self.value,)]


Read = Callable[[], Awaitable[Sequence[Row]]]


class ValuePicker(SearchList[str | None]):
    """`now` is marked and comes first; otherwise the cursor starts at `at`. With `read` the list is kept up to date."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "dismiss(None)", "Close", priority=True),
    ]
    DEFAULT_CSS = """
    ValuePicker {
        align: left bottom;
        & > Vertical {
            height: auto; max-height: 80%; width: 100%; background: $surface; border: round $border; padding: 0 1;
        }
        & Static { height: auto; color: $text-muted; }
        & .value--about { color: $foreground; }
        & RowList { height: auto; margin-bottom: 1; }
        & Input, & Input:focus { border: none; height: 1; margin-bottom: 1; padding: 0; background: transparent; }
    }
    """

    def __init__(
        self, title: str, values: Sequence[str | Row], now: str = "", *, at: str = "", read: Read | None = None
    ) -> None:
        super().__init__()
        self._title, self._now, self._at, self._read = title, now, at, read
        rows = [Row(value) if isinstance(value, str) else value for value in values]
        self._rows = sorted(rows, key=lambda one: one.value != now)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Input(placeholder=f"{self._title}: type to search")
            yield RowList()
            yield Static("", classes="value--about", markup=False)
            yield Static("", classes="value--note", markup=False)

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self.query_one(".value--about").display = any(one.note for one in self._rows)
        self.call_after_refresh(self._first)
        if self._read is not None:
            self.set_interval(AGAIN, self._reread)

    def _first(self) -> None:
        self._draw()
        places = [one.value for one in self._rows]
        if self.is_whole and self._at in places:
            self.query_one(RowList).highlighted = places.index(self._at)

    @work(exclusive=True)
    async def _reread(self) -> None:
        if self._read is None:
            return
        try:
            self._rows = list(await self._read())
        except TeamwrightError:
            return  # keep what is shown; the person is told when they choose
        self._draw()

    def on_resize(self) -> None:
        if self.is_whole:
            around = AROUND + (1 if any(one.note for one in self._rows) else 0)
            self.query_one(RowList).styles.max_height = max(3, min(MOST_ROWS, self.size.height * 4 // 5 - around))

    @on(Input.Changed)
    def _draw(self) -> None:
        if not self.is_whole:
            return
        palette = palette_of(self)
        wanted = self.query_one(Input).value.casefold().split()
        found = [one for one in self._rows if all(word in " ".join(one.cells).casefold() for word in wanted)]
        widths = _widths(self._rows)

        def rows(width: int) -> list[tuple[str, Content]]:
            return [(one.value, row(self._pieces(one, widths, palette), [], width)) for one in found]

        self.query_one(RowList).show(rows)
        words = f"{len(found)} of {len(self._rows)} · ↑↓ Enter takes it · Esc: close"
        self.query_one(".value--note", Static).update(Content(words))
        self._tell_about()

    def _pieces(self, one: Row, widths: Sequence[int], palette: Palette) -> list[Piece]:
        """The first column emphasised, the others behind it."""
        mark = "● " if one.value == self._now else "  "
        padded = [f"{cell}{' ' * (wide - cell_len(cell))}" for cell, wide in zip(one.cells, widths, strict=False)]
        first, *more = [*padded[:-1], one.cells[-1]]
        return [(mark, palette.accent), (first, palette.text), *((f"  {cell}", palette.dim) for cell in more)]

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self._tell_about()

    def _tell_about(self) -> None:
        if self.is_whole:
            chosen = self.query_one(RowList).chosen
            note = next((one.note for one in self._rows if one.value == chosen), "")
            self.query_one(".value--about", Static).update(Content(one_line(note, 400)))

    def words_of(self, value: str) -> str:
        """The words of a value's row."""
        return next((" ".join(one.cells) for one in self._rows if one.value == value), value)

    @on(Input.Submitted)
    def _entered(self) -> None:
        # otherwise nothing was found, but other words may find something
        if (chosen := self.query_one(RowList).chosen) is not None:
            self.take(chosen)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.take(event.option_id)

    def take(self, value: str | None) -> None:
        self.dismiss(value)


def _widths(rows: Sequence[Row]) -> list[int]:
    """The width of each column; nothing follows the last one."""
    columns = zip_longest(*(one.cells for one in rows), fillvalue="")
    return [min(WIDEST, max(map(cell_len, column))) for column in columns]
