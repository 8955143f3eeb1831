"""Agents' worktrees as records: what `worktrees --json` prints, for any directory."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from teamwright.core.data.team import Member
from teamwright.core.errors import ToolError
from teamwright.host.git.worktrees.kept import KeptCommit
from teamwright.host.git.worktrees.listing import WorktreeView
from teamwright.host.git.worktrees.merge import Preview
from teamwright.host.git.worktrees.worktree import FoundTree, find, find_one
from teamwright.store.files.paths import home_from
from teamwright.store.tables.member_worktrees import Houses, Tell, read_houses
from teamwright.surfaces.reports.worktree_names import pick

_USED, _KEPT = "in use by ", "kept for "  # beginnings of the note on a teammate's worktree


async def find_all(cwd: Path, tell: Tell) -> tuple[list[FoundTree], Houses]:
    return await _with_houses(await find(cwd), tell)


async def look_at(cwd: Path, name: str, tell: Tell) -> tuple[FoundTree, Houses]:
    """Find one worktree. The others are looked at only if none has exactly this name."""
    own = None
    with suppress(ToolError):
        own = await find_one(cwd, name)
    found, houses = await _with_houses([own], tell) if own else await find_all(cwd, tell)
    return pick(name, found, houses), houses


async def _with_houses(found: list[FoundTree], tell: Tell) -> tuple[list[FoundTree], Houses]:
    owners = {entry.worktree.owner for entry in found} - {""}
    houses = await read_houses(home_from(os.environ), owners, tell) if found else Houses()
    return [_housed(entry, houses.members) for entry in found], houses


def _housed(entry: FoundTree, members: Mapping[Path, Member]) -> FoundTree:
    """A teammate's worktree is in use as long as the teammate lives, whether a process runs it now or not. Once its
    work is merged and no process runs the teammate, it may go: a resume makes it again."""
    member = members.get(entry.worktree.path)
    if member is None or entry.use == "merged":
        return entry
    note = f"{_USED}{member.address}" if entry.use == "in_use" else f"{_KEPT}{member.address} (not running)"
    return replace(entry, use="in_use", note=f"{note}; {entry.note}" if entry.note else note)


def worktree_record(entry: FoundTree) -> dict[str, Any]:
    tree, state = entry.worktree, entry.state
    return {
        "name": tree.name,
        "path": str(tree.path),
        "branch": tree.branch,
        "agent_id": tree.owner or None,
        "session_id": tree.session or None,
        "state": entry.use,
        "ahead": state.ahead,
        "files_changed": state.files,
        "insertions": state.insertions,
        "deletions": state.deletions,
    }


def kept_record(kept: KeptCommit) -> dict[str, Any]:
    """A record for a commit that only a hidden ref holds."""
    name = kept.ref.removeprefix("refs/teamwright/")
    return {"name": name, "state": "kept", "ref": kept.ref, "commit": kept.commit, "subject": kept.subject}


def view_record(seen: WorktreeView) -> dict[str, Any]:
    """A record of one worktree with its commits and files."""
    tree = seen.found.worktree
    files = [{"path": line.path, "insertions": line.plus, "deletions": line.minus} for line in seen.lines]
    more = {"base": tree.base, "here": seen.here or None, "ahead_of_here": seen.ahead, "behind_here": seen.behind}
    return worktree_record(seen.found) | more | {"commits": seen.commits, "files": files, "note": seen.found.note}


def preview_record(found: FoundTree, seen: Preview) -> dict[str, Any]:
    return {
        "name": found.worktree.name,
        "branch": found.worktree.branch,
        "into": seen.into or None,
        "commits": seen.commits,
        "passes": seen.passes,
        "conflicts": seen.conflicts,
        "touched": seen.touched,
        "blocked": seen.blocked,
    }
