"""Write: writes a whole file, byte for byte as given."""

from collections.abc import Mapping
from typing import Annotated, Any

import anyio.to_thread
from msgspec import Meta, Struct

from teamwright.core.data.message import Text
from teamwright.core.ports import Outcome, ToolContext
from teamwright.host.files.read_write import look, write_whole
from teamwright.runtime.tool_traits import FileChange, PathArgument, ToolTraits
from teamwright.tools.define import read_args, spec
from teamwright.tools.files.desk import encoded, judged, remember, require_fresh

_DESCRIPTION = """\
Writes a whole file as UTF-8, exactly as given; missing directories are made.
A file that exists is replaced, but only if you have Read it and it has not changed since. To change a part of a file
use Edit."""


class WriteArgs(Struct):
    file_path: Annotated[str, Meta(description="Path of the file; absolute, or from the working directory")]
    content: Annotated[str, Meta(description="All that the file shall contain")]


class WriteTool:
    spec = spec("Write", _DESCRIPTION, WriteArgs)
    traits = ToolTraits(
        name=spec.name,
        needed_by=frozenset({"memory"}),
        path=PathArgument("file_path", "write"),
        change=FileChange(new="content"),
    )

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        return await anyio.to_thread.run_sync(_write, read_args(WriteArgs, args), ctx)


WRITE = WriteTool()


def _write(asked: WriteArgs, ctx: ToolContext) -> Outcome:
    content = encoded(asked.content, "content")
    path = judged(asked.file_path, ctx)
    basis = look(path)
    if basis is not None:
        require_fresh(ctx.desk, path, basis)
    seen = write_whole(path, content, basis=basis)
    verb = "Created" if basis is None else "Replaced"
    lines = asked.content.count("\n") + (not asked.content.endswith("\n") and asked.content != "")
    data = {"type": "create" if basis is None else "update", "filePath": str(path), "bytes": len(content)}
    return Outcome((Text(f"{verb} {path} ({lines:,} lines)."),), data, seen=remember(ctx.desk, seen))
