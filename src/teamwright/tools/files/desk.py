"""Shared checks of the file tools: which path was judged, and whether a file is still as the agent last saw it."""

import os
import stat
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import anyio
import anyio.to_thread

from teamwright.core.data.event import Seen
from teamwright.core.errors import ToolError
from teamwright.core.ports import Desk, ToolContext
from teamwright.host.files.paths import beneath, is_directory, resolve
from teamwright.host.files.read_write import seen_of
from teamwright.tools.bounds import visible

Found = TypeVar("Found")
Asked = TypeVarTuple("Asked")

_SECONDS = 60
_SMALL = 128 * 1024


def judged(path: str, ctx: ToolContext) -> Path:
    """The real path that the gate judged for this argument."""
    return judged_path(path, ctx.desk, ctx.paths)


def judged_path(path: str, desk: Desk, paths: Mapping[str, str]) -> Path:
    found = paths.get(path)
    return Path(found) if found else resolve(path, desk.cwd)


async def look_up(look: Callable[[*Asked], Found], *asked: *Asked) -> Found:
    """Runs a read-only function in a thread. A file system that hangs costs a thread, not the agent."""
    try:
        with anyio.fail_after(_SECONDS):
            return await anyio.to_thread.run_sync(look, *asked, abandon_on_cancel=True)
    except TimeoutError:
        raise ToolError(f"The file system did not answer within {_SECONDS} s. Try another path.") from None


def is_quick(path: str, ctx: ToolContext) -> bool:
    """A small regular file on a local disk: reading it directly costs less than a thread."""
    real = ctx.paths.get(path)
    if real is None or not ctx.desk.near or not beneath(Path(real), ctx.desk.roots):
        return False
    try:
        found = os.lstat(real)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= _SMALL


def require_fresh(desk: Desk, path: Path, found: os.stat_result, *, whole: bool = True) -> None:
    """Raises ToolError if somebody has changed the file since the agent saw it; with `whole`, also unless the agent has
    read it."""
    seen = desk.seen.get(str(path))
    if seen is not None and not seen.agrees(seen_of(path, found)):
        raise ToolError(
            f"{path} was changed since you last saw it, by a program or a person; nothing was written. Read it again "
            "first, then make the change on what is there now."
        )
    if whole and (seen is None or seen.part):
        raise ToolError(f"{path} exists but has not been read yet. Read it first, then change it.")


def remember(desk: Desk, *seen: Seen) -> tuple[Seen, ...]:
    """Records the current state of files; put the returned value into the outcome. Lines of a file add nothing to the
    whole."""
    known = desk.seen
    new = tuple(one for one in seen if not (one.part and one.path in known and known[one.path].agrees(one)))
    known.update((one.path, one) for one in new)
    return new


def encoded(text: str, what: str) -> bytes:
    """A model's text as UTF-8."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolError(f"`{what}` contains half of a surrogate pair, which no file can hold. Leave it out.") from None


def missing(path: Path, desk: Desk) -> ToolError:
    """The error for a missing file, with similar names that may have been meant."""
    words = f"{path} does not exist."
    if not is_directory(path.parent):
        words += " Its directory does not exist either."
    elif names := _similar(path, desk):
        words += f" Similar names there: {', '.join(names)}."
    return ToolError(f"{words} The working directory is {desk.cwd}.")


def _similar(path: Path, desk: Desk) -> list[str]:
    from difflib import get_close_matches  # noqa: PLC0415  # needed only here

    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in islice(entries, 5_000)]
    except OSError:
        return []
    lower = path.name.lower()
    near = get_close_matches(path.name, names, n=3)
    near += [name for name in names if name.lower() == lower or Path(name).stem == path.stem]
    shown = [name for name in dict.fromkeys(near) if not (desk.hidden and desk.hidden(str(path.parent / name)))]
    return [visible(name) for name in shown[:5]]
