"""`teamwright worktrees`: the trees that agents work in, what changed there, and clearing away what is done with."""

import sys
from pathlib import Path
from typing import Any

import anyio

from teamwright.core.errors import ToolError, UsageError
from teamwright.host.worktree import Found, find, remove
from teamwright.surfaces.tables import print_json, print_table
from teamwright.tools.bounds import visible


def show_worktrees(*, as_json: bool) -> int:
    found = _find()
    if as_json:
        print_json([_record(entry) for entry in found])
    elif not found:
        sys.stdout.write("no worktrees of agents here\n")
    else:
        rows = [[f.worktree.name, f.use, f.worktree.branch, _changes(f), f.note] for f in found]
        print_table([["NAME", "STATE", "BRANCH", "CHANGES", "NOTE"], *rows])
    return 0


def clean_worktrees(names: list[str]) -> int:
    """Named ones, or all that hold no work. The state of what is removed stays under a hidden ref."""
    found = {entry.worktree.name: entry for entry in _find()}
    if missing := [name for name in names if name not in found]:
        raise UsageError(f"there is no worktree {', '.join(missing)}; nothing was removed")
    chosen = [found[name] for name in names] or [e for e in found.values() if e.use != "in_use" and not e.state.changed]
    if used := [e.worktree.name for e in chosen if e.use == "in_use"]:
        raise UsageError(f"in use, so nothing was removed: {', '.join(used)}")
    for entry in chosen:
        try:
            ref = anyio.run(remove, entry.worktree)
        except ToolError as error:
            raise UsageError(f"{entry.worktree.name} was not removed: {error}") from None
        kept = f"; its state is kept as {ref}" if ref else ""
        sys.stdout.write(visible(f"removed {entry.worktree.path}{kept}") + "\n")
    if not chosen:
        sys.stdout.write("nothing to clear away\n")
    return 0


def _find() -> list[Found]:
    try:
        return anyio.run(find, Path.cwd())
    except ToolError as error:
        raise UsageError(str(error)) from None


def _record(entry: Found) -> dict[str, Any]:
    tree, state = entry.worktree, entry.state
    return {
        "name": tree.name,
        "path": str(tree.path),
        "branch": tree.branch,
        "agent_id": tree.owner or None,
        "session_id": None,
        "state": entry.use,
        "ahead": state.ahead,
        "files_changed": state.files,
        "insertions": state.insertions,
        "deletions": state.deletions,
    }


def _changes(entry: Found) -> str:
    state = entry.state
    if not state.changed:
        return "none"
    return f"{state.files} files, +{state.insertions} -{state.deletions}, {state.ahead} commits"
