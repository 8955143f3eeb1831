"""Glob and Grep: find files by name and content below a judged directory, except what Read is denied."""

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from teamwright.core.data.event import Seen
from teamwright.core.errors import ToolError
from teamwright.core.ports import Outcome, ToolContext, said
from teamwright.host.files.paths import refusal, resolve
from teamwright.host.files.read_write import seen_of
from teamwright.runtime.tool_traits import PathArgument, ToolTraits
from teamwright.tools.bounds import visible
from teamwright.tools.define import read_args, spec
from teamwright.tools.files.desk import judged, look_up, missing, remember
from teamwright.tools.files.globs import choices, matcher
from teamwright.tools.files.hits import LINES, MOST_COUNTED, Hits, Shape

if TYPE_CHECKING:
    from teamwright.host.process.child import ChildEnded

_SHOWN = 100
_MOST_PATHS = 200_000
_LONGEST_PATTERN = 10_000
_MOST_MULTILINE = 100 * 1024 * 1024  # bytes; the file is held in memory
_MOST_AGAIN = 16 * 1024 * 1024  # bytes per file, after one was too much for the search
_STARVED = (
    f"[Files of more than {_MOST_AGAIN >> 20} MiB were left out: one has a line that is too long to be searched.]"
)
_GLOB = """\
Finds files by name, newest first, e.g. `**/*.py`, `src/**/*.{ts,tsx}`, `README*`. A pattern without `/` matches at
any depth. Files that .gitignore names are not found. Use Grep to search by content."""
_GREP = """\
Searches files by content with a regular expression (ripgrep's syntax, e.g. `log.*Error`; escape literal braces).
output_mode: files_with_matches (default; newest first), content (matching lines by file), count.
Files that .gitignore names are not searched. Use this rather than grep or rg in Bash."""


class GlobArgs(Struct):
    pattern: Annotated[str, Meta(description="Pattern for paths relative to the directory", min_length=1)]
    path: Annotated[str, Meta(description="Directory to search; default: the working directory")] | None = None


class GrepArgs(Struct):
    pattern: Annotated[str, Meta(description="Regular expression", min_length=1)]
    path: Annotated[str, Meta(description="File or directory; default: the working directory")] | None = None
    glob: Annotated[str, Meta(description="Only files that match, e.g. `*.js` or `src/**/*.{ts,tsx}`")] | None = None
    type: Annotated[str, Meta(description="Only files of this type, e.g. py, js, rust, go")] | None = None
    output_mode: Annotated[Literal["content", "files_with_matches", "count"], Meta(description="What to show")] = (
        "files_with_matches"
    )
    ignore_case: Annotated[bool, Meta(description="Ignore case")] = field(default=False, name="-i")
    numbers: Annotated[bool, Meta(description="Line numbers (content mode); default true")] = field(
        default=True, name="-n"
    )
    after: Annotated[int, Meta(description="Lines shown after each match", ge=0)] | None = field(
        default=None, name="-A"
    )
    before: Annotated[int, Meta(description="Lines shown before each match", ge=0)] | None = field(
        default=None, name="-B"
    )
    around: Annotated[int, Meta(description="Lines shown before and after", ge=0)] | None = field(
        default=None, name="-C"
    )
    head_limit: (
        Annotated[int, Meta(description=f"Lines or files to show; default {LINES}, 0 for all that fit", ge=0)] | None
    ) = None
    offset: Annotated[int, Meta(description="Lines or files to skip, to see more of a long result", ge=0)] = 0
    multiline: Annotated[bool, Meta(description="A match may span lines, and `.` fits newlines")] = False


class GlobTool:
    spec = spec("Glob", _GLOB, GlobArgs, parallel=True)
    traits = ToolTraits(name=spec.name, effects="none", path=PathArgument("path", "search", pattern="pattern"))

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        asked = read_args(GlobArgs, args)
        root, is_file = await look_up(_where, asked.path, ctx)
        if is_file:
            raise ToolError(f"{root} is a file, not a directory. Give a directory as path, or use Read.")
        fits = matcher(_below(asked.pattern, root))
        found: list[str] = []

        from teamwright.host.files.search import search_below  # noqa: PLC0415

        def take(piece: bytes) -> bool:
            name = os.fsdecode(piece).removeprefix("./")
            if fits(name) and not _is_hidden(ctx, root, name):
                found.append(name)
            return len(found) < _MOST_PATHS

        ended = await search_below(root, ["--files", "--null"], [], take, separator=b"\0")
        newest = await look_up(newest_first, root, found, _SHOWN)
        names = list(map(_namer(root, ctx), newest))
        notes = _notes(ended, len(found) - len(names))
        data = {"filenames": names, "numFiles": len(found), "truncated": bool(notes)}
        return said("\n".join([*names, *notes]) or "No files found", data)


