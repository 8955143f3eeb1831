"""Converts Rich renderables to lines of the screen, escaping any hidden characters that are left."""

from functools import cache, lru_cache
from io import StringIO
from typing import Any

from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme
from textual.strip import Strip

from teamwright.surfaces.terminal.render.themes import Palette
from teamwright.surfaces.view.text import safe
from teamwright.tools.bounds import visible


@cache
def console(palette: Palette) -> Console:
    p = palette
    styles: dict[str, Any] = {
        "markdown.code": p.code or "italic",
        "markdown.code_block": p.code or "none",
        "markdown.h1": f"bold underline {p.accent}".replace("bold bold", "bold"),
        "markdown.h2": f"bold {p.accent}",
        "markdown.h3": "bold",
        "markdown.h4": "bold",
        "markdown.link": p.accent or "none",
        "markdown.link_url": p.dim or "none",
        "markdown.item.bullet": p.dim or "none",
        "markdown.item.number": p.dim or "none",
        "markdown.block_quote": p.dim or "none",
        "markdown.hr": p.dim or "none",
        "markdown.table.border": p.dim or "none",
        "markdown.table.header": "bold",
    }
    return Console(
        file=StringIO(),
        force_terminal=True,
        color_system="truecolor",
        theme=Theme(styles),
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )


def draw(renderable: RenderableType, width: int, palette: Palette, style: str = "") -> list[Strip]:
    """Lines of at most `width` cells. Any remaining control characters are written out here, the last step before the
    screen."""
    board = console(palette)
    options = board.options.update(width=max(width, 4), height=None)
    base = Style.parse(style) if style else None
    lines = board.render_lines(renderable, options, style=base, pad=False)
    return [Strip([_clean(segment) for segment in line]) for line in lines]


def _clean(segment: Segment) -> Segment:
    style = None if segment.style is None else _flat(segment.style)
    return Segment(visible(segment.text).replace("\n", " "), style)


@lru_cache(1_000)
def _flat(style: Style) -> Style:
    """The style without links, and without a background if that is only the terminal's."""
    back = None if style.bgcolor is None or style.bgcolor.is_default else style.bgcolor
    return Style(
        color=style.color,
        bgcolor=back,
        bold=style.bold,
        dim=style.dim,
        italic=style.italic,
        underline=style.underline,
        strike=style.strike,
        reverse=style.reverse,
    )


def draw_text(text: str, width: int, palette: Palette, style: str = "") -> list[Strip]:
    """Draw plain words; long lines are folded, never cut."""
    return draw(Text(safe(text), style=style, overflow="fold", no_wrap=False), width, palette)
