"""Pieces of words: what bash makes of text inside and outside quotes, or that it cannot be known."""

import re
from collections.abc import Sequence

from msgspec import Struct

from teamwright.core.permissions.patterns import UNKNOWN

EXPANDS = re.compile(r"\$[\w({@*#?$!\-\[]|`")  # a dollar sign that bash would expand
_UNSURE_PATTERN = re.compile(r"['\"`;&<>\s]|\\$")
_SELF_MATCHING = re.compile(r"(?:^|/)\.{1,2}[*?]")  # in some versions of bash `.*` is also `..`
_WORD_BREAKERS = frozenset(" \t\n;&|<>()'\"`")


class Unreadable(Exception):  # control flow: the parse is not what bash would do
    """Why the command as a whole cannot be understood."""


class WordPiece(Struct):
    """A part of a word. `live` and `quoted`: it holds wildcards that bash expands, or that it must not expand."""

    text: str
    live: bool = False
    quoted: bool = False
    splits: bool = False


def quoted_piece(text: str) -> WordPiece:
    return WordPiece(text, quoted="*" in text or "?" in text)


def bare_piece(text: str) -> WordPiece:
    """An unquoted piece; where bash would make several words or names of it, the result is unknown."""
    piece, n = WordPiece(""), 0
    while n < len(text):
        c = text[n]
        if c == "\\":
            n += 1
            escaped = text[n : n + 1]
            piece.quoted |= escaped in ("*", "?")
            piece.text += "" if escaped == "\n" else escaped
        elif c in _WORD_BREAKERS or (c == "$" and EXPANDS.match(text, n)):
            raise Unreadable("a word in it is not what it seems")
        elif _is_choice(text, n):
            piece.splits, piece.live = True, piece.live or c == "["
            piece.text += UNKNOWN
        else:
            piece.live |= c in "*?"
            piece.text += c
        n += 1
    return piece


def _is_choice(text: str, n: int) -> bool:
    """Does `[...]` or `{a,b}` begin here?"""
    if text[n] == "[":
        return "]" in text[n:]
    return text[n] == "{" and "}" in text[n:] and ("," in text or ".." in text)


def is_unsure_glob(text: str, parts: Sequence[WordPiece]) -> bool:
    return UNKNOWN in text or any(part.quoted for part in parts) or _SELF_MATCHING.search(text) is not None


def require_plain_pattern(text: str) -> None:
    if EXPANDS.search(text) or _UNSURE_PATTERN.search(text):
        raise Unreadable("a pattern in it contains an expansion, a quote or a blank")


def unquoted(text: str, closing: str) -> str:
    """Unescapes text in double quotes, where a backslash escapes only certain characters. Refuses text that would end
    the string or expand in bash."""
    if "\\" not in text:
        if EXPANDS.search(text) or (closing and closing in text):
            raise Unreadable("a quoted string in it is not what it seems")
        return text
    out, n = "", 0
    while n < len(text):
        c = text[n]
        if c == "\\" and text[n + 1 : n + 2] in ('"', "\\", "$", "`", "\n"):
            n += 1
            out += "" if text[n] == "\n" else text[n]
        elif _may_end(text, n, closing):
            raise Unreadable("a quoted string in it is not what it seems")
        else:
            out += c
        n += 1
    return out


def _may_end(text: str, n: int, closing: str) -> bool:
    """Would bash end the string or expand something here? A trailing backslash would escape the closing quote."""
    lone = closing and text[n] == "\\" and n + 1 == len(text)
    return bool(lone or text[n] in ("`", closing) or EXPANDS.match(text, n))
