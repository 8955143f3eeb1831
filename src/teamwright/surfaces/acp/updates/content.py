"""How a call looks in an editor: its kind, title, places, and content."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from teamwright.core.data.content.patch import Hunk
from teamwright.core.data.message import Content, Image
from teamwright.core.errors import SettingsError
from teamwright.osfiles.reading import read_whole
from teamwright.surfaces.view import text as words
from teamwright.tools.bounds import bounded, visible
from teamwright.tools.catalog import traits_of

MOST_FILE = 256 * 1024  # bytes of a file that a diff shows completely
MOST_OUTPUT = 60_000  # characters of a result
MOST_RAW = 20_000  # characters of one raw argument
_ACCESS = {"read": "read", "search": "search", "write": "edit"}


def kind_of(tool: str) -> str:
    traits = traits_of(tool)
    if traits.asks == "plan":
        return "switch_mode"
    if traits.path is not None:
        return _ACCESS[traits.path.access]
    if traits.runs:
        return "execute"
    if traits.fetches or "query" in traits.texts:
        return "fetch"
    return "think" if traits.own or traits.talks or traits.delegates or traits.lists else "other"


def title_of(tool: str, args: Mapping[str, Any], cwd: str) -> str:
    """The app's words for it, on one line and safe to draw. For a file tool the tool's name is left out."""
    about = words.title(tool, dict(args), cwd)
    if not about or traits_of(tool).path is not None:
        return f"{words.one_line(tool)} {about}".rstrip()
    return about


def locations_of(tool: str, args: Mapping[str, Any], cwd: str) -> list[dict[str, Any]]:
    """The file that a call is about, so that an editor can follow along."""
    traits = traits_of(tool)
    path = args.get(traits.path.name) if traits.path is not None else None
    if not isinstance(path, str) or not path:
        return []
    line = args.get("offset") if traits.path is not None and traits.path.access == "read" else None
    place: dict[str, Any] = {"path": str(Path(cwd) / path)}
    return [place | ({"line": line} if isinstance(line, int) and line > 0 else {})]


def text_content(text: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": text}}


def result_content(content: Sequence[Content]) -> list[dict[str, Any]]:
    """The result of a call, with hidden characters written out."""
    shown: list[dict[str, Any]] = []
    for block in content:
        if isinstance(block, Image):
            picture = {"type": "image", "data": block.data, "mimeType": block.media_type}
            shown.append({"type": "content", "content": picture})
        elif block.text:
            shown.append(text_content(visible(bounded(block.text, most=MOST_OUTPUT))))
    return shown


def raw_args(args: Mapping[str, Any]) -> dict[str, Any]:
    return {name: bounded(value, most=MOST_RAW) if isinstance(value, str) else value for name, value in args.items()}


# --- diffs


def diff_content(path: str, old: str | None, new: str) -> dict[str, Any]:
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


def diffs_before(tool: str, args: Mapping[str, Any], patch: Sequence[Hunk], cwd: str) -> list[dict[str, Any]]:
    """What a call would change in its file as it is now. Reads the file: blocks."""
    traits = traits_of(tool)
    if traits.path is None or (change := traits.change) is None:
        return []
    path = str(Path(cwd) / str(args.get(traits.path.name)))
    new = args.get(change.new)
    if not isinstance(new, str):
        return []
    now = read_small(path)
    if not change.old and (now is not None or not Path(path).exists()):
        return [diff_content(path, now, new)]
    old = args.get(change.old) if change.old else ""
    after = _applied(now, patch) if now is not None else None
    if now is not None and after is not None and patch:
        return [diff_content(path, now, after)]
    return diffs_of_patch(path, patch) or [diff_content(path, old if isinstance(old, str) and old else None, new)]


def diffs_after(path: str, patch: Sequence[Hunk], *, created: bool) -> list[dict[str, Any]]:
    """What a call has changed in its file as it is now. Reads the file: blocks."""
    now = read_small(path)
    if created and now is not None:
        return [diff_content(path, None, now)]
    before = _applied(now, patch, back=True) if now is not None and patch else None
    if now is not None and before is not None:
        return [diff_content(path, before, now)]
    return diffs_of_patch(path, patch)


def diffs_of_patch(path: str, patch: Sequence[Hunk]) -> list[dict[str, Any]]:
    """Only the changed parts."""
    return [diff_content(path, _side(hunk, "-"), _side(hunk, "+")) for hunk in patch]


def _side(hunk: Hunk, sign: str) -> str:
    return "\n".join(line[1:] for line in hunk.lines if line[:1] in (" ", sign))


def _applied(text: str, patch: Sequence[Hunk], *, back: bool = False) -> str | None:
    """The text with these changes applied, or undone; None if it does not contain what they refer to."""
    gone, come = ("+", "-") if back else ("-", "+")
    lines, out, at = text.split("\n"), list[str](), 0
    for hunk in patch:
        start = (hunk.new_start if back else hunk.old_start) - 1
        old = [line[1:] for line in hunk.lines if line[:1] in (" ", gone)]
        if start < at or lines[start : start + len(old)] != old:
            return None
        out += lines[at:start]
        out += [line[1:] for line in hunk.lines if line[:1] in (" ", come)]
        at = start + len(old)
    return "\n".join([*out, *lines[at:]])


def read_small(path: str) -> str | None:
    """A text file that a diff can show completely, else None. Blocks."""
    try:
        data = read_whole(path, MOST_FILE)
        return None if data is None else data.decode()
    except (SettingsError, UnicodeDecodeError):
        return None
