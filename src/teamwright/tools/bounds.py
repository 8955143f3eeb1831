"""Bounds the text of a tool's result to its head and tail, and makes hidden characters visible."""

import os
import re
from pathlib import Path

# Control characters except tab and newline; characters that reorder or hide text; surrogates, which cannot be encoded.
# Joiners and variation selectors are normal next to letters and emoji outside ASCII.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e00ff]"
    "|(?<![^\x00-\x9f\u200b-\u200f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x9f\u200b-\u200f])"
    "|(?<![^\x00-\x22\x24-\x29\x2b-\x2f\x3a-\x9f\ufe00-\ufe0f\U000e0100-\U000e01ef])"
    "[\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
# Characters drawn as blank space. Unicode classifies the braille blank as a symbol.
_BLANKS = "\t \xa0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000"
_RUN = re.compile(f"[{_BLANKS}]{{9,}}")
_ONLY_BLANKS = re.compile(f"[{_BLANKS}]*")
MOST = 30_000  # characters of a result
HEAD, TAIL = 2_000, 6_000  # that are kept of a longer one: errors usually come last
MOST_INDENT = 24  # normal indentation, in blanks
MOST_EMPTY = 3  # normal number of empty lines in a row
_WHOLE = "; the whole is in "
_UNSAFE_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def visible(text: str) -> str:
    r"""Escapes control, direction and invisible characters as `\x1b`, `\u202e`, …; leaves ordinary text alone.

    A carriage return that only ends a line is dropped.
    """
    return _HIDDEN.sub(_escape, text.replace("\r\n", "\n"))


def counted(text: str) -> str:
    """Replaces long runs of blanks and empty lines by a count, so that nothing can be pushed off the screen."""
    out: list[str] = []
    empty: list[str] = []
    for line in text.split("\n"):
        if _ONLY_BLANKS.fullmatch(line):
            empty.append(line)
            continue
        out += _empty_lines(empty)
        empty = []
        out.append(_RUN.sub(_blanks, line))
    return "\n".join([*out, *_empty_lines(empty)])


def _empty_lines(lines: list[str]) -> list[str]:
    if len(lines) > MOST_EMPTY:
        return [f"⟨{len(lines):,} empty lines⟩"]
    return [_RUN.sub(_blanks, line) for line in lines]


def _blanks(found: re.Match[str]) -> str:
    """Keeps a normal indentation; replaces wider runs by a count."""
    long = len(found[0].expandtabs(4))
    if not found.start() and long <= MOST_INDENT and found.end() < len(found.string):
        return found[0]
    return f" ⟨{len(found[0]):,} blanks⟩ "


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # a raw byte that was not UTF-8
        code -= 0xDC00
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def bounded(
    text: str, *, most: int = MOST, spill: Path | None = None, name: str = "output", file: Path | None = None
) -> str:
    """At most `most` characters: head and tail, and between them a line that says how much is left out and where it
    is.

    A result of which the whole is in a file (`file`, or a new one in `spill`) is sent with every later request, so only
    its beginning and its end are kept, unless the caller sets a bound of its own.
    """
    if len(text) <= most:
        return text
    kept = f"{_WHOLE}{file}" if file else _keep(text, spill, name) if spill else ""
    room = max(most - len(_note(len(text), text.count("\n"), kept)), 0)
    first, last = (HEAD, TAIL) if kept.startswith(_WHOLE) and most == MOST else (room // 2, room - room // 2)
    head = _whole_lines(text[:first])
    tail = text[len(text) - last :] if last else ""
    tail = tail.partition("\n")[2] if 0 <= tail.find("\n") < len(tail) // 4 else tail
    gone = text[len(head) : len(text) - len(tail)]
    return head + _note(len(gone), gone.count("\n"), kept) + tail


def _whole_lines(head: str) -> str:
    """Cuts after the last newline, unless that would lose much."""
    end = head.rfind("\n")
    return head[:end] if end > len(head) * 3 // 4 else head


def _note(characters: int, lines: int, kept: str) -> str:
    return f"\n[... {characters:,} characters ({lines:,} lines) left out here{kept} ...]\n"


def _keep(text: str, spill: Path, name: str) -> str:
    """Writes the whole text to a private file; on a full disk the file is lost, never the result."""
    import tempfile  # noqa: PLC0415  # slow to import, seldom needed

    try:
        spill.mkdir(parents=True, exist_ok=True, mode=0o700)
        prefix = _UNSAFE_NAME.sub("-", name)[:60] or "output"
        handle, path = tempfile.mkstemp(prefix=f"{prefix}-", suffix=".txt", dir=spill)
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.write(text)
    except OSError as error:
        return f"; the whole could not be kept: {error.strerror}"
    return f"{_WHOLE}{path}"
