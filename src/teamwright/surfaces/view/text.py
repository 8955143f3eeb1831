"""Makes all text from outside safe for the screen: hidden characters are escaped, lengths are bounded."""

import re
import textwrap
from typing import Any

from teamwright.tools.bounds import visible
from teamwright.tools.catalog import traits_of

LONGEST_LINE = 10_000  # characters; a longer line is cut in the middle, visibly
MOST_TEXT = 60_000  # characters drawn as one piece
TABS = 4
_PASTED = re.compile(r'@(?:"[^"\n]*|\S*)/input/pictures/[0-9a-f]{16}\.png"?')


def safe(text: str, *, most: int = MOST_TEXT) -> str:
    """Text that is safe to draw: no control, direction or invisible characters, bounded lines, bounded length."""
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
    flat = " ".join(text[: 8 * most].split())
    if len(flat) <= most:
        return safe(flat)
    return safe(textwrap.shorten(text[: 8 * most], most, placeholder=" …"))


def said(text: str) -> str:
    """A prompt as the person wrote it. The file of a pasted picture is ours, and its name says nothing."""
    return _PASTED.sub("[picture]", text) if "/input/pictures/" in text else text


def near(path: str, cwd: str) -> str:
    """The path relative to `cwd`, if it is below that."""
    return path.removeprefix(f"{cwd.rstrip('/')}/") if cwd else path


def title(tool: str, args: dict[str, Any], cwd: str = "") -> str:
    """What a call is about, in a few words, with paths relative to `cwd`; safe to draw."""
    traits = traits_of(tool)
    subject = traits.subject(args)
    return one_line(near(subject, cwd) if traits.path is not None else subject)


def is_question(tool: str) -> bool:
    """Whether it asks the person an agent's questions."""
    return traits_of(tool).asks == "questions"


def is_plan(tool: str) -> bool:
    """Whether it submits a plan to the person."""
    return traits_of(tool).asks == "plan"


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


def rounded(count: int) -> str:
    """Tokens of a window: `200k`, `1.05M`."""
    return f"{count / 1_000:.3g}k" if count < 1_000_000 else f"{count / 1_000_000:.3g}M"


def spent(usd: float, *, unpriced: bool) -> str:
    """What a session cost, if some of it may have an unknown price."""
    if not unpriced:
        return money(usd)
    return f"{money(usd)} + unknown" if usd else "unknown"


def money(usd: float | None) -> str:
    return "$?" if usd is None else f"${usd:.2f}" if usd >= 0.01 or usd == 0 else f"${usd:.4f}"
