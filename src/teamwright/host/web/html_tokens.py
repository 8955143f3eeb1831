"""Splits HTML into tags and text in one pass, in linear time.

`html.parser` searches to the end again for each unclosed tag: a few megabytes of them would block a thread for hours.
Here an unsuccessful search ends the document, as in browsers.
"""

import html
import re
from collections.abc import Iterator

from msgspec import Struct

RAW = frozenset({"script", "style", "xmp", "iframe", "noembed", "noframes", "textarea", "title"})  # contain no tags
MOST_ATTRIBUTES = 100

_NAME = re.compile(r"[^\s/>]+")
_SKIP = re.compile(r"[\s/]*")
_ATTRIBUTE = re.compile(r"([^\s/>][^\s/>=]*)(?:\s*=\s*)?")
_BARE = re.compile(r"[^\s>]*")
_ZEROS = re.compile(r"(&#[xX]?)0+(?=[0-9a-fA-F])")
_LONG_NUMBER = re.compile(r"&#(?:[xX][0-9a-fA-F]{7,}|[0-9]{8,});?")  # html.unescape fails on very long ones


class Start(Struct, frozen=True):
    name: str
    attributes: dict[str, str]


class End(Struct, frozen=True):
    name: str


class TextRun(Struct, frozen=True):
    text: str


Token = Start | End | TextRun


def unescape(text: str) -> str:
    """The text with entities resolved; invalid character numbers become the replacement character."""
    if "&" not in text:
        return text
    return html.unescape(_LONG_NUMBER.sub("\ufffd", _ZEROS.sub(r"\1", text)))


def tokens(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        mark = text.find("<", at)
        if mark < 0:
            yield TextRun(unescape(text[at:]))
            return
        if mark > at:
            yield TextRun(unescape(text[at:mark]))
        follows = text[mark + 1 : mark + 2]
        if follows.isascii() and follows.isalpha():
            token, at = _start(text, mark + 1)
            if token is None:
                return
            yield token
            if token.name in RAW:
                words, at = _raw_words(text, at, token.name)
                yield words
                yield End(token.name)
        elif follows in ("!", "?", "/"):
            token, at = _markup(text, mark)
            if token is not None:
                yield token
        else:
            yield TextRun("<")
            at = mark + 1


def _raw_words(text: str, at: int, name: str) -> tuple[TextRun, int]:
    inner, at = _raw(text, at, name)
    return TextRun(unescape(inner) if name in ("title", "textarea") else inner), at


def _markup(text: str, mark: int) -> tuple[End | None, int]:
    """Parses a closing tag, comment or declaration."""
    closer = "-->" if text.startswith("<!--", mark) else "]]>" if text.startswith("<![CDATA[", mark) else ">"
    end = text.find(closer, mark + 2)
    if end < 0:
        return None, len(text)
    name = _NAME.match(text, mark + 2, end) if text[mark + 1] == "/" else None
    return (End(name[0].lower()[:50]) if name else None), end + len(closer)


def _start(text: str, at: int) -> tuple[Start | None, int]:
    """Parses an opening tag from its name; returns it and its end. None if the document ends inside it."""
    name = _NAME.match(text, at)
    assert name is not None  # the caller saw a letter
    attributes: dict[str, str] = {}
    at = _end(_SKIP.match(text, name.end()), name.end())
    while at < len(text) and text[at] != ">":
        found = _ATTRIBUTE.match(text, at)
        assert found is not None  # there is no space, slash or `>` here
        key, value, at = found[1].lower(), "", found.end()
        if "=" in text[found.end(1) : at]:
            quote = text[at : at + 1]
            if quote in ('"', "'"):
                end = text.find(quote, at + 1)
                if end < 0:
                    return None, len(text)
                value, at = text[at + 1 : end], end + 1
            else:
                end = _end(_BARE.match(text, at), at)
                value, at = text[at:end], end
        if len(attributes) < MOST_ATTRIBUTES:
            attributes.setdefault(key[:50], unescape(value[:4000]))
        at = _end(_SKIP.match(text, at), at)
    return (Start(name[0].lower()[:50], attributes) if at < len(text) else None), at + 1


def _raw(text: str, at: int, name: str) -> tuple[str, int]:
    """The content of an element without tags, and the end of its closing tag."""
    closing = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(text, at)
    if closing is None:
        return text[at:], len(text)
    end = text.find(">", closing.end())
    return text[at : closing.start()], len(text) if end < 0 else end + 1


def _end(match: re.Match[str] | None, otherwise: int) -> int:
    return match.end() if match else otherwise
