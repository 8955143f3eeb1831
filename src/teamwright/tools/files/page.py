"""A page of text as the model reads it: numbered lines, bounded, with notes at the end."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.host.files.lines import FileLine, Page, read_page
from teamwright.tools.bounds import visible

LINES = 2_000
MOST = 100_000  # bytes, about 25,000 tokens
LONGEST = 2_000  # characters per line
_BOM = b"\xef\xbb\xbf"


class PageView(Struct, frozen=True):
    text: str
    data: dict[str, Any]


def show_page(read: Callable[[int], bytes], path: str, start: int, limit: int | None, *, note: str = "") -> PageView:
    """Lines from `start` on of what `read` returns; as many as fit unless `limit` asks for fewer."""
    page = read_page(read, start, limit or LINES, most=MOST, longest=LONGEST * 4)
    if not page.lines:
        if start == 1:
            return PageView(f"[{path} is empty.]", _data(path, 0, 1, 0))
        raise ToolError(f"{path} has only {page.total or 0:,} lines: there is no line {start:,}. Use a smaller offset.")
    body, notes = _number(page, start)
    notes += [note] if note else []
    notes += _way_on(page, start, limit)
    text = "\n".join([*body, *(f"[{words}]" for words in notes)])
    return PageView(text, _data(path, len(page.lines), start, page.total))


def _data(path: str, count: int, start: int, total: int | None) -> dict[str, Any]:
    return {"type": "text", "file": {"filePath": path, "numLines": count, "startLine": start, "totalLines": total}}


def _number(page: Page, start: int) -> tuple[list[str], list[str]]:
    crlf = _is_crlf(page)
    body: list[str] = []
    invalid = escaped = False
    for number, line in enumerate(page.lines, start):
        content = line.content.removeprefix(_BOM) if number == 1 else line.content
        raw = content.decode(errors="replace")
        invalid |= "\ufffd" in raw[:LONGEST] and b"\xef\xbf\xbd" not in content
        raw = raw.removesuffix("\r") if crlf and line.ended else raw
        text = visible(raw[:LONGEST])
        escaped |= text != raw[:LONGEST]
        cut = len(raw) > LONGEST or line.length > len(line.content)
        body.append(f"{number:>6}\t{text}" + (f" [... line cut; it has {line.length:,} bytes]" if cut else ""))
    notes = (
        (crlf, "Line ends are CRLF; Edit takes them as plain newlines."),
        (invalid, "Some bytes are not valid UTF-8; they are shown as \ufffd and cannot be named in Edit."),
        (escaped, "Control or invisible characters are shown escaped, like \\x1b; the file has the raw ones."),
    )
    return body, [words for so, words in notes if so]


def _is_crlf(page: Page) -> bool:
    ended = [line for line in page.lines if line.ended]
    return bool(ended) and all(map(_ends_cr, ended))


def _ends_cr(line: FileLine) -> bool:
    return line.content.endswith(b"\r") and line.length == len(line.content)


def _way_on(page: Page, start: int, asked: int | None) -> list[str]:
    """Notes on how to continue; none if the model got all the lines it asked for."""
    last = start + len(page.lines) - 1
    if page.endless:
        return [f"Line {last:,} goes on for so long that its end was not looked for. Use Bash for this file."]
    if page.total is None:
        return [f"{start:,}-{last:,}; the file is too big to count its lines; offset={last + 1} shows more"]
    if page.more:
        more = "" if asked == len(page.lines) else f"; offset={last + 1} shows more"
        return [f"{start:,}-{last:,} of {page.total:,}{more}"]
    return []
