"""Rows of lists: styled pieces of text, fitted to a width. Words from outside become text here, never markup."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

from rich.cells import cell_len
from textual.app import App
from textual.content import Content
from textual.dom import DOMNode
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from teamwright.surfaces.terminal.render.cells import fit
from teamwright.surfaces.terminal.render.themes import DARK, LIGHT, PALETTES, Palette

Piece = tuple[str, str]  # text that is safe to draw, and its style
Build = Callable[[int], Sequence[tuple[str, Content]]]
Follow = Literal["choice", "end"]


def palette_of(node: DOMNode) -> Palette:
    app = app_of(node)
    named = PALETTES.get(app.theme.removeprefix("tw-"))
    return named or (DARK if app.current_theme.dark else LIGHT)


def app_of(node: DOMNode) -> App[Any]:
    return cast("App[Any]", node.app)  # pyright: ignore[reportUnknownMemberType] -- Textual leaves its type open


def row(left: Sequence[Piece], right: Sequence[Piece], width: int) -> Content:
    """Cut the left side to the room that the right side leaves, starting with the last piece that fits."""
    room = width - sum(cell_len(text) for text, _ in right)
    pieces: list[Piece] = []
    for text, style in left:
        shown = fit(text, room)
        room -= cell_len(shown)
        pieces.append((shown, style))
        if shown != text:
            break
    return Content.assemble(*pieces, (" " * max(room, 0), ""), *right)


class RowList(OptionList):
    """A list whose rows may change while it is open: the choice stays on the same item."""

    DEFAULT_CSS = """
    RowList { border: none; padding: 0; background: transparent; height: 1fr; scrollbar-size-vertical: 1; }
    RowList:focus { border: none; background-tint: transparent; }
    RowList > .option-list--option { padding: 0; }
    RowList > .option-list--option-highlighted {
        color: $foreground; background: $panel; text-style: $block-cursor-blurred-text-style;
    }
    RowList:focus > .option-list--option-highlighted {
        color: $foreground; background: $block-cursor-background; text-style: $block-cursor-text-style;
    }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes, markup=False)
        self._shown: list[tuple[str, Content]] = []
        self._build: Build | None = None
        self._follow: Follow = "choice"

    @property
    def chosen(self) -> str | None:
        option = self.highlighted_option
        return option.id if option is not None else None

    def show(self, build: "Build", *, follow: "Follow" = "choice") -> None:
        """`build` makes the rows, each with an id, for a width: now, and whenever that changes."""
        self._build, self._follow = build, follow
        self._redraw()

    def on_resize(self) -> None:
        self._redraw()
        self.call_after_refresh(self.scroll_to_highlight)  # it may have been outside of the earlier room

    def _redraw(self) -> None:
        if self._build is not None and (width := self.scrollable_content_region.width) > 0:
            self._draw(self._build(width))

    def _draw(self, rows: Sequence[tuple[str, Content]]) -> None:
        """Only changed rows are redrawn."""
        if [id for id, _ in rows] == [id for id, _ in self._shown]:
            for n, ((_, new), (_, old)) in enumerate(zip(rows, self._shown, strict=True)):
                if not new.is_same(old):
                    self.replace_option_prompt_at_index(n, new)
        else:
            self._fill(rows)
        self._shown = list(rows)

    def _fill(self, rows: Sequence[tuple[str, Content]]) -> None:
        before, at_end = self.chosen, self.highlighted in (None, self.option_count - 1)
        self.set_options([Option(prompt, id=id) for id, prompt in rows])
        ids = [id for id, _ in rows]
        if not ids:
            self.highlighted = None
        elif self._follow == "end" and at_end:
            self.highlighted = len(ids) - 1
        else:
            self.highlighted = ids.index(before) if before in ids else 0