class GrepTool:
    spec = spec("Grep", _GREP, GrepArgs, parallel=True)
    traits = ToolTraits(name=spec.name, effects="none", path=PathArgument("path", "search"))

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        asked = read_args(GrepArgs, args)
        for name, value in (("pattern", asked.pattern), ("glob", asked.glob), ("type", asked.type)):
            _require_argument(name, value)
        root, is_file = await look_up(_where, asked.path, ctx)
        if is_file:
            return await _grep_file(root, asked, ctx)
        hits, ended = await _grep_below(root, asked, ctx, [])
        note = _STARVED if ended.starved else ""
        if ended.starved:  # retry without files whose lines do not fit into memory
            hits, ended = await _grep_below(root, asked, ctx, [f"--max-filesize={_MOST_AGAIN}"])
        return await _seen(_answer(hits, ended, note), hits, root, ctx)


async def _seen(outcome: Outcome, hits: Hits, root: Path, ctx: ToolContext) -> Outcome:
    """The files of which lines are shown may be edited, as long as they stay as they are."""
    if hits.shape != "content" or not hits.shown:
        return outcome
    return replace(outcome, seen=remember(ctx.desk, *await look_up(_states, root, tuple(hits.shown))))


def _states(root: Path, names: Sequence[str]) -> list[Seen]:
    found: list[Seen] = []
    for name in names:
        with suppress(OSError):
            found.append(replace(seen_of(root / name, (root / name).lstat()), part=True))
    return found


GLOB = GlobTool()
GREP = GrepTool()


async def _grep_below(root: Path, asked: GrepArgs, ctx: ToolContext, more: list[str]) -> tuple[Hits, "ChildEnded"]:
    from teamwright.host.files.search import search_below  # noqa: PLC0415

    hits = _hits(asked, _wanted(asked.glob, root, ctx), _namer(root, ctx))
    options = [*_options(asked), *_narrow(asked), *more]
    if asked.output_mode == "files_with_matches":
        ended = await search_below(root, options, [asked.pattern], hits.take_path, separator=b"\0")
        order = await look_up(newest_first, root, hits.paths, len(hits.paths))
        hits.show_paths(order)
    else:
        ended = await search_below(root, ["--sort=path", *options], [asked.pattern], hits.take, separator=b"\n")
    return hits, ended


def _hits(asked: GrepArgs, wanted: Callable[[str], bool], name: Callable[[str], str], only: str = "") -> Hits:
    return Hits(
        asked.output_mode,
        limit=asked.head_limit,
        offset=asked.offset,
        numbers=asked.numbers,
        wanted=wanted,
        name=name,
        only=only,
    )


async def _grep_file(path: Path, asked: GrepArgs, ctx: ToolContext) -> Outcome:
    from teamwright.host.files.search import MEMORY, search_file  # noqa: PLC0415

    hits = _hits(asked, lambda _: True, _namer(path.parent, ctx), path.name)
    most = _MOST_MULTILINE if asked.multiline else None
    try:
        ended = await search_file(path, _options(asked), asked.pattern, hits.take, most=most)
    except FileNotFoundError:
        raise ToolError(f"{path} was removed just now.") from None
    if ended.starved and not hits.hits:
        raise ToolError(
            f"{path} has a line that is too long to be searched within {MEMORY >> 20} MiB of memory."
            " Use Bash, e.g. `tr` or `fold` to break it up, or a program for this kind of data."
        )
    note = "[A later line is too long to be searched: this is not all.]" if ended.starved else ""
    return await _seen(_answer(hits, ended, note), hits, path.parent, ctx)


def _answer(hits: Hits, ended: "ChildEnded", note: str = "") -> Outcome:
    if ended.code == 2 and ended.complaint and not hits.hits:
        words = visible(ended.complaint.strip()).replace("rg: ", "", 1)
        raise ToolError(f"The search could not be run: {words}\nCorrect the arguments and call Grep again.")
    notes = [hits.rest(), *_notes(replace(ended, cut=ended.cut and hits.left_out < MOST_COUNTED), 0), note]
    notes = [note for note in notes if note]
    return said("\n".join([*hits.lines(), *notes]) or "No matches found", hits.data() | {"truncated": bool(notes)})


