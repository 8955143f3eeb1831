"""Parses a git configuration file as git does, without git: names and values in order."""

import os
import re
import time
from collections.abc import Iterator
from typing import TypeAlias

from teamwright.core.errors import SettingsError
from teamwright.osfiles.reading import read_whole

MOST = 1 << 20  # bytes; no hand-written file comes near it
_FRESH = 200_000_000  # nanoseconds; a file changed this recently may change again without a new timestamp
_MOST_KEPT = 256

_GAP = re.compile(r"(?:[ \t\r\n]+|[#;][^\n]*)*")
_HEADER = re.compile(r'\[([A-Za-z0-9.-]+)(?:[ \t\r]+"((?:[^"\\\n]|\\[^\n])*)")?\]')
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(=|\n|\Z)")
_PLAIN = re.compile(r'[^\\"\n#; \t\r\0]+')
_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "\\": "\\", '"': '"', "\n": ""}

Entry: TypeAlias = tuple[str, str | None]  # `section.Sub Section.key` and its value; None if no value is given
_Stamp: TypeAlias = tuple[int, int, int, int, int]


class UnreadableError(Exception):
    """The file exists and git may understand it, but we cannot."""


_kept: dict[str, tuple[_Stamp, tuple[Entry, ...]]] = {}


def read_config(path: str) -> tuple[Entry, ...]:
    """The file's settings; none if it does not exist."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except (OSError, ValueError) as error:
        raise UnreadableError(path) from error
    stamp = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    known = _kept.get(path)
    if known and known[0] == stamp:
        return known[1]
    entries = tuple(parse(_read(path)))
    if time.time_ns() - found.st_ctime_ns > _FRESH:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[path] = (stamp, entries)
    return entries


def _read(path: str) -> str:
    try:
        data = read_whole(path, MOST)
    except SettingsError as error:
        raise UnreadableError(path) from error
    if data is None:
        raise UnreadableError(path)
    return os.fsdecode(data.removeprefix(b"\xef\xbb\xbf")).replace("\r\n", "\n")


def parse(text: str) -> Iterator[Entry]:
    """The entries of a file with plain line ends. Names are normalised as in git: only subsections keep their case."""
    at, section = 0, ""
    while True:
        gap = _GAP.match(text, at)
        at = gap.end() if gap else at
        if at == len(text):
            return
        if header := _HEADER.match(text, at):
            section = header[1].lower()
            if header[2] is not None:
                section += "." + re.sub(r"\\(.)", r"\1", header[2])
            at = header.end()
            continue
        key = _KEY.match(text, at)
        if not key or not section:
            raise UnreadableError(text[at : at + 40])
        value, at = _value(text, key.end()) if key[2] == "=" else (None, key.end())
        yield f"{section}.{key[1].lower()}", value


def _value(text: str, at: int) -> tuple[str, int]:
    """The value that starts here, and the start of the next line."""
    told: list[str] = []
    blank, quoted = "", False
    while at < len(text) and (c := text[at]) != "\n":
        if c in "#;" and not quoted:
            line = text.find("\n", at)
            at = len(text) if line < 0 else line
            break
        if c in " \t\r" and not quoted:
            blank, at = blank + c, at + 1
            continue
        if told:
            told.append(blank)
        blank = ""
        if c == '"':
            quoted, at = not quoted, at + 1
        elif c == "\\":
            if (escaped := text[at + 1 : at + 2]) not in _ESCAPES:
                raise UnreadableError(text[at : at + 2])
            told.append(_ESCAPES[escaped])
            at += 2
        elif c == "\0":
            raise UnreadableError("a NUL")
        elif plain := _PLAIN.match(text, at):
            told.append(plain[0])
            at = plain.end()
        else:  # a blank, `#` or `;` in quotes
            told.append(c)
            at += 1
    if quoted:
        raise UnreadableError("a quotation without an end")
    return "".join(told), at + 1


def parts(name: str) -> tuple[str, str, str]:
    """Section, subsection and key; a subsection may contain dots."""
    section, _, rest = name.partition(".")
    sub, _, key = rest.rpartition(".")
    return section, sub, key


_YES, _NO = frozenset({"true", "yes", "on"}), frozenset({"false", "no", "off", ""})


def is_false(value: str | None) -> bool:
    """Does git read this value of a boolean setting as no?"""
    return value is not None and value.lower() in _NO | {"0"}


def is_boolean(value: str | None) -> bool:
    """Does git read this value as a boolean, where it could also be a program?"""
    told = "true" if value is None else value.lower()
    return told in _YES | _NO or bool(re.fullmatch(r"[+-]?\d+[kmg]?", told))
