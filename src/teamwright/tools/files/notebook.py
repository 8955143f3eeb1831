"""NotebookEdit: replaces, inserts or deletes one cell of a Jupyter notebook; the rest keeps its form."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio.to_thread
from msgspec import Meta, Struct

from teamwright.core.data.message import Text
from teamwright.core.errors import ToolError
from teamwright.core.ports import Outcome, ToolContext
from teamwright.host.files.read_write import read_whole, write_whole
from teamwright.runtime.tool_traits import PathArgument, ToolTraits
from teamwright.tools.bounds import bounded
from teamwright.tools.define import read_args, spec
from teamwright.tools.files.desk import encoded, judged, missing, remember, require_fresh
from teamwright.tools.files.documents import cell_id, cells_of

_MOST = 32 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_INDENT = re.compile(rb'^\s*\{\r?\n([ \t]+)"')
_DESCRIPTION = """\
Changes one cell of a Jupyter notebook (.ipynb): replaces its source, inserts a new cell after it, or deletes it.
Read shows the ids. The notebook must have been Read and not changed since. Replacing a code cell clears its outputs."""


class NotebookArgs(Struct):
    notebook_path: Annotated[str, Meta(description="Path of the .ipynb file")]
    new_source: Annotated[str, Meta(description="The cell's new source; ignored for delete")]
    cell_id: Annotated[
        str | None, Meta(description="Id of the cell; for insert, the new one comes after it (none: at the start)")
    ] = None
    cell_type: Annotated[
        Literal["code", "markdown"] | None, Meta(description="Needed for insert; for replace, as it was")
    ] = None
    edit_mode: Annotated[Literal["replace", "insert", "delete"], Meta(description="What to do")] = "replace"


class NotebookEditTool:
    spec = spec("NotebookEdit", _DESCRIPTION, NotebookArgs)
    traits = ToolTraits(
        name=spec.name, path=PathArgument("notebook_path", "write"), texts=("notebook_path", "new_source")
    )

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        return await anyio.to_thread.run_sync(_edit, read_args(NotebookArgs, args), ctx)


NOTEBOOK_EDIT = NotebookEditTool()


def _edit(asked: NotebookArgs, ctx: ToolContext) -> Outcome:
    encoded(asked.new_source, "new_source")
    path = judged(asked.notebook_path, ctx)
    if path.suffix != ".ipynb":
        raise ToolError(f"{path} is not a notebook (.ipynb). Use Edit for other files.")
    try:
        content, found = read_whole(path, _MOST)
    except FileNotFoundError:
        raise missing(path, ctx.desk) from None
    require_fresh(ctx.desk, path, found)
    parsed = cells_of(content)
    if parsed is None:
        raise ToolError(f"{path} is not a notebook of format 4 that can be understood. Read it and use Edit.")
    notebook, cells = parsed
    done, name = _change(notebook, cells, asked, path)
    seen = write_whole(path, _encode(notebook, content), basis=found)
    data = {
        "filePath": str(path),
        "cell_id": name,
        "cell_type": asked.cell_type,
        "edit_mode": asked.edit_mode,
        "new_source": bounded(asked.new_source, most=4_000),
    }
    return Outcome((Text(f"{done} cell {name} of {path}."),), data, seen=remember(ctx.desk, seen))


def _change(notebook: dict[str, Any], cells: list[dict[str, Any]], asked: NotebookArgs, path: Path) -> tuple[str, str]:
    """Changes the cell; returns what was done, and to which cell."""
    at = _place(cells, asked.cell_id, path)
    if asked.edit_mode == "insert":
        if asked.cell_type is None:
            raise ToolError("To insert a cell, say its cell_type: code or markdown.")
        index = 0 if at is None else at + 1
        cells.insert(index, _new_cell(notebook, cells, asked.cell_type, asked.new_source))
        return "Inserted", cell_id(cells[index], index)
    if at is None:
        raise ToolError(f"To {asked.edit_mode} a cell, say which: give its cell_id as Read shows it.")
    name = cell_id(cells[at], at)
    if asked.edit_mode == "delete":
        del cells[at]
        return "Deleted", name
    _replace(cells[at], asked)
    return "Replaced", name


def _place(cells: list[dict[str, Any]], wanted: str | None, path: Path) -> int | None:
    if wanted is None:
        return None
    ids = [cell_id(cell, index) for index, cell in enumerate(cells)]
    if wanted not in ids:
        known = bounded(", ".join(ids), most=1_000) or "none"
        raise ToolError(f"{path} has no cell with the id {wanted}. Its cells are: {known}.")
    return ids.index(wanted)


def _replace(cell: dict[str, Any], asked: NotebookArgs) -> None:
    cell["source"] = _lines(asked.new_source, as_list=isinstance(cell.get("source"), list))
    kind = asked.cell_type or cell.get("cell_type")
    cell["cell_type"] = kind
    if kind == "code":  # the old outputs no longer apply
        cell["execution_count"] = None
        cell["outputs"] = []
    else:
        cell.pop("execution_count", None)
        cell.pop("outputs", None)


def _new_cell(notebook: dict[str, Any], cells: list[dict[str, Any]], kind: str, source: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind}
    if kind == "code":
        cell["execution_count"] = None
    minor = notebook.get("nbformat_minor")
    if isinstance(minor, int) and minor >= 5:  # ids exist since 4.5
        cell["id"] = os.urandom(4).hex()
    cell["metadata"] = {}
    if kind == "code":
        cell["outputs"] = []
    whole = any(isinstance(other.get("source"), str) for other in cells)
    cell["source"] = _lines(source, as_list=not whole)
    return cell


def _lines(source: str, *, as_list: bool) -> str | list[str]:
    if not as_list:
        return source
    lines = source.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _encode(notebook: dict[str, Any], before: bytes) -> bytes:
    """Encodes in the file's own style: indentation, escapes, final newline."""
    import json  # noqa: PLC0415  # unlike msgspec it can write all of these

    found = _INDENT.match(before.removeprefix(_BOM))
    indent = found[1].decode() if found else None
    spread = found is not None or b'": ' in before
    escape = before.isascii() and b"\\u" in before
    separators = (",", ": ") if found else ((", ", ": ") if spread else (",", ":"))
    text = json.dumps(notebook, indent=indent, ensure_ascii=escape, separators=separators)
    bom = _BOM if before.startswith(_BOM) else b""
    text += "\n" if before.endswith(b"\n") else ""
    try:
        return bom + text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which can only be escaped
        text = json.dumps(notebook, indent=indent, separators=separators) + "\n" * before.endswith(b"\n")
        return bom + text.encode()
