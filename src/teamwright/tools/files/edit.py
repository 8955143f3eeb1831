"""Edit: replaces one piece of a file, and leaves every other byte as it was."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import anyio.to_thread
from msgspec import Meta, Struct

from teamwright.core.data.content.patch import Hunk
from teamwright.core.data.message import Text
from teamwright.core.errors import ToolError
from teamwright.core.ports import Desk, Outcome, ToolContext
from teamwright.core.text import plural
from teamwright.host.files.read_write import read_whole, write_whole
from teamwright.runtime.tool_traits import FileChange, PathArgument, ToolTraits
from teamwright.tools.bounds import bounded, visible
from teamwright.tools.define import read_args, spec
from teamwright.tools.files.changes import patch_data, shown_hunks
from teamwright.tools.files.desk import encoded, judged, judged_path, missing, remember, require_fresh
from teamwright.tools.files.matching import Coded, Span, decode, explain_absence, find_places, line_of, replacement

_MOST = 64 * 1024 * 1024
_MOST_PLACES = 1_000_000
_MOST_NAMED = 1_000  # how far places are counted if only one is wanted
_AROUND = 2  # lines shown before and after a change
_MOST_LINES = 20
_LONGEST = 500
_MOST_ECHOED = 4_000
_DESCRIPTION = """\
Replaces a piece of text in a file. old_string must stand in the file exactly once, white space included (without the
line numbers that Read shows): add lines around it until it is unique, or set replace_all to change every occurrence.
The file must not have changed since you last saw it; for replace_all it must have been Read. Encoding and line ends
are kept. An empty old_string makes a new file."""


class EditArgs(Struct):
    file_path: Annotated[str, Meta(description="Path of the file; absolute, or from the working directory")]
    old_string: Annotated[str, Meta(description="The text to replace")]
    new_string: Annotated[str, Meta(description="The text that takes its place")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence")] = False


class PlannedEdit(Struct):
    """A feasible edit: the file as it is, and its text afterwards."""

    before: str
    after: str
    coded: Coded
    found: os.stat_result
    places: list[Span]
    pieces: list[str]


def preview_edit(args: Mapping[str, Any], desk: Desk, paths: Mapping[str, str]) -> tuple[Hunk, ...]:
    asked = read_args(EditArgs, args)
    planned = _plan(asked, judged_path(asked.file_path, desk, paths), desk)
    return shown_hunks("", asked.new_string) if planned is None else shown_hunks(planned.before, planned.after)


class EditTool:
    spec = spec("Edit", _DESCRIPTION, EditArgs)
    traits = ToolTraits(
        name=spec.name,
        needed_by=frozenset({"memory"}),
        path=PathArgument("file_path", "write"),
        change=FileChange(new="new_string", old="old_string"),
        preview=preview_edit,
    )

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        return await anyio.to_thread.run_sync(_edit, read_args(EditArgs, args), ctx)


EDIT = EditTool()


def _edit(asked: EditArgs, ctx: ToolContext) -> Outcome:
    path = judged(asked.file_path, ctx)
    planned = _plan(asked, path, ctx.desk)
    if planned is None:
        seen = write_whole(path, asked.new_string.encode(), basis=None)
        return Outcome((Text(f"Created {path}."),), _data(path, asked), seen=remember(ctx.desk, seen))
    seen = write_whole(path, planned.coded.encode(planned.after), basis=planned.found)
    words = _tell(path, planned.after, planned.places, planned.pieces)
    patch = patch_data(planned.before, planned.after)
    return Outcome((Text(words),), _data(path, asked) | patch, seen=remember(ctx.desk, seen))


def _plan(asked: EditArgs, path: Path, desk: Desk) -> PlannedEdit | None:
    """None for a file to be created. Raises ToolError if the edit is impossible."""
    encoded(asked.old_string, "old_string")
    encoded(asked.new_string, "new_string")
    if asked.old_string == asked.new_string:
        raise ToolError("old_string and new_string are equal: there is nothing to change.")
    try:
        content, found = read_whole(path, _MOST)
    except FileNotFoundError:
        if asked.old_string:
            raise missing(path, desk) from None
        return None
    require_fresh(desk, path, found, whole=False)  # a text that occurs once proves that the file is known
    coded = decode(content, str(path))
    places = _places(path, coded.text, asked)
    if len(places) > 1:
        require_fresh(desk, path, found)
    if not asked.new_string.isascii() and coded.unknown:
        raise ToolError(
            f"{path} is not UTF-8, and its encoding is not known; nothing was changed. Use only ASCII characters in"
            " new_string, or change the file by Bash with a program that is told the encoding."
        )
    pieces = [replacement(coded.text, place, asked.old_string, asked.new_string) for place in places]
    return PlannedEdit(coded.text, _put(coded.text, places, pieces), coded, found, places, pieces)


def _places(path: Path, text: str, asked: EditArgs) -> list[Span]:
    if not asked.old_string:
        if text:
            raise ToolError(f"{path} exists and is not empty, so old_string must say what to replace.")
        return [(0, 0)]
    most = _MOST_PLACES if asked.replace_all else _MOST_NAMED
    places = find_places(text, asked.old_string, overlapping=not asked.replace_all, most=most)
    if not places:
        why = explain_absence(text, asked.old_string)
        raise ToolError(f"old_string was not found in {path}; nothing was changed.{why}")
    if len(places) > 1 and not asked.replace_all:
        count = f"{len(places)}" if len(places) < most else f"at least {most:,}"
        raise ToolError(
            f"old_string stands {count} times in {path} (lines {_lines_of(text, places)}); nothing was changed."
            " Add lines around it to make it unique, or set replace_all."
        )
    if len(places) == _MOST_PLACES or len(places) * len(asked.new_string) > 4 * _MOST:
        raise ToolError(f"There are too many places in {path} to change them all here. Use Bash, for example `sed`.")
    return places


def _lines_of(text: str, places: Sequence[Span]) -> str:
    lines = ", ".join(dict.fromkeys(str(line_of(text, start)) for start, _ in places[:10]))
    return f"{lines}, …" if len(places) > 10 else lines


def _put(text: str, places: Sequence[Span], pieces: Sequence[str]) -> str:
    parts: list[str] = []
    at = 0
    for (start, end), piece in zip(places, pieces, strict=True):
        parts += (text[at:start], piece)
        at = end
    return "".join([*parts, text[at:]])


def _tell(path: Path, text: str, places: Sequence[Span], pieces: Sequence[str]) -> str:
    first = line_of(text, places[0][0])
    piece = pieces[0].removesuffix("\n")  # the newline ends its last line and starts no other
    count = piece.count("\n") + 1
    # Cut out by position: splitting a big file into all its lines only to show a few would cost more than the edit.
    start = _line_start(text, places[0][0], _AROUND)
    end = _line_end(text, places[0][0] + len(piece), _AROUND)
    part = text[start:end].replace("\r\n", "\n")
    lines = (part.removesuffix("\n") if end == len(text) else part).split("\n")
    top = max(first - _AROUND, 1)
    shown = [f"{number:>6}\t{visible(line[:_LONGEST])}" for number, line in enumerate(lines, top)]
    if len(shown) > _MOST_LINES:
        half = _MOST_LINES // 2
        shown = [*shown[:half], f"   ... {plural(len(shown) - _MOST_LINES, 'line')} not shown ...", *shown[-half:]]
    what = f"{len(places)} places were changed; the first is" if len(places) > 1 else "It now reads"
    return (
        f"Changed {path}. {what} at line {first}"
        + (f" to {first + count - 1}" if count > 1 else "")
        + ":\n"
        + "\n".join(shown)
    )


def _line_start(text: str, at: int, above: int) -> int:
    for _ in range(above + 1):
        at = text.rfind("\n", 0, at)
        if at < 0:
            return 0
    return at + 1


def _line_end(text: str, at: int, below: int) -> int:
    for _ in range(below + 1):
        at = text.find("\n", at)
        if at < 0:
            return len(text)
        at += 1
    return at - 1


def _data(path: Path, asked: EditArgs) -> dict[str, Any]:
    return {
        "filePath": str(path),
        "oldString": bounded(asked.old_string, most=_MOST_ECHOED),
        "newString": bounded(asked.new_string, most=_MOST_ECHOED),
        "replaceAll": asked.replace_all,
    }
