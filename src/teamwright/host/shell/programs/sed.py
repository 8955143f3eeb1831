"""Checks scripts of sed, as GNU sed reads them: do they only print and change the text passing through?"""

import re
import sys
from collections.abc import Sequence

from msgspec import Struct

from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.host.shell.programs.flags import Flags, split_words

_FLAGS = Flags(
    "nErsuz",
    "e",
    "--quiet --silent --regexp-extended --separate --unbuffered --null-data --zero-terminated",
    "--expression",
    glued="i",
)
_IN_PLACE = re.compile(r"--in-place(?:=(.*))?", re.DOTALL)
_PLAIN = frozenset("pPdDgGhHxnNqQ=lFz")  # commands without an argument, or with a harmless number
_NUMBER = re.compile(r"[ \t]*\d*")
_BLANK = re.compile(r"(?:[ \t\n;]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_LABEL = re.compile(r"[ \t]*[\w.-]*(?=[\s;}]|$)")
_ADDRESS = re.compile(r"\d+~\d+|\d+|\$")
_MODIFIED = re.compile(r"[IM]*")
_STEP = re.compile(r"[+~]\d+")
_REPLACES = re.compile(r"[gpiIMm0-9]*")  # flags of `s`, without `w` and `e`
_ENDS = re.compile(r"[ \t]*(?=[;\n}#]|$)")
_SUFFIX = re.compile(r"[\w.~-]*")


class SedUse(Struct, frozen=True):
    """The files it reads. `suffix`: it changes them in place, and keeps backups with this suffix."""

    files: tuple[str, ...]
    suffix: str | None = None


def sed_use(words: Sequence[str]) -> SedUse | None:
    """The effect of a sed with these words, if its scripts write and run nothing."""
    read = split_words(_FLAGS, [word for word in words if not _IN_PLACE.fullmatch(word)])
    if read is None:
        return None
    operands, values = read
    suffixes = [*_long_suffixes(words), *values.get("i", ())]
    scripts = [*values.get("e", ()), *values.get("--expression", ())]
    if not scripts:
        scripts, operands = operands[:1], operands[1:]
    if not scripts or not all(map(is_plain_script, scripts)) or any(f[:1] in (UNKNOWN, "-") for f in operands):
        return None
    if suffixes and not _is_suffix(suffixes[-1]):
        return None
    return SedUse(tuple(operands), *suffixes[-1:])


def _long_suffixes(words: Sequence[str]) -> list[str]:
    """Values of `--in-place`, which must follow a `=`."""
    return [found[1] or "" for found in map(_IN_PLACE.fullmatch, words) if found]


def _is_suffix(word: str) -> bool:
    """Other than with GNU, the suffix is a separate word."""
    return sys.platform != "darwin" and _SUFFIX.fullmatch(word) is not None


def is_plain_script(script: str) -> bool:
    """Does it write, read and run nothing? Each script must be complete in itself."""
    return UNKNOWN not in script and script.isascii() and _commands(script)


def _commands(script: str) -> bool:
    at, depth = 0, 0
    while True:
        at = _end(_BLANK, script, at)
        if at == len(script):
            return depth == 0
        if script[at] == "}":
            at, depth = at + 1, depth - 1
            if depth < 0 or not _ENDS.match(script, at):
                return False
            continue
        behind = _addresses(script, at)
        if behind is None or behind == len(script):
            return False
        if script[behind] == "{":
            at, depth = behind + 1, depth + 1
            continue
        done = _command(script, behind)
        if done is None:
            return False
        at = done


def _addresses(script: str, at: int) -> int | None:
    """The end of the addresses; the same position if there are none."""
    first = _address(script, at)
    if first is None:
        return None
    after = _end(_SPACE, script, first)
    if first > at and script[after : after + 1] == ",":
        after = _end(_SPACE, script, after + 1)
        step = _STEP.match(script, after)
        second = step.end() if step else _address(script, after)
        if second is None or second == after:
            return None
        after = _end(_SPACE, script, second)
    while script[after : after + 1] == "!":
        after = _end(_SPACE, script, after + 1)
    return after


def _address(script: str, at: int) -> int | None:
    if found := _ADDRESS.match(script, at):
        return found.end()
    if script[at : at + 1] == "/" or (script[at : at + 1] == "\\" and at + 1 < len(script)):
        at += script[at] == "\\"
        end = _delimited(script, at + 1, script[at])
        return None if end is None else _end(_MODIFIED, script, end)
    return at


def _command(script: str, at: int) -> int | None:
    """The end of the command at this position; None if it may do more than change text."""
    letter = script[at]
    if letter in _PLAIN:
        found = _ENDS.match(script, _end(_NUMBER, script, at + 1))
    elif letter in ":btT":
        found = _ENDS.match(script, _end(_LABEL, script, at + 1))
    elif letter in "sy":
        end = _both_delimited(script, at + 1)
        if end is None:
            return None
        found = _ENDS.match(script, _end(_REPLACES, script, end) if letter == "s" else end)
    elif letter in "aic":
        end = _line_end(script, at)
        return None if "\\" in script[at:end] else end
    else:
        return None
    return found.end() if found else None


def _both_delimited(script: str, at: int) -> int | None:
    """The position after pattern and replacement, which are delimited by the first character."""
    mark = script[at : at + 1]
    middle = _delimited(script, at + 1, mark) if mark else None
    return None if middle is None else _delimited(script, middle, mark)


def _delimited(script: str, at: int, mark: str) -> int | None:
    """The position after the next `mark`. Versions of sed disagree on whether one inside brackets counts."""
    if mark in "\\\n" or mark.isalnum():
        return None
    start = at
    while at < len(script) and script[at] != mark:
        if script[at] == "\n":
            return None
        at += 2 if script[at] == "\\" else 1
    if at >= len(script):
        return None
    return None if _has_open_bracket(script[start:at]) else at + 1


def _has_open_bracket(regex: str) -> bool:
    """Could a bracket extend beyond its end?"""
    bare = re.sub(r"\\.", "", regex)
    return bare.count("[") > bare.count("]") or "[]" in bare or "[^]" in bare


def _line_end(script: str, at: int) -> int:
    end = script.find("\n", at)
    return len(script) if end < 0 else end


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at
