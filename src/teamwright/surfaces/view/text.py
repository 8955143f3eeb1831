"""The one door for words from outside to the screen: hidden characters are written out, lengths are bounded."""

import re
import textwrap
from typing import Any

from rich.cells import cell_len, set_cell_size

from teamwright.tools.bounds import visible
from teamwright.tools.catalog import traits_of

LONGEST_LINE = 10_000  # characters of one line; a longer one is cut in the middle, and says so
MOST_TEXT = 60_000  # characters of what is drawn as one piece
TABS = 4


def safe(text: str, *, most: int = MOST_TEXT) -> str:
    """Text as it may be drawn: no control, direction or invisible character, no endless line, no endless text."""
    if len(text) > most:
        left = len(text) - most
        text = f"{text[: most // 2]}\n[… {left:,} characters left out here …]\n{text[len(text) - most // 2 :]}"
    shown = visible(text).expandtabs(TABS)
    if len(shown) <= LONGEST_LINE:
        return shown
    return "\n".join(map(_cut, shown.split("\n")))


def _cut(line: str) -> str:
    if len(line) <= LONGEST_LINE:
        return line
    half = LONGEST_LINE // 2
    return f"{line[:half]} [… {len(line) - 2 * half:,} characters …] {line[-half:]}"


def one_line(text: str, most: int = 200) -> str:
    """The first words, on one line."""
    return safe(textwrap.shorten(text[: 8 * most], most, placeholder=" …"))


def hang(line: str, width: int) -> str:
    """A line of a table that is too long goes on beneath its last column."""
    if cell_len(line) <= width:
        return line
    columns = [found.end() for found in re.finditer(r"\S {2,}(?=\S)", line) if found.end() <= width * 2 // 3]
    indent = columns[-1] if columns else len(line) - len(line.lstrip())
    lines = textwrap.wrap(line, width, subsequent_indent=" " * min(indent, width * 2 // 3), break_on_hyphens=False)
    return "\n".join(lines)


def fit(text: str, cells: int) -> str:
    """At most so many cells wide; one that is cut ends in an ellipsis."""
    if cells <= 0:
        return ""
    return text if cell_len(text) <= cells else set_cell_size(text, cells - 1).rstrip() + "…"


def title(tool: str, args: dict[str, Any]) -> str:
    """What a call is about, in a few words; safe to draw."""
    return one_line(traits_of(tool).subject(args))


def duration(ms: int) -> str:
    seconds = max(ms, 0) / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def tokens(count: int) -> str:
    if count < 1_000:
        return str(count)
    return f"{count / 1_000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def money(usd: float | None) -> str:
    return "$?" if usd is None else f"${usd:.2f}" if usd >= 0.01 or usd == 0 else f"${usd:.4f}"
