"""Converts files other than plain text for the model: images, PDF text, notebooks."""

import base64
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from teamwright.core.data.content.picture import MOST_DATA, BadPicture, examine
from teamwright.core.data.message import Content, Image, Text
from teamwright.core.errors import ToolError
from teamwright.core.jsontext import as_list, as_object
from teamwright.tools.bounds import bounded, visible
from teamwright.tools.files.page import MOST, PageView

if TYPE_CHECKING:
    from teamwright.host.process.child import ChildEnded

_BINARIES = (
    (b"\x7fELF", "an ELF program or library"),
    (b"MZ", "a Windows program"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"(\xb5/\xfd", "zstandard data"),
)
_MOST_PDF = 100 * 1024 * 1024
_PDF_SECONDS = 30
_PDF_PAGES = 20
_MOST_OUTPUT = 2_000  # characters of one cell output


def binary_kind(head: bytes) -> str:
    return next((kind for magic, kind in _BINARIES if head.startswith(magic)), "binary data")


def show_image(handle: int, path: Path, size: int) -> tuple[tuple[Content, ...], dict[str, Any]]:
    if (size + 2) // 3 * 4 > MOST_DATA:
        raise ToolError(
            f"{path} is an image of {size:,} bytes; at most {MOST_DATA // 4 * 3:,} can be shown."
            " Make a smaller copy with Bash and read that."
        )
    with open(os.dup(handle), "rb") as file:  # noqa: PTH123
        raw = file.read(size)
    try:
        found = examine(raw)
    except BadPicture as error:
        raise ToolError(f"{path} {str(error).rstrip('.')}.") from None
    data = {"type": "image", "file": {"filePath": str(path), "type": found.media_type, "originalSize": len(raw)}}
    words = f"[{found.media_type}, {found.width} x {found.height} pixels, {len(raw):,} bytes]"
    return (Text(words), Image(found.media_type, base64.b64encode(raw).decode())), data


async def show_pdf(handle: int, path: Path, first: int, count: int | None) -> PageView:
    """The text of some pages, extracted by a separate process with limits on time and memory."""
    if os.fstat(handle).st_size > _MOST_PDF:
        raise ToolError(f"{path} is a PDF of more than {_MOST_PDF:,} bytes. Use Bash to take out what you need.")
    total, pages, size = 0, list[str](), 0

    def take(line: bytes) -> bool:
        nonlocal total, size
        found = cast("dict[str, Any]", json.loads(line))
        total = found.get("total", total)
        if "page" in found:
            pages.append(f"--- page {found['page']} ---\n{bounded(visible(found['text']), most=MOST)}")
            size += len(pages[-1])
        return size < MOST

    from teamwright.host.files import pdf_child  # noqa: PLC0415
    from teamwright.host.process.child import run_child  # noqa: PLC0415

    argv = [sys.executable, "-P", pdf_child.__file__, str(first), str(count or _PDF_PAGES)]
    ended = await run_child(argv, take, seconds=_PDF_SECONDS, stdin=handle)
    if ended.code and not ended.cut and not pages:
        raise ToolError(
            f"The text of {path} could not be taken out of the PDF: {_failure(ended)}. Try Bash with another program."
        )
    if first > total:
        raise ToolError(f"{path} has only {total} pages: there is no page {first}. Use a smaller offset.")
    last = first + len(pages) - 1
    pages += _left_pages(ended, first, last, total)
    where = {"filePath": str(path), "numPages": last - first + 1, "startPage": first, "totalPages": total}
    return PageView("\n".join(pages), {"type": "pdf", "file": where})


def _failure(ended: "ChildEnded") -> str:
    if ended.late or ended.code < 0:
        return "it took too long"
    return visible(ended.complaint.strip()) or "unknown"


def _left_pages(ended: "ChildEnded", first: int, last: int, total: int) -> Iterator[str]:
    """Notes on the pages that are not shown."""
    if not ended.cut and ended.code:
        yield f"[Page {last + 1} could not be read: {visible(ended.complaint.strip()) or 'it took too long'}.]"
    if last < total:
        yield f"[Pages {first}-{last} of {total}; offset={last + 1} shows more (offset and limit count pages)]"


def cells_of(content: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """A notebook and its cells; None if the bytes are not a notebook."""
    try:
        notebook = json.loads(content)  # not msgspec: real notebooks contain NaN
    except (ValueError, RecursionError):
        return None
    cells = cast("dict[str, Any]", notebook).get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cast("list[Any]", cells)):
        return None
    return cast("dict[str, Any]", notebook), cast("list[dict[str, Any]]", cells)


def show_notebook(cells: list[dict[str, Any]], path: Path, first: int, count: int | None) -> PageView:
    """Cells from number `first` (the first is 1): kind, id, source and outputs as text."""
    if cells and first > len(cells):
        raise ToolError(f"{path} has only {len(cells)} cells: there is no cell {first}. Use a smaller offset.")
    shown: list[str] = []
    size = 0
    for number, cell in enumerate(cells[first - 1 :][:count], first):
        shown.append(bounded(_show_cell(number, cell), most=MOST // 2))
        size += len(shown[-1])
        if size >= MOST:
            break
    last = first + len(shown) - 1
    if last < len(cells):
        shown.append(
            f"[Cells {first}-{last} of {len(cells)}; offset={last + 1} shows more (offset and limit count cells)]"
        )
    where = {"filePath": str(path), "numCells": last - first + 1, "startCell": first, "totalCells": len(cells)}
    return PageView("\n".join(shown) or f"[{path} has no cells.]", {"type": "notebook", "file": where})


def _show_cell(number: int, cell: dict[str, Any]) -> str:
    name = f"cell {number} · {cell.get('cell_type')} · id {cell_id(cell, number - 1)}"
    lines = [visible(f"--- {name} ---\n{joined(cell.get('source'))}")]
    for output in as_list(cell.get("outputs")):
        if isinstance(output, dict):
            words = _show_output(cast("dict[str, Any]", output))
            lines.append(f"--- output of cell {number} ---\n{bounded(visible(words), most=_MOST_OUTPUT)}")
    return "\n".join(lines)


def cell_id(cell: dict[str, Any], index: int) -> str:
    """The cell's id, or `cell-N` by position in old notebooks without ids."""
    found = cell.get("id")
    return found if isinstance(found, str) and found else f"cell-{index}"


def joined(source: object) -> str:
    """Text that a notebook stores as one string or as a list of lines."""
    if isinstance(source, list):
        return "".join(str(part) for part in cast("list[Any]", source))
    return source if isinstance(source, str) else ""


def _show_output(output: dict[str, Any]) -> str:
    if output.get("output_type") == "error":
        return f"{output.get('ename')}: {output.get('evalue')}\n{joined(output.get('traceback'))}"
    data = as_object(output.get("data"))
    others = "".join(f"\n[{kind} is not shown]" for kind in data if kind not in ("text/plain", "text/html"))
    return joined(output.get("text")) + joined(data.get("text/plain")) + others
