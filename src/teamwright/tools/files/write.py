"""Write: writes a whole file, byte for byte as given."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import anyio.to_thread
from msgspec import Meta, Struct

from teamwright.core.data.content.patch import Hunk
from teamwright.core.data.message import Text
from teamwright.core.ports import Desk, Outcome, ToolContext
from teamwright.core.text import line_count
from teamwright.host.files.read_write import look, read_whole, write_whole
from teamwright.runtime.tool_traits import FileChange, PathArgument, ToolTraits
from teamwright.tools.define import read_args, spec
from teamwright.tools.files.changes import patch_data, shown_hunks
from teamwright.tools.files.desk import encoded, judged, judged_path, remember, require_fresh

_MOST_COMPARED = 1_000_000  # bytes of a file that is compared with its replacement
_DESCRIPTION = """\
Writes a whole file as UTF-8, exactly as given; missing directories are made.
A file that exists is replaced, but only if you have Read it and it has not changed since. To change a part of a file
use Edit."""


class WriteArgs(Struct):
    file_path: Annotated[str, Meta(description="Path of the file; absolute, or from the working directory")]
    content: Annotated[str, Meta(description="All that the file shall contain")]


def preview_write(args: Mapping[str, Any], desk: Desk, paths: Mapping[str, str]) -> tuple[Hunk, ...]:
    asked = read_args(WriteArgs, args)
    encoded(asked.content, "content")
    before, _ = _before(judged_path(asked.file_path, desk, paths), desk)
    return shown_hunks(before, asked.content)


class WriteTool:
    spec = spec("Write", _DESCRIPTION, WriteArgs)
    traits = ToolTraits(
        name=spec.name,
        needed_by=frozenset({"memory"}),
        path=PathArgument("file_path", "write"),
        change=FileChange(new="content"),
        preview=preview_write,
    )

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        return await anyio.to_thread.run_sync(_write, read_args(WriteArgs, args), ctx)


WRITE = WriteTool()


def _write(asked: WriteArgs, ctx: ToolContext) -> Outcome:
    content = encoded(asked.content, "content")
    path = judged(asked.file_path, ctx)
    before, basis = _before(path, ctx.desk)
    seen = write_whole(path, content, basis=basis)
    verb = "Created" if basis is None else "Replaced"
    data = {"type": "create" if basis is None else "update", "filePath": str(path), "bytes": len(content)}
    data |= patch_data(before, asked.content) if before else {}
    return Outcome(
        (Text(f"{verb} {path} ({line_count(asked.content):,} lines)."),), data, seen=remember(ctx.desk, seen)
    )


def _before(path: Path, desk: Desk) -> tuple[str, os.stat_result | None]:
    """The text to be replaced, if a diff can be shown, and the file's current state; None if there is no file."""
    basis = look(path)
    if basis is None:
        return "", None
    require_fresh(desk, path, basis)
    if basis.st_size > _MOST_COMPARED:
        return "", basis
    content, basis = read_whole(path, _MOST_COMPARED)
    try:
        return content.decode(), basis
    except UnicodeDecodeError:
        return "", basis
