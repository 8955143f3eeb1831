"""Search of earlier prompts, in other projects too: typing narrows the list, the chosen prompt is shown completely."""

from collections.abc import Sequence
from typing import ClassVar

from anyio import to_thread
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static

from teamwright.store.files.paths import Home
from teamwright.surfaces.terminal.dialogs.search_list import SearchList
from teamwright.surfaces.terminal.prompt.drafts import EarlierPrompt, read_earlier
from teamwright.surfaces.terminal.widgets.rows import RowList, palette_of, row
from teamwright.surfaces.terminal.widgets.sheet import Sheet
from teamwright.surfaces.view.diff import lines_of
from teamwright.surfaces.view.text import one_line

MOST_SHOWN = 300


def matching(prompts: Sequence[EarlierPrompt], words: str) -> list[EarlierPrompt]:
    """Prompts with every word in their text or directory."""
    wanted = words.casefold().split()
    return [one for one in prompts if all(word in f"{one.text} {one.cwd}".casefold() for word in wanted)][:MOST_SHOWN]


class PromptSearch(SearchList[str | None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c,ctrl+g", "dismiss(None)", "Close", priority=True),
        Binding("ctrl+r", "move(1)", show=False, priority=True),
        Binding("ctrl+s", "move(-1)", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    PromptSearch {
        align: left bottom;
        & > Vertical {
            height: 80%; width: 100%; background: $surface; border: round $border; padding: 0 1;
        }
        & Static { height: auto; color: $text-muted; }
        & Input, & Input:focus { border: none; height: 1; margin-bottom: 1; padding: 0; background: transparent; }
        & Sheet { height: auto; max-height: 40%; border-top: solid $border; }
    }
    """

    def __init__(self, home: Home, here: Sequence[str], words: str = "") -> None:
        """`here`: prompts of this directory, the oldest first; `words`: the initial search."""
        super().__init__()
        self._home, self._words = home, words if "\n" not in words else ""
        self._prompts = [EarlierPrompt(text) for text in dict.fromkeys(text.rstrip() for text in reversed(here))]
        self._found: list[EarlierPrompt] = []

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Input(self._words, placeholder="Search earlier prompts of all projects", select_on_focus=False)
            yield RowList()
            yield Sheet()
            yield Static("", classes="search--note", markup=False)

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._draw()
        self._read()

    @work(exclusive=True)
    async def _read(self) -> None:
        known = {one.text for one in self._prompts}
        others = await to_thread.run_sync(read_earlier, self._home, abandon_on_cancel=True)
        self._prompts += [one for one in others if one.text.rstrip() not in known]
        self._draw()

    @on(Input.Changed)
    def _draw(self) -> None:
        if not self.is_whole:
            return
        palette = palette_of(self)
        self._found = found = matching(self._prompts, self.query_one(Input).value)

        def rows(width: int) -> list[tuple[str, Content]]:
            return [
                (str(n), row([(one_line(one.text, 300), palette.text)], _where(one, width, palette.dim), width))
                for n, one in enumerate(found)
            ]

        self.query_one(RowList).show(rows)
        words = f"{len(found)} of {len(self._prompts)} prompts · Enter takes it · Ctrl+R or ↓: next · Esc: close"
        self.query_one(".search--note", Static).update(Content(words))
        self._preview()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self._preview()

    def _preview(self) -> None:
        if not self.is_whole:
            return
        one = self._chosen()
        sheet = self.query_one(Sheet)
        sheet.display = one is not None and ("\n" in one.text or len(one.text) > self.size.width // 2)
        sheet.show(lines_of("plain", one.text) if one is not None else [])
        sheet.scroll_home(animate=False)

    def _chosen(self) -> EarlierPrompt | None:
        place = self.query_one(RowList).chosen
        return self._found[int(place)] if place is not None and int(place) < len(self._found) else None

    @on(Input.Submitted)
    def _take(self) -> None:
        one = self._chosen()
        self.dismiss(one.text if one is not None else None)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._take()


def _where(one: EarlierPrompt, width: int, style: str) -> list[tuple[str, str]]:
    return [(f"  {one_line(one.cwd, 40)}", style)] if one.cwd and width >= 80 else []
