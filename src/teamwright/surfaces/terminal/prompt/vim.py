"""Keys of vi for the input: what a key in normal mode does to a text, and whether they are wanted."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct

from teamwright.osfiles.private import write_file

Mode = Literal["insert", "normal"]
Kind = Callable[[str], int]  # adjacent letters of one kind form a word; 0: blanks
_MOTION = r"[hjklwbeWBE0^$G]|gg|[fFtT]."
_COMMAND = re.compile(
    rf"([1-9]\d*)?(?:([dcy])([1-9]\d*)?({_MOTION}|[ia][wW]|[dcy])|({_MOTION}|r.|[xXsSiaIAoOupPDCYJ~]))"
)
_BEGUN = re.compile(r"([1-9]\d*)?(?:[dcy](?:[1-9]\d*)?[gfFtTia]?|[gfFtTr])?")
_SHORT = {"D": "d$", "C": "c$", "x": "dl", "X": "dh", "s": "cl", "S": "cc", "Y": "yy"}
MOST = 1_000  # repetitions


class VimEdit(Struct, frozen=True):
    """Puts `text` in place of the text from `start` to `end`, then the cursor at `cursor`."""

    cursor: int
    start: int = 0
    end: int = 0
    text: str = ""
    action: Literal["", "undo", "up", "down"] = ""  # done instead, so many times
    times: int = 1


class Vim:
    """The keys pressed so far, and what was last deleted."""

    def __init__(self) -> None:
        self.mode: Mode = "insert"
        self._pressed = ""
        self._register, self._lines = "", False  # the second: it contains whole lines

    def escape(self, text: str, at: int) -> int | None:
        """Where the cursor goes; None if there was nothing to leave."""
        began, self._pressed = bool(self._pressed), ""
        if self.mode == "insert":
            self.mode = "normal"
            return at - 1 if at > _line(text, at)[0] else at
        return at if began else None

    def press(self, key: str, text: str, at: int) -> VimEdit | None:
        """None: more keys are needed, or these mean nothing."""
        self._pressed += key
        found = _COMMAND.fullmatch(self._pressed)
        if found is None:
            if not _BEGUN.fullmatch(self._pressed):
                self._pressed = ""
            return None
        self._pressed = ""
        before, operator, after, motion, single = found.groups()
        count = min(MOST, int(before or 1) * int(after or 1))
        if single in _SHORT:
            operator, motion = _SHORT[single]
        if operator:
            return self._operate(operator, motion, count, text, at)
        return self._single(*_split(single), count, text, at)

    def _single(self, key: str, letter: str, count: int, text: str, at: int) -> VimEdit:
        start, end = _line(text, at)
        match key:
            case "j" | "k":
                return VimEdit(at, action="down" if key == "j" else "up", times=count)
            case "r" | "~" | "J":
                return _change(key, letter, count, text, at)
            case "u":
                return VimEdit(at, action="undo", times=count)
            case "p" | "P":
                return self._put(key, count, text, at)
            case "i" | "a" | "I" | "A":
                self.mode = "insert"
                return VimEdit({"i": at, "a": min(at + 1, end), "I": _move("^", 1, text, at), "A": end}[key])
            case "o" | "O":
                self.mode = "insert"
                place = end if key == "o" else start
                return VimEdit(place + (key == "o"), place, place, "\n")
            case _:
                return VimEdit(_last(text, _move(key + letter, count, text, at)))

    def _put(self, key: str, count: int, text: str, at: int) -> VimEdit:
        start, end = _line(text, at)
        words = self._register * count
        if not words:
            return VimEdit(at)
        if not self._lines:
            place = at if key == "P" else min(at + 1, end)
            return VimEdit(place + len(words) - 1, place, place, words)
        if key == "P":
            return VimEdit(start, start, start, words)
        return VimEdit(end + 1, end, end, f"\n{words.removesuffix(chr(10))}")

    def _operate(self, operator: str, motion: str, count: int, text: str, at: int) -> VimEdit | None:
        if motion in "dcy" and motion != operator:
            return None
        if motion in ("j", "k", "d", "c", "y", "G", "gg"):
            return self._whole_lines(operator, motion, count, text, at)
        if motion[0] in "ia":
            start, end = _object(motion, text, at)
        else:
            start, end = sorted((at, _reach(operator, motion, count, text, at)))
        self._register, self._lines = text[start:end], False
        if operator == "y":
            return VimEdit(start)
        if operator == "c":
            self.mode = "insert"
            return VimEdit(start, start, end)
        rest = text[:start] + text[end:]
        return VimEdit(_last(rest, start), start, end)

    def _whole_lines(self, operator: str, motion: str, count: int, text: str, at: int) -> VimEdit:
        more = count if motion in "jk" else count - 1
        start, end = _line(text, at)
        if motion in ("G", "gg"):
            more, start, end = 0, 0 if motion == "gg" else start, len(text) if motion == "G" else end
        for _ in range(more):
            if motion == "k":
                start = _line(text, max(0, start - 1))[0]
            else:
                end = _line(text, min(len(text), end + 1))[1]
        self._register, self._lines = f"{text[start:end]}\n", True
        if operator == "y":
            return VimEdit(start)
        if operator == "c":
            self.mode = "insert"
            return VimEdit(start, start, end)
        if end < len(text):
            return VimEdit(start, start, end + 1)
        return VimEdit(_line(text, max(0, start - 1))[0], max(0, start - 1), end)


def _split(command: str) -> tuple[str, str]:
    """A key, and the letter that it takes."""
    return (command, "") if command == "gg" else (command[0], command[1:])


def _line(text: str, at: int) -> tuple[int, int]:
    """Beginning and end of the line."""
    end = text.find("\n", at)
    return text.rfind("\n", 0, at) + 1, len(text) if end < 0 else end


def _last(text: str, at: int) -> int:
    """In normal mode the cursor is on a letter, not after the last one."""
    start, end = _line(text, min(at, len(text)))
    return max(start, min(at, end - 1))


def _move(motion: str, count: int, text: str, at: int) -> int:
    start, end = _line(text, at)
    match motion[0]:
        case "g" | "G":
            lines = [0, *(found.end() for found in re.finditer("\n", text))]
            return lines[min(count, len(lines)) - 1 if motion == "gg" or count > 1 else -1]
        case "f" | "F" | "t" | "T":
            return _find(motion, count, text, at)
        case "0":
            return start
        case "$":
            return end
        case "^":
            return start + len(text[start:end]) - len(text[start:end].lstrip())
        case "h":
            return max(start, at - count)
        case "l":
            return min(end, at + count)
        case _:
            kind = _kind if motion.islower() else _big_kind
            for _ in range(count):
                at = {"w": _next_word, "e": _word_end, "b": _word_before}[motion.lower()](text, at, kind)
            return at


def _find(motion: str, count: int, text: str, at: int) -> int:
    """Find the letter on this line, or the place next to it; if there is none, nothing moves."""
    (start, end), (way, letter) = _line(text, at), motion
    forward = way in "ft"
    places = [n for n in range(start, end) if text[n] == letter and (n > at if forward else n < at)]
    if len(places) < count:
        return at
    place = places[count - 1] if forward else places[-count]
    return place + {"f": 0, "F": 0, "t": -1, "T": 1}[way]


def _change(key: str, letter: str, count: int, text: str, at: int) -> VimEdit:
    """Replace letters in place, or join the next line to this one."""
    end = _line(text, at)[1]
    if key == "J":
        next_words = end + 1 + len(text[end + 1 :]) - len(text[end + 1 :].lstrip(" \t"))
        return VimEdit(end, end, next_words, " ") if end < len(text) else VimEdit(at)
    last = at + count
    if key == "r":
        return VimEdit(last - 1, at, last, letter * count) if last <= end else VimEdit(at)
    last = min(last, end)
    return VimEdit(_last(text, last), at, last, text[at:last].swapcase())


def _object(motion: str, text: str, at: int) -> tuple[int, int]:
    """The word here; `a` also takes the blanks after it, or before it if there are none."""
    (first, last), kind = _line(text, at), _kind if motion[1] == "w" else _big_kind
    if at >= last:
        return at, at
    start, end = at, at
    while start > first and kind(text[start - 1]) == kind(text[at]):
        start -= 1
    while end < last and kind(text[end]) == kind(text[at]):
        end += 1
    if motion[0] == "a":
        behind = end + len(text[end:last]) - len(text[end:last].lstrip())
        if behind == end:
            start = first + len(text[first:start].rstrip())
        end = behind
    return start, end


def _reach(operator: str, motion: str, count: int, text: str, at: int) -> int:
    """The other end of the text that an operator takes."""
    if motion in "wW" and operator == "c" and at < len(text) and not text[at].isspace():
        kind, end = (_kind, "e") if motion == "w" else (_big_kind, "E")
        return min(len(text), _move(end, count, text, at) + 1) if count > 1 else _end_of_word(text, at, kind)
    to = _move(motion, count, text, at)
    if motion in "eE" or (motion[0] in "ft" and to > at):
        return min(len(text), to + 1)
    if motion in "wW":  # the last word of a line does not include its end
        inside = _line(text, at)[1]
        return inside if at < inside < to and text[inside:to].isspace() else to
    return to


def _kind(letter: str) -> int:
    return 0 if letter.isspace() else 1 if letter.isalnum() or letter == "_" else 2


def _big_kind(letter: str) -> int:
    """Kinds for words that only blanks separate."""
    return 0 if letter.isspace() else 1


def _end_of_word(text: str, at: int, kind: Kind) -> int:
    """The place after the word that is here."""
    here = kind(text[at])
    while at < len(text) and kind(text[at]) == here:
        at += 1
    return at


def _next_word(text: str, at: int, kind: Kind) -> int:
    if at < len(text) and kind(text[at]):
        at = _end_of_word(text, at, kind)
    while at < len(text) and not kind(text[at]):
        at += 1
    return at


def _word_end(text: str, at: int, kind: Kind) -> int:
    at += 1
    while at < len(text) and not kind(text[at]):
        at += 1
    return _end_of_word(text, at, kind) - 1 if at < len(text) else max(0, len(text) - 1)


def _word_before(text: str, at: int, kind: Kind) -> int:
    while at > 0 and not kind(text[at - 1]):
        at -= 1
    here = kind(text[at - 1]) if at else 0
    while at > 0 and kind(text[at - 1]) == here:
        at -= 1
    return at


def keep(root: Path, *, on: bool) -> None:
    """Remember the choice for the next time. Blocks."""
    write_file(root / "input" / "editor", b"vim" if on else b"normal")


def wanted(root: Path, settings: str | None) -> bool:
    """A choice made in the app counts more than the settings. Blocks."""
    try:
        return (root / "input" / "editor").read_text() == "vim"
    except (OSError, ValueError):
        return settings == "vim"
