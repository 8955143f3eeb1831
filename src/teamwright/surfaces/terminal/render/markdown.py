"""Renders a model's Markdown as lines, in pieces that do not change, so that streaming costs little.

Nothing is hidden: HTML is shown as written, links with their addresses, and entities are not decoded.
"""

import re
from functools import cache
from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text
from textual.strip import Strip

from teamwright.surfaces.terminal.render.paint import draw
from teamwright.surfaces.terminal.render.themes import Palette
from teamwright.surfaces.view.text import safe

PIECE = 600  # least characters of a piece, if the text continues
MOST_HIGHLIGHTED = 6_000  # characters of highlighted code
_FENCE = re.compile(r"^ {0,3}(```+|~~~+)", re.M)


class _Heading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip("\n")
        if len(code) > MOST_HIGHLIGHTED or self.theme == "bw" or self.lexer_name == "text":
            shown: RenderableType = Text(code, style="markdown.code_block")
        else:
            shown = Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, background_color="default")
        yield Padding(shown, (0, 0, 0, 2))


class _Plain(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
    }

    def __init__(self, markup: str, palette: Palette) -> None:
        """Rich would make a parser for each piece, which costs more than everything else."""
        self.markup, self.parsed = markup, _parser().parse(markup)
        self.code_theme = self.inline_code_theme = palette.syntax
        self.style, self.justify, self.hyperlinks, self.inline_code_lexer = "none", None, False, None


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")
    return parser.disable(["entity", "image", "html_inline", "html_block", "reference"])


class MarkdownPieces:
    """The drawn pieces of a text that may still grow. Only its last piece is redrawn."""

    def __init__(self) -> None:
        self._key: tuple[int, str] = (0, "")
        self._done: list[tuple[str, list[Strip]]] = []

    def draw(self, text: str, width: int, palette: Palette) -> list[Strip]:
        if self._key != (width, palette.name):
            self._key, self._done = (width, palette.name), []
        drawn: list[Strip] = []
        pieces = split(text)
        for place, piece in enumerate(pieces):
            if place < len(self._done) and self._done[place][0] == piece:
                lines = self._done[place][1]
            else:
                lines = _draw_piece(piece, width, palette)
                del self._done[place:]
                self._done.append((piece, lines))
            if drawn and lines:
                drawn.append(Strip([]))
            drawn += lines
        return drawn


def _draw_piece(piece: str, width: int, palette: Palette) -> list[Strip]:
    lines = draw(_Plain(safe(piece), palette), width, palette, palette.text)
    while lines and not lines[0].text.strip():
        lines.pop(0)
    while lines and not lines[-1].text.strip():
        lines.pop()
    blank = [not line.text.strip() for line in lines]
    # Rich's tables have many blank lines
    return [line for n, line in enumerate(lines) if not (blank[n] and blank[n - 1])]


def split(text: str) -> list[str]:
    """Split at blank lines outside of code, if the piece is long enough and no list continues."""
    if len(text) < 2 * PIECE:
        return [text] if text.strip() else []
    pieces: list[str] = []
    start, place, fenced = 0, 0, False
    while (end := text.find("\n\n", place)) != -1:
        fenced ^= len(_FENCE.findall(text, place, end)) % 2 == 1
        place = end + 2
        after = text[place : place + 1]
        if end - start >= PIECE and not fenced and after not in ("", " ", "\n", "\t"):
            pieces.append(text[start:end])
            start = place
    if text[start:].strip():
        pieces.append(text[start:])
    return pieces
