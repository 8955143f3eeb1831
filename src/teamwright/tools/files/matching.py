"""Finds and replaces text in a file's content: pure, and lossless in every encoding."""

import re
from collections.abc import Callable

from msgspec import Struct

from teamwright.core.errors import ToolError

_LINE_END = re.compile(r"\r\n|\n")
_BARE_END = re.compile(r"(?<!\r)\n")
_NUMBERED = re.compile(r"^ *\d+\t", re.MULTILINE)
_ESCAPED = re.compile("[\udc80-\udcff]")  # a byte that is not UTF-8
_MOST_SEARCHED = 8_000_000  # characters searched for an explanation

Span = tuple[int, int]


class Coded(Struct, frozen=True):
    """A file's text and how to get its exact bytes back."""

    text: str
    bom: bytes
    codec: str
    errors: str

    def encode(self, text: str) -> bytes:
        return self.bom + text.encode(self.codec, self.errors)

    @property
    def unknown(self) -> bool:
        """Whether nothing beyond ASCII in it is UTF-8, as in a file in Latin-1 or Shift-JIS."""
        rest = _ESCAPED.sub("", self.text)
        return len(rest) < len(self.text) and rest.isascii()


def decode(content: bytes, name: str) -> Coded:
    for bom, codec in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if content.startswith(bom) and not content.startswith(b"\xff\xfe\0\0"):
            if len(content) % 2:
                raise ToolError(f"{name} begins like UTF-16 but ends within a character. Use Bash to change it.")
            return Coded(content[2:].decode(codec, "surrogatepass"), bom, codec, "surrogatepass")
    bom = b"\xef\xbb\xbf" if content.startswith(b"\xef\xbb\xbf") else b""
    return Coded(content[len(bom) :].decode("utf-8", "surrogateescape"), bom, "utf-8", "surrogateescape")


def find_places(text: str, old: str, *, overlapping: bool = False, most: int = 1_000_000) -> list[Span]:
    """The places of `old`; its newlines also match CRLF if the file has any."""
    search = _searcher(text, old)
    places: list[Span] = []
    at = 0
    while len(places) < most and (found := search(at)):
        places.append(found)
        at = found[0] + 1 if overlapping else found[1]
    return places


def _searcher(text: str, old: str) -> Callable[[int], Span | None]:
    def literally(at: int) -> Span | None:
        start = text.find(old, at)
        return None if start < 0 else (start, start + len(old))

    if not _loose(text, old) or "\n" not in old:
        return literally
    # The second alternative must not match the newline of a CRLF, or places would be found twice.
    pattern = re.compile(r"(?:\r\n|(?<!\r)\n)".join(re.escape(line) for line in old.split("\n")))

    def loosely(at: int) -> Span | None:
        found = pattern.search(text, at)
        return found.span() if found else None

    return loosely


def _loose(text: str, old: str) -> bool:
    """Models send plain newlines, which match either line end. Text that contains a carriage return is matched
    exactly."""
    return "\r" not in old and "\r\n" in text


def replacement(text: str, place: Span, old: str, new: str) -> str:
    """The replacement at `place`: `new`, with the line ends that the file has there."""
    if not _loose(text, old) or "\n" not in new:
        return new
    matched = text[slice(*place)]
    ends = _LINE_END.findall(matched)
    usual = ends[0] if ends else _end_near(text, place)
    if "\r" in new:
        return _BARE_END.sub(usual, new)
    before, after = _LINE_END.split(matched), new.split("\n")
    kept = _kept_ends(before, after, ends, usual)
    return "".join(line + end for line, end in zip(after, [*kept, ""], strict=True))


def _kept_ends(before: list[str], after: list[str], ends: list[str], usual: str) -> list[str]:
    """Unchanged lines keep their line ends, so that a file with mixed ones stays that way."""
    if len(before) == len(after):
        return ends
    shorter = min(len(before), len(after)) - 1
    head = next((i for i in range(shorter) if before[i] != after[i]), shorter)
    tail = next((i for i in range(shorter - head) if before[-1 - i] != after[-1 - i]), shorter - head)
    middle = [usual] * (len(after) - 1 - head - tail)
    return [*ends[:head], *middle, *ends[len(ends) - tail :]]


def _end_near(text: str, place: Span) -> str:
    """The line end of the line at `place`, else of the line before."""
    following = _LINE_END.search(text, place[1])
    if following:
        return following[0]
    return "\r\n" if text.rfind("\r\n", 0, place[0]) + 1 == text.rfind("\n", 0, place[0]) > 0 else "\n"


def line_of(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def explain_absence(text: str, old: str) -> str:
    """Why `old` was not found, if there is a common reason."""
    bare = _NUMBERED.sub("", old)
    if bare != old and find_places(text, bare):
        return " It is there without the line numbers that Read shows: leave them out."
    words = old.split()
    if words and len(old) < 20_000 and len(text) < _MOST_SEARCHED:
        found = re.search(r"\s+".join(map(re.escape, words)), text)
        if found:
            line = line_of(text, found.start())
            return f" Line {line} has it with other white space, indentation or line ends: copy it exactly from there."
    if re.search(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4})", old):
        return " Read shows control characters escaped, like \\x1b; the file has the raw ones: leave them out."
    return ""
