"""Changes in agents' worktrees: listed, compared, tried out and merged, as the command does it.

`only`: of this session, because the link is for it alone.
"""

import os
import re
from pathlib import Path
from typing import Any

from anyio import to_thread

from teamwright.core.errors import ToolError, UsageError
from teamwright.host.files.paths import open_judged
from teamwright.host.git.run import git_text
from teamwright.host.git.worktrees.listing import tip_of, view
from teamwright.host.git.worktrees.merge import merge, preview_merge
from teamwright.host.git.worktrees.worktree import FoundTree, remove
from teamwright.surfaces.port.stored import tell_notes
from teamwright.surfaces.reports.worktree_names import owner_of
from teamwright.surfaces.reports.worktrees import find_all, preview_record, view_record, worktree_record
from teamwright.surfaces.web.server.errors import Refused, not_there
from teamwright.tools.bounds import visible

MOST_ROWS = 20_000
MOST_NEW = 1_000_000  # bytes of a file that git does not know
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")

Json = dict[str, Any]


async def listing(cwd: Path, only: str) -> Json:
    try:
        found, houses = await _find(cwd, only)
    except ToolError as error:  # no repository, so nothing to merge
        return {"worktrees": [], "note": visible(str(error))}
    return {"worktrees": [worktree_record(one) | {"owner": owner_of(one, houses), "note": one.note} for one in found]}


async def _find(cwd: Path, only: str) -> tuple[list[FoundTree], Any]:
    await to_thread.run_sync(_tell_git, cwd)
    found, houses = await find_all(cwd, tell_notes)
    return [one for one in found if only in ("", one.worktree.session)], houses


def _tell_git(cwd: Path) -> None:
    from teamwright.app.options import Options  # noqa: PLC0415  # all parts of a session come with it
    from teamwright.app.workspace import open_workspace, tell_git  # noqa: PLC0415

    tell_git(open_workspace(Options(cwd=cwd)))


async def _one(cwd: Path, only: str, name: str) -> FoundTree:
    """A worktree by the exact name from the listing."""
    found, _ = await _find(cwd, only)
    tree = next((one for one in found if one.worktree.name == name), None)
    if tree is None:
        raise not_there("such worktree")
    return tree


async def one(cwd: Path, only: str, name: str) -> Json:
    return view_record(await view(await _one(cwd, only, name), cwd))


async def diff(cwd: Path, only: str, name: str, path: str) -> Json:
    """The diff of one changed file, from where the worktree began to the file as it is."""
    found = await _one(cwd, only, name)
    seen = await view(found, cwd)
    if path not in {line.path for line in seen.lines}:
        raise not_there("such change")
    tree = found.worktree
    options = ("diff", "--no-ext-diff", "--no-textconv", "-M")
    if tree.path.is_dir():
        told = await git_text(*options, tree.base, "--", path, cwd=tree.path)
    else:
        told = await git_text(*options, tree.base, await tip_of(found), "--", path, cwd=tree.repo)
    rows = rows_in(told)
    if not rows:
        rows = await to_thread.run_sync(_new_rows, tree.path, path)
    return {"path": visible(path), "rows": rows[:MOST_ROWS], "cut": len(rows) > MOST_ROWS}


def _new_rows(root: Path, path: str) -> list[Json]:
    """Rows for a file that git does not know yet. A link is where it leads, as in git: it is never followed."""
    new = root.resolve() / path
    try:
        if new.is_symlink():
            found = os.fsencode(new.readlink())
        else:
            with open(open_judged(new), "rb") as file:  # noqa: PTH123
                found = file.read(MOST_NEW)
    except (OSError, ToolError):
        return []
    lines = visible(found.decode(errors="replace")).expandtabs(4).removesuffix("\n").split("\n")
    return [{"kind": "add", "text": line, "number": n} for n, line in enumerate(lines, 1)]


def rows_in(told: str) -> list[Json]:
    """A unified diff as rows: removed lines have their old numbers, added ones their new ones, unchanged ones both."""
    rows: list[Json] = []
    old = new = 0
    inside = False
    for line in visible(told).expandtabs(4).split("\n"):
        if hunk := _HUNK.match(line):
            inside, old, new = True, int(hunk[1]), int(hunk[2])
            rows += [{"kind": "dim", "text": "⋯"}] if rows or old > 1 else []
        elif not inside:
            if line.startswith(("rename ", "new file", "deleted file", "Binary files", "old mode", "new mode")):
                rows.append({"kind": "strong", "text": line})
        elif line.startswith("+"):
            rows.append({"kind": "add", "text": line[1:], "number": new})
            new += 1
        elif line.startswith("-"):
            rows.append({"kind": "del", "text": line[1:], "number": old})
            old += 1
        elif line.startswith(" "):
            rows.append({"kind": "plain", "text": line[1:], "number": new, "old": old})
            old, new = old + 1, new + 1
    return rows


async def preview(cwd: Path, only: str, name: str) -> Json:
    found = await _one(cwd, only, name)
    return preview_record(found, await preview_merge(found, cwd)) | {"merged": False, "commit": None}


async def bring_home(cwd: Path, only: str, name: str) -> Json:
    """Merge. If that is not safe it is refused in the words of the command."""
    found = await _one(cwd, only, name)
    try:
        done = await merge(found, cwd)
    except ToolError as error:
        raise Refused(409, str(error)) from None
    return preview_record(found, done.preview) | {"merged": True, "commit": done.commit}


async def take_away(cwd: Path, only: str, name: str) -> Json:
    found = await _one(cwd, only, name)
    if found.use == "in_use":
        raise Refused(409, f"in use, so nothing was removed: {name}" + (f"; {found.note}" if found.note else ""))
    try:
        ref = await remove(found.worktree)
    except (ToolError, UsageError) as error:
        raise Refused(409, f"{name} was not removed: {error}") from None
    return {"name": name, "kept_ref": ref}
