"""Read: reads a file of any kind and size, as far as a model can use it."""

import io
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from teamwright.core.data.content.picture import kind_of
from teamwright.core.data.event import Seen
from teamwright.core.data.message import Content, Text
from teamwright.core.errors import ToolError
from teamwright.core.ports import Outcome, ToolContext
from teamwright.host.files.paths import is_directory, open_judged
from teamwright.host.files.read_write import read_whole, seen_of
from teamwright.runtime.tool_traits import PathArgument, ToolTraits
from teamwright.tools.define import read_args, spec
from teamwright.tools.files.desk import is_quick, judged, look_up, missing, remember
from teamwright.tools.files.documents import binary_kind, cells_of, show_image, show_notebook, show_pdf
from teamwright.tools.files.page import LINES, PageView, show_page

_MOST_DECODED = 32 * 1024 * 1024  # bytes; UTF-16 and notebooks are read whole
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_DESCRIPTION = f"""\
Reads a file and shows it with line numbers (number, tab, line; they are not part of the file).
At most {LINES} lines at once; for more, or for a part of a large file, give offset and limit.
Images (PNG, JPEG, GIF, WebP) are shown as images; of a PDF the text is shown by page and of a notebook the cells, and
offset and limit then count pages or cells. For directories use Glob."""


class ReadArgs(Struct):
    file_path: Annotated[str, Meta(description="Path of the file; absolute, or from the working directory")]
    offset: Annotated[int, Meta(description="First line to show; 1 is the first", ge=0)] | None = None
    limit: Annotated[int, Meta(description="How many lines to show", ge=1)] | None = None


class _Pdf(Struct, frozen=True):
    path: Path


class _Reading(Struct, frozen=True):
    content: tuple[Content, ...]
    data: dict[str, Any]
    seen: Seen


class ReadTool:
    spec = spec("Read", _DESCRIPTION, ReadArgs, parallel=True)
    traits = ToolTraits(
        name=spec.name,
        effects="none",
        needed_by=frozenset({"coordinator", "memory"}),
        path=PathArgument("file_path", "read"),
    )

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        asked = read_args(ReadArgs, args)
        found = _read(asked, ctx) if is_quick(asked.file_path, ctx) else await look_up(_read, asked, ctx)
        if isinstance(found, _Pdf):
            found = await _read_pdf(found.path, asked)
        return Outcome(found.content, found.data, seen=remember(ctx.desk, found.seen))


READ = ReadTool()


def _read(asked: ReadArgs, ctx: ToolContext) -> _Reading | _Pdf:
    path = judged(asked.file_path, ctx)
    if is_directory(path):
        raise ToolError(f"{path} is a directory. Use Glob to find files in it, or `ls` with Bash.")
    try:
        handle = open_judged(path)
    except FileNotFoundError:
        raise missing(path, ctx.desk) from None
    try:
        found = os.fstat(handle)
        head = os.pread(handle, 8192, 0)
        if head.startswith(b"%PDF-"):
            return _Pdf(path)
        seen = seen_of(path, found)
        if kind_of(head):
            return _Reading(*show_image(handle, path, found.st_size), seen)
        shown = _read_text(handle, path, head, asked)
        return _Reading((Text(shown.text),), shown.data, seen)
    except OSError as error:
        raise ToolError(f"{path} could not be read: {error.strerror}.") from None
    finally:
        os.close(handle)


def _read_text(handle: int, path: Path, head: bytes, asked: ReadArgs) -> PageView:
    start, limit = asked.offset or 1, asked.limit
    if path.suffix == ".ipynb" and (shown := _read_notebook(path, asked)):
        return shown
    if head.startswith(_UTF16) and not head.startswith(b"\xff\xfe\0\0"):
        text = read_whole(path, _MOST_DECODED)[0].decode("utf-16", errors="replace")
        return show_page(io.BytesIO(text.encode()).read, str(path), start, limit, note="The file is UTF-16.")
    if b"\0" in head:
        size = os.fstat(handle).st_size
        raise ToolError(f"{path} is {binary_kind(head)} of {size:,} bytes, not text. Use Bash with a fitting program.")
    return show_page(partial(os.read, handle), str(path), start, limit)


def _read_notebook(path: Path, asked: ReadArgs) -> PageView | None:
    """None: it is not a notebook after all, so it is shown as text."""
    notebook = cells_of(read_whole(path, _MOST_DECODED)[0])
    return show_notebook(notebook[1], path, asked.offset or 1, asked.limit) if notebook else None


async def _read_pdf(path: Path, asked: ReadArgs) -> _Reading:
    try:
        handle = open_judged(path)
    except FileNotFoundError:
        raise ToolError(f"{path} was removed just now.") from None
    try:
        seen = seen_of(path, os.fstat(handle))
        shown = await show_pdf(handle, path, asked.offset or 1, asked.limit)
    finally:
        os.close(handle)
    return _Reading((Text(shown.text),), shown.data, seen)
