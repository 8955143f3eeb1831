"""Converts a web page to plain text: headings, lists, links, code and tables stay readable, hidden parts go."""

import re
from collections.abc import Callable
from urllib.parse import urljoin

from teamwright.host.web.html_tokens import End, Start, TextRun, Token, tokens

MOST_TEXT = 1_000_000  # characters in the result
MOST_DEPTH = 20  # nested lists; deeper ones are not indented further

_SPACE = re.compile(r"[ \t\r\n\f\v]+")
_DROPPED = frozenset(
    {"script", "style", "template", "svg", "math", "iframe", "object", "canvas", "audio", "video", "noembed"}
    | {"noframes", "textarea", "select", "datalist", "title"}
)
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_UNCLOSED = frozenset({"p", "li", "dt", "dd", "tr", "td", "th", "option"})  # often left open: the next one ends it
_PARAGRAPH = frozenset({"p", "table", "blockquote", "figure", "dl", "fieldset", "article", "section", "main"})
_LINE = frozenset(
    {"div", "tr", "dt", "dd", "header", "footer", "nav", "aside", "form", "figcaption", "summary", "details", "caption"}
    | {"address", "option", "legend", "body", "html", "head", "thead", "tbody", "tfoot"}
)
_HEADINGS = {f"h{n}": "#" * n + " " for n in range(1, 7)}


class _Page:
    """The text under construction."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.parts: list[str] = []
        self.size = 0
        self.breaks = 0  # newlines due before the next word
        self.space = False  # a space owed before the next word
        self.pre = 0
        self.lists: list[int] = []  # next number of each open list; 0 for lists without numbers
        self.links: list[tuple[str, int]] = []  # target, and the size of the text before it
        self.cells = 0  # in the current table row
        self.hidden = ""  # the hidden element whose end we wait for
        self.depth = 0  # nested elements with that name
        self.title = ""
        self.in_title = False

    def put(self, text: str) -> None:
        self.parts.append(text)
        self.size += len(text)

    def block(self, lines: int) -> None:
        self.breaks = max(self.breaks, lines)
        self.space = False

    def word(self, text: str) -> None:
        if self.breaks and self.size:
            self.put("\n" * self.breaks)
        elif self.space and self.size:
            self.put(" ")
        self.breaks, self.space = 0, False
        self.put(text)

    def words(self, text: str) -> None:
        if self.pre:
            if text:
                self.word(text)
            return
        flat = _SPACE.sub(" ", text)
        inner = flat.strip(" ")
        if not inner:
            self.space = self.space or bool(flat)
            return
        self.space = self.space or flat.startswith(" ")
        self.word(inner)
        self.space = flat.endswith(" ")


def html_to_text(source: str, base: str = "", most: int = MOST_TEXT) -> str:
    """`base` is the page's address, used to make links absolute. Never raises, never returns more than `most`."""
    page = _Page(base)
    for token in tokens(source):
        _take(page, token)
        if page.size > most:
            break
    if page.pre and page.size <= most:
        page.put("\n```")
    text = "".join(page.parts).strip()
    return (f"Title: {page.title}\n\n{text}" if page.title else text)[:most].strip()


def _take(page: _Page, token: Token) -> None:
    if isinstance(token, TextRun):
        if page.in_title:
            page.title = page.title or " ".join(token.text.split())[:300]
        elif not page.hidden:
            page.words(token.text)
    elif page.hidden:
        _wait(page, token)
    elif isinstance(token, Start):
        page.in_title = token.name == "title"
        _open(page, token)
    else:
        _close(page, token.name)
    if isinstance(token, End):
        page.in_title = False


def _wait(page: _Page, token: Start | End) -> None:
    """Skips hidden content, counting nested elements until it is closed."""
    if token.name != page.hidden:
        return
    if isinstance(token, Start):
        if token.name in _UNCLOSED:
            page.hidden = ""
            _open(page, token)
        else:
            page.depth += 1
    elif page.depth:
        page.depth -= 1
    else:
        page.hidden = ""


def _is_hidden(tag: Start) -> bool:
    style = tag.attributes.get("style", "").replace(" ", "").lower()
    return (
        tag.name in _DROPPED
        or "hidden" in tag.attributes
        or tag.attributes.get("aria-hidden", "").lower() == "true"
        or "display:none" in style
        or "visibility:hidden" in style
    )


