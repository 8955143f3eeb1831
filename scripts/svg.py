"""Draws a screen of the app as a small SVG, without fonts or files from elsewhere."""

from collections.abc import Iterator
from xml.sax.saxutils import escape

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

SIZE, WIDTH, HEIGHT, MARGIN, TOP = (
    14,
    8.43,
    16.5,
    12,
    30,
)  # of letters, columns, lines, the frame and its bar, in pixels
REVERSED = "#d7dae0"  # behind reversed letters without a colour
BUTTONS = ("#ff5f57", "#febc2e", "#28c840")
FONT = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', 'Noto Sans Mono CJK SC', monospace"


def picture(lines: list[Strip], title: str, *, back: str, plain: str) -> str:
    width, height = extent(lines)
    return "\n".join([opening(width, height, title, back), *drawing(lines, back=back, plain=plain), "</svg>\n"])


def opening(width: float, height: float, title: str, back: str) -> str:
    """The head of the SVG, with a window frame, so that the picture has an edge on any page."""
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    edge = f'x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="8"'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        f"<title>{escape(title)}</title>",
        f'<rect {edge} fill="{back}" stroke="#8885"/>',
        *(f'<circle cx="{MARGIN + 8 + n * 18}" cy="16" r="5" fill="{c}"/>' for n, c in enumerate(BUTTONS)),
    ])  # fmt: skip


def extent(lines: list[Strip]) -> tuple[float, float]:
    columns = max(line.cell_length for line in lines)
    return round(columns * WIDTH + 2 * MARGIN, 1), len(lines) * HEIGHT + TOP + MARGIN


def drawing(lines: list[Strip], *, back: str, plain: str) -> Iterator[str]:
    yield f'<g font-family="{FONT}" font-size="{SIZE}" fill="{plain}">'
    for n, line in enumerate(lines):
        yield from _row(line, TOP + n * HEIGHT, back)
    yield "</g>"


def _row(line: Strip, top: float, back: str) -> Iterator[str]:
    texts: list[str] = []
    at = 0
    for segment in Segment.simplify(line):
        style, text, cells = segment.style or Style(), segment.text, segment.cell_length
        front, behind = _colour(style.color, ""), _colour(style.bgcolor, back)
        if style.reverse:
            front, behind = behind, front or REVERSED
        x = MARGIN + at * WIDTH
        if behind != back:
            yield f'<rect x="{x:.1f}" y="{top:g}" width="{cells * WIDTH:.1f}" height="{HEIGHT}" fill="{behind}"/>'
        if shown := text.strip():
            x += (len(text) - len(text.lstrip())) * WIDTH
            length = f'textLength="{cell_len(shown) * WIDTH:.1f}" lengthAdjust="spacingAndGlyphs"'
            look = _look(style, front)
            texts.append(f'<text x="{x:.1f}" y="{top + HEIGHT - 4:g}" {length}{look}>{_spaced(shown)}</text>')
        at += cells
    yield from texts


def _spaced(text: str) -> str:
    """The text with spaces that browsers do not collapse."""
    return escape(text).replace(" ", "\u00a0")


def _look(style: Style, front: str) -> str:
    parts = [f' fill="{front}"' if front else ""]
    parts += [' font-weight="bold"' if style.bold else "", ' font-style="italic"' if style.italic else ""]
    parts += [' text-decoration="underline"' if style.underline else "", ' opacity="0.6"' if style.dim else ""]
    return "".join(parts)


def _colour(colour: Color | None, otherwise: str) -> str:
    if colour is None or colour.is_default:
        return otherwise
    return colour.get_truecolor().hex
