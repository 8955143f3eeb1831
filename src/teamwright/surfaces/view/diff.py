"""Shows a call in full for approval: the command or diff and all other arguments, without cuts."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from teamwright.core.data.content.patch import Hunk
from teamwright.core.errors import SettingsError
from teamwright.osfiles.reading import read_whole
from teamwright.runtime.tool_traits import ToolTraits
from teamwright.surfaces.view.code import highlight, marks_between
from teamwright.tools.bounds import counted, visible
from teamwright.tools.catalog import traits_of

Kind = Literal["plain", "strong", "dim", "add", "del"]
MOST_COMPARED = 3_000  # lines of both sides; beyond that the whole old text is removed and the whole new one added
MOST_BEFORE = 1_000_000  # bytes of a file that is read for comparison
CONTEXT = 3
TABS = 4
_DIM = frozenset({"description"})


Span = tuple[int, int]  # of characters


class DiffRow(Struct, frozen=True):
    """One line of text, safe to draw except for its width."""

    kind: Kind
    text: str
    number: int = 0  # its number in the file; 0: none
    marks: tuple[Span, ...] = ()  # words that differ from the line it replaces, or that replaces it
    syntax: tuple[tuple[int, int, str], ...] = ()  # Pygments' names, with where they apply


def rows_of(tool: str, args: Mapping[str, Any], before: str | None = None, patch: Sequence[Hunk] = ()) -> list[DiffRow]:
    """`patch` is what the call changes in its file, if known; else `before` is the present content of a replaced
    file."""
    traits = traits_of(tool)
    if (path := traits.path) is not None and (change := traits.change) is not None:
        named = [name for name in (path.name, change.old, change.new) if name]
        if all(isinstance(args.get(name), str) for name in named):
            old = args[change.old] if change.old else before or ""
            changed = hunk_rows(patch, args[path.name]) if patch else compare(old, args[change.new])
            return [*lines_of("strong", args[path.name]), *changed, *_rest(args, set(named))]
    return _text_rows(traits, args)


def _text_rows(traits: ToolTraits, args: Mapping[str, Any]) -> list[DiffRow]:
    """Rows of a call that changes no file: its texts, the first one emphasised."""
    shown = [name for name in traits.texts if isinstance(args.get(name), str)]
    rows = [row for n, name in enumerate(shown) for row in lines_of("plain" if n else "strong", args[name])]
    if traits.asks == "plan":
        while rows and not rows[-1].text.strip():
            rows.pop()
        rows = [DiffRow("strong" if row.text.startswith("#") else "plain", row.text) for row in rows]
    return [*rows, *_rest(args, set(shown))]


def compare(old: str, new: str) -> list[DiffRow]:
    """The removed and added lines, with some context."""
    gone, come = _file_lines(old), _file_lines(new)
    if len(gone) + len(come) > MOST_COMPARED or not old:
        return [*_marked("del", gone), *_marked("add", come)]
    rows = _changed_lines(gone, come)
    if old and new and old.endswith("\n") != new.endswith("\n"):
        change = "loses" if old.endswith("\n") else "gets"
        rows.append(DiffRow("dim", f"the last line {change} its line end"))
    return rows or [DiffRow("dim", "no line changes")]


def _changed_lines(gone: Sequence[str], come: Sequence[str]) -> list[DiffRow]:
    rows: list[DiffRow] = []
    for group in difflib.SequenceMatcher(None, gone, come, autojunk=False).get_grouped_opcodes(CONTEXT):
        if rows or group[0][1] > 0:
            rows.append(DiffRow("dim", "⋯"))
        for tag, a, b, c, d in group:
            if tag == "equal":
                rows += _marked("dim", gone[a:b])
            else:
                rows += [*_marked("del", gone[a:b]), *_marked("add", come[c:d])]
    return rows


def _marked(kind: Kind, lines: Sequence[str]) -> list[DiffRow]:
    return [DiffRow(kind, line) for line in lines]


def hunk_rows(patch: Sequence[Hunk], path: str) -> list[DiffRow]:
    """Numbered lines: removed ones with their old numbers, all others with their new ones."""
    rows: list[DiffRow] = []
    for hunk in patch:
        if rows or hunk.old_start > 1:
            rows.append(DiffRow("dim", "⋯"))
        rows += _one_hunk(hunk, path)
    return rows


def _one_hunk(hunk: Hunk, path: str) -> list[DiffRow]:
    lines = [(line[:1], _safe(line[1:])) for line in hunk.lines]
    marks = _marks(lines)
    gone = highlight([text for sign, text in lines if sign != "+"], path)
    come = highlight([text for sign, text in lines if sign != "-"], path)
    old, new = hunk.old_start, hunk.new_start
    rows: list[DiffRow] = []
    for n, (sign, text) in enumerate(lines):
        if sign == "-":
            rows.append(DiffRow("del", text, old, marks.get(n, ()), gone[old - hunk.old_start]))
        else:
            kind: Kind = "add" if sign == "+" else "dim"
            rows.append(DiffRow(kind, text, new, marks.get(n, ()), come[new - hunk.new_start]))
        old, new = old + (sign != "+"), new + (sign != "-")
    return rows


def _marks(lines: Sequence[tuple[str, str]]) -> dict[int, tuple[Span, ...]]:
    """The changed words in each pair of a removed line and the line that replaces it."""
    found: dict[int, tuple[Span, ...]] = {}
    at = 0
    while at < len(lines):
        middle = _run(lines, at, "-")
        end = _run(lines, middle, "+")
        for gone, come in zip(range(at, middle), range(middle, end), strict=False):
            found[gone], found[come] = marks_between(lines[gone][1], lines[come][1])
        at = max(end, at + 1)
    return found


def _run(lines: Sequence[tuple[str, str]], at: int, sign: str) -> int:
    while at < len(lines) and lines[at][0] == sign:
        at += 1
    return at


def _file_lines(text: str) -> list[str]:
    """The end of the last line starts no further line."""
    return _lines(text.removesuffix("\n")) if text else []


def replaces_file(tool: ToolTraits) -> bool:
    """Whether a call gives the whole text of a file, whatever it held before."""
    return tool.change is not None and not tool.change.old


def read_before(tool: str, args: Mapping[str, Any]) -> str | None:
    """The content of a file that a call would replace, if it can be read at once. Blocks: call it in a thread."""
    traits = traits_of(tool)
    path = args.get(traits.path.name) if traits.path else None
    if not replaces_file(traits) or not isinstance(path, str) or not path.startswith("/"):
        return None
    try:
        data = read_whole(path, MOST_BEFORE)
    except SettingsError:
        return None
    return None if data is None else data.decode(errors="replace")


def _rest(args: Mapping[str, Any], shown: set[str]) -> list[DiffRow]:
    rows: list[DiffRow] = []
    for name, value in args.items():
        if name in shown:
            continue
        text = value if isinstance(value, str) else msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
        first, *more = _lines(text)
        kind: Kind = "dim" if name in _DIM else "plain"
        rows += [DiffRow(kind, f"{_safe(name)}: {first}"), *(DiffRow(kind, f"  {line}") for line in more)]
    return rows


def lines_of(kind: Kind, text: str) -> list[DiffRow]:
    """Any text as rows."""
    return [DiffRow(kind, line) for line in _lines(text)]


def _lines(text: str) -> list[str]:
    return _safe(text).split("\n")


def _safe(text: str) -> str:
    return counted(visible(text)).expandtabs(TABS)


def count_lines(patch: Sequence[Hunk]) -> str:
    """The same for hunks."""
    added, gone = (sum(line.startswith(sign) for hunk in patch for line in hunk.lines) for sign in "+-")
    return f"+{added} -{gone}" if added or gone else ""


def count(rows: Sequence[DiffRow]) -> str:
    """How much a diff changes, in a few words; empty if it is none."""
    added, gone = (sum(row.kind == kind for row in rows) for kind in ("add", "del"))
    return f"+{added} -{gone}" if added or gone else ""