def _notes(ended: "ChildEnded", left_out: int) -> list[str]:
    from teamwright.host.files.search import SECONDS  # noqa: PLC0415

    notes: list[str] = []
    if ended.late:
        notes.append(f"[Stopped after {SECONDS} s: this is not all. Narrow the search.]")
    if ended.cut:
        notes.append("[There is more than is shown here. Narrow the search with path, glob or a longer pattern.]")
    elif left_out:
        notes.append(f"[{left_out:,} more are not shown. Narrow the search to see them.]")
    if ended.code == 2 and not ended.complaint:
        notes.append("[Some files or directories could not be read.]")
    return notes


def _where(path: str | None, ctx: ToolContext) -> tuple[Path, bool]:
    """What to search, and whether it is a single file."""
    root = judged(path, ctx) if path else resolve(".", ctx.desk.cwd)
    try:
        found = os.stat(root)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        raise missing(root, ctx.desk) from None
    except OSError as error:
        raise refusal(root, error) from None
    return root, not stat.S_ISDIR(found.st_mode)


def _below(pattern: str, root: Path) -> str:
    """Makes an absolute pattern relative. One that leads elsewhere is refused, because it was not judged."""
    if not pattern.startswith("/"):
        return pattern
    relative = pattern.removeprefix(f"{str(root).rstrip('/')}/")
    if relative == pattern:
        raise ToolError(
            f"The pattern leads out of {root}. Give the directory to search as `path`, and a pattern below it."
        )
    return relative if "/" in relative else f"./{relative}"


def _is_hidden(ctx: ToolContext, root: Path, name: str) -> bool:
    return ctx.desk.hidden is not None and ctx.desk.hidden(f"{root}/{name}")


def _wanted(glob: str | None, root: Path, ctx: ToolContext) -> Callable[[str], bool]:
    unwanted = glob is not None and glob.startswith("!")
    fits = matcher(glob[1:] if unwanted else glob) if glob else None
    return lambda name: (fits is None or fits(name) != unwanted) and not _is_hidden(ctx, root, name)


def _namer(root: Path, ctx: ToolContext) -> Callable[[str], str]:
    """Displays paths relative to the working directory if they are below it."""
    cwd = resolve(".", ctx.desk.cwd)

    def name(path: str) -> str:
        whole = root / path
        return visible(str(whole.relative_to(cwd) if whole.is_relative_to(cwd) else whole)).replace("\n", "\\n")

    return name


def _require_argument(name: str, value: str | None) -> None:
    if value is None:
        return
    if "\0" in value or len(value) > _LONGEST_PATTERN or any(0xD800 <= ord(c) <= 0xDFFF for c in value):
        raise ToolError(f"`{name}` is too long or contains a character that cannot be searched for. Correct it.")


def _options(asked: GrepArgs) -> list[str]:
    options: list[str] = []
    if asked.ignore_case:
        options.append("--ignore-case")
    if asked.multiline:
        options += ["--multiline", "--multiline-dotall", f"--max-filesize={_MOST_MULTILINE}"]
    shape: Shape = asked.output_mode
    match shape:
        case "files_with_matches":
            options += ["--files-with-matches", "--null"]
        case "count":
            options += ["--count", "--null", "--with-filename"]
        case "content":
            options += ["--no-heading", "--null", "--with-filename", "--line-number"]
            options += ["--max-columns=500", "--max-columns-preview"]
            around = (("-A", asked.after), ("-B", asked.before), ("-C", asked.around))
            options += [f"{flag}{count}" for flag, count in around if count]
    return options


def _narrow(asked: GrepArgs) -> list[str]:
    """Spares rg files that cannot match. Does not use --glob, because that would also search ignored files."""
    if asked.type:
        return [f"--type={asked.type}"]
    if not asked.glob or asked.glob.startswith("!"):
        return []
    last = {choice.rstrip("/").rpartition("/")[2] for choice in choices(asked.glob)}
    if any(name in ("", "**") or set(name) & set("[]\\:") for name in last) or asked.glob.endswith("/"):
        return []
    return [*(f"--type-add=wanted:{name}" for name in sorted(last)), "--type=wanted"]


def newest_first(root: Path, names: list[str], most: int) -> list[str]:
    def age(name: str) -> tuple[int, str]:
        try:
            return -(root / name).lstat().st_mtime_ns, name
        except OSError:
            return 0, name

    return nsmallest(most, names, key=age)