def _open(page: _Page, tag: Start) -> None:
    if tag.name in _VOID:
        _void(page, tag)
    elif _is_hidden(tag):
        page.hidden, page.depth = tag.name, 0
    elif opens := _OPENING.get(tag.name):
        opens(page, tag)
    elif tag.name in _PARAGRAPH or tag.name in _LINE:
        _between(page, tag.name)


def _open_heading(page: _Page, tag: Start) -> None:
    page.block(2)
    page.word(_HEADINGS[tag.name])


def _open_list(page: _Page, tag: Start) -> None:
    page.block(1 if page.lists else 2)
    page.lists.append(1 if tag.name == "ol" else 0)


def _open_link(page: _Page, tag: Start) -> None:
    page.links.append((tag.attributes.get("href", ""), page.size))


def _open_pre(page: _Page, _: Start) -> None:
    page.block(2)
    page.word("```\n")
    page.pre += 1


def _open_code(page: _Page, _: Start) -> None:
    if not page.pre:
        page.word("`")


def _open_cell(page: _Page, _: Start) -> None:
    if page.cells and not page.breaks:
        page.word("| " if page.space else " | ")
    page.cells += 1


def _close(page: _Page, name: str) -> None:
    if closes := _CLOSING.get(name):
        closes(page)
    elif name in _PARAGRAPH or name in _LINE or name == "li":
        _between(page, name)


def _close_heading(page: _Page) -> None:
    page.block(2)


def _close_list(page: _Page) -> None:
    if page.lists:
        page.lists.pop()
    page.block(1 if page.lists else 2)


def _close_link(page: _Page) -> None:
    if page.links:
        _link(page, *page.links.pop())


def _close_pre(page: _Page) -> None:
    if page.pre:
        page.pre -= 1
        page.breaks = 0
        page.put("```" if page.parts[-1].endswith("\n") else "\n```")
        page.block(2)


def _close_code(page: _Page) -> None:
    if not page.pre:
        space, page.space = page.space, False
        page.word("`")
        page.space = space


def _between(page: _Page, name: str) -> None:
    page.block(2 if name in _PARAGRAPH and not page.lists else 1)
    if name == "tr":
        page.cells = 0


def _open_item(page: _Page, _: Start) -> None:
    page.block(1)
    number = page.lists[-1] if page.lists else 0
    if number:
        page.lists[-1] += 1
    indent = "  " * min(max(len(page.lists) - 1, 0), MOST_DEPTH)
    page.word(f"{indent}{f'{number}.' if number else '-'} ")


def _void(page: _Page, tag: Start) -> None:
    match tag.name:
        case "br":
            page.breaks = min(page.breaks + 1, 2)
            page.space = False
        case "hr":
            page.block(2)
            page.word("---")
            page.block(2)
        case "img" if (alt := " ".join(tag.attributes.get("alt", "").split())) and not _is_hidden(tag):
            page.words(f"[image: {alt[:300]}]")
        case _:
            pass


def _link(page: _Page, target: str, size: int) -> None:
    """Appends a link's address to its text if the text does not contain it."""
    target = target.strip()
    if page.size == size or not target or target.startswith("#") or len(target) > 2000:
        return
    try:
        target = urljoin(page.base, target)
    except ValueError:
        return
    if not target.lower().startswith(("http://", "https://", "mailto:", "/")):
        return
    if target not in "".join(page.parts[-3:]):
        page.space = False
        page.put(f" ({target})")


_OPENING: dict[str, Callable[[_Page, Start], None]] = {
    **dict.fromkeys(_HEADINGS, _open_heading),
    "ul": _open_list,
    "ol": _open_list,
    "li": _open_item,
    "a": _open_link,
    "pre": _open_pre,
    "code": _open_code,
    "td": _open_cell,
    "th": _open_cell,
}
_CLOSING: dict[str, Callable[[_Page], None]] = {
    **dict.fromkeys(_HEADINGS, _close_heading),
    "ul": _close_list,
    "ol": _close_list,
    "a": _close_link,
    "pre": _close_pre,
    "code": _close_code,
}
