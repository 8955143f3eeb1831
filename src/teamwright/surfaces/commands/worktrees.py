"""`teamwright worktrees`: lists the worktrees of agents with their changes, merges them and removes them."""

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from teamwright.app.options import Options
from teamwright.app.workspace import open_workspace, tell_git
from teamwright.core.data.team import Member
from teamwright.core.errors import ToolError, UsageError
from teamwright.core.text import plural
from teamwright.host.git.worktrees.kept import KeptCommit, kept_commits
from teamwright.host.git.worktrees.listing import MOST_COMMITS, WorktreeView, view
from teamwright.host.git.worktrees.merge import Preview, merge, preview_merge
from teamwright.host.git.worktrees.worktree import FoundTree, Worktree, remove
from teamwright.store.tables.member_worktrees import Houses
from teamwright.surfaces.commands.tables import print_json, print_table, say
from teamwright.surfaces.port.stored import tell_notes
from teamwright.surfaces.reports.worktree_names import owner_of, pick
from teamwright.surfaces.reports.worktrees import (
    find_all,
    kept_record,
    look_at,
    preview_record,
    view_record,
    worktree_record,
)

if TYPE_CHECKING:
    import argparse

Value = TypeVar("Value")


def run_worktrees(parser: "argparse.ArgumentParser", args: list[str]) -> int:
    parser.add_argument("action", nargs="?", choices=("list", "show", "merge", "clean"), default="list")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="name, branch or agent of a worktree, or its beginning; with clean: remove these, whatever they contain",
    )
    parser.add_argument("--all", action="store_true", help="with list: also commits that are kept under hidden refs")
    parser.add_argument("--preview", action="store_true", help="with merge: only show what the merge would do")
    parser.add_argument("--trust", action="store_true", help="treat this directory as trusted")
    found = parser.parse_args(args)
    _check(parser, found)
    tell_git(open_workspace(Options(cwd=Path.cwd(), trust=found.trust)))
    match found.action:
        case "show":
            return show_worktree(found.names[0], as_json=found.json)
        case "merge":
            return merge_worktree(found.names[0], preview=found.preview, as_json=found.json)
        case "clean":
            return clean_worktrees(found.names, as_json=found.json)
        case _:
            return show_worktrees(as_json=found.json, kept=found.all)


def _check(parser: "argparse.ArgumentParser", found: "argparse.Namespace") -> None:
    if found.action in ("show", "merge") and len(found.names) != 1:
        parser.error(f"{found.action} needs the name of one worktree")
    if found.action == "list" and found.names:
        parser.error("list takes no names; `show NAME` shows one")
    if found.preview and found.action != "merge":
        parser.error("--preview belongs to merge")
    if found.all and found.action != "list":
        parser.error("--all belongs to list")


def show_worktrees(*, as_json: bool, kept: bool = False) -> int:
    """`kept`: also work that was removed, landed, sent back or given up, if a hidden ref still has its commits."""
    found, houses = _run(find_all, Path.cwd(), tell_notes)
    hidden: list[KeptCommit] = _run(kept_commits, Path.cwd()) if kept else []
    if as_json:
        print_json([*(worktree_record(entry) for entry in found), *map(kept_record, hidden)])
    elif not found:
        say("no worktrees of agents here")
    else:
        rows = [[f.worktree.name, owner_of(f, houses) or "-", f.use, _changes(f), _notes(f)] for f in found]
        print_table([["NAME", "OWNER", "STATE", "CHANGES", "NOTE"], *rows])
    if hidden and not as_json:
        say("")
        print_table([["KEPT", "COMMIT", "SUBJECT"], *([one.ref, one.commit[:12], one.subject] for one in hidden)])
        say("`git worktree add ../again KEPT` restores one; `git update-ref -d KEPT` forgets it")
    return 0


def _notes(found: FoundTree) -> str:
    return "; ".join(note for note in (found.note, *found.state.notes) if note)


def show_worktree(name: str, *, as_json: bool) -> int:
    """Show one worktree: its owner, its commits, and all that differs from where it began."""
    entry, houses = _find_one(name)
    seen = _run(view, entry, Path.cwd())
    found = seen.found
    if as_json:
        print_json(view_record(seen))
        return 0
    for line in _described(seen, owner_of(entry, houses)):
        say(line)
    if seen.lines:
        print_table([[line.path, f"+{line.plus} -{line.minus}"] for line in seen.lines])
    say(_changes(found) if found.state.changed else "no changes")
    return 0


def _described(seen: WorktreeView, owner: str) -> list[str]:
    found, here = seen.found, seen.here or "the commit here"
    tree = found.worktree
    lines = [
        f"{tree.name}  {found.use}",
        f"path    {tree.path}",
        f"branch  {tree.branch}, {seen.ahead} ahead of {here} and {seen.behind} behind it",
        f"base    {tree.base[:12]}",
    ]
    if owner:
        lines.append(f"owner   {owner}")
    if tree.owner:
        lines.append(f"agent   {tree.owner}" + (f" of session {tree.session}" if tree.session else ""))
    lines += [f"note    {note}" for note in (found.note, *found.state.notes) if note]
    lines += [f"commit  {commit}" for commit in seen.commits]
    if len(seen.commits) == MOST_COMMITS:
        lines.append("commit  ... there may be more")
    return lines


def merge_worktree(name: str, *, preview: bool, as_json: bool) -> int:
    """Merge its branch into the branch here. A preview ends with status 1 if the merge would fail."""
    found, houses = _find_one(name)
    tree = found.worktree
    if preview:
        return _show_preview(found, _run(preview_merge, found, Path.cwd()), as_json=as_json)
    done = _run(merge, found, Path.cwd())
    if as_json:
        print_json(preview_record(found, done.preview) | {"merged": True, "commit": done.commit})
        return 0
    how = "was fast-forwarded to" if done.forward else "has the merge commit"
    say(f"merged {tree.branch}: {_count(done.preview)}; {done.preview.into} {how} {done.commit[:12]}")
    removes = f"`teamwright worktrees clean {tree.name}` removes it with its branch"
    if member := houses.members.get(tree.path):
        say(f"the worktree is kept for {member.address}: {_way_out(member, houses)}; then {removes}")
    else:
        still = "while it is in use; afterwards" if found.use == "in_use" else "until"
        say(f"the worktree is kept {still} {removes}")
    return 0


def _way_out(member: Member, houses: Houses) -> str:
    """How a teammate's worktree becomes free."""
    if member.team in houses.led:
        return f"ask the lead of {member.team} to shut {member.name} down"
    return f"the lead of {member.team} is gone, so `teamwright teams delete {member.team}` ends the team"


def _ways_out(members: Iterable[Member], houses: Houses) -> list[str]:
    return list(dict.fromkeys(_way_out(member, houses) for member in members))


def _show_preview(found: FoundTree, seen: Preview, *, as_json: bool) -> int:
    if as_json:
        print_json(preview_record(found, seen) | {"merged": False, "commit": None})
        return 0 if seen.passes else 1
    into = seen.into or "the commit here"
    if not seen.commits:
        say(f"nothing to merge: {into} has everything that {found.worktree.branch} has")
    else:
        verdict = "would conflict in" if seen.conflicts else "would merge into"
        say(f"{found.worktree.branch} {verdict} {into}: {_count(seen)}")
    for path in seen.conflicts:
        say(f"conflict  {path}")
    for path in seen.touched:
        say(f"changes   {path}")
    for words in seen.blocked:
        say(f"first     {words}")
    return 0 if seen.passes else 1


def _count(seen: Preview) -> str:
    files = f", {plural(len(seen.touched), 'file')}" if seen.touched else ""
    return f"{plural(seen.commits, 'commit')}{files}"


def clean_worktrees(names: list[str], *, as_json: bool = False) -> int:
    """Remove the named worktrees, or all without unmerged work. Their state stays under a hidden ref."""
    chosen, houses = _choose(names)
    if used := [e for e in chosen if e.use == "in_use"]:
        raise _in_use(used, houses)
    done: list[dict[str, Any]] = []
    for entry in chosen:
        ref = _remove(entry.worktree)
        done.append({"name": entry.worktree.name, "path": str(entry.worktree.path), "kept_ref": ref})
        if not as_json:
            say(f"removed {entry.worktree.path}" + (f"; its state is kept as {ref}" if ref else ""))
    if as_json:
        print_json(done)
    elif not chosen:
        ways = "".join(f"; {way}" for way in _ways_out(houses.members.values(), houses))
        say("nothing to clean up" + (f": teammates keep their worktrees until they shut down{ways}" if ways else ""))
    return 0


def _in_use(used: list[FoundTree], houses: Houses) -> UsageError:
    notes = "".join(f"; {e.worktree.name} {e.note}" for e in used if e.note)
    members = [houses.members[e.worktree.path] for e in used if e.worktree.path in houses.members]
    ways = "".join(f"; {way}" for way in _ways_out(members, houses))
    return UsageError(f"in use, so nothing was removed: {', '.join(e.worktree.name for e in used)}{notes}{ways}")


def _choose(names: list[str]) -> tuple[list[FoundTree], Houses]:
    """The named ones, or else all that are not in use and hold no work, or only merged work."""
    found, houses = _run(find_all, Path.cwd(), tell_notes)
    if not names:
        done = [e for e in found if e.use == "merged" or (e.use != "in_use" and not e.state.changed)]
        return done, houses
    try:
        chosen = {e.worktree.name: e for e in [pick(name, found, houses) for name in names]}
    except UsageError as error:
        raise UsageError(f"{error}; nothing was removed") from None
    return list(chosen.values()), houses


def _remove(tree: Worktree) -> str | None:
    """Remove a worktree; returns the hidden ref that keeps its state."""
    try:
        return anyio.run(remove, tree)
    except ToolError as error:
        raise UsageError(f"{tree.name} was not removed: {error}") from None


def _find_one(name: str) -> tuple[FoundTree, Houses]:
    return _run(look_at, Path.cwd(), name, tell_notes)


def _run(work: Callable[..., Awaitable[Value]], *args: Any) -> Value:
    try:
        return anyio.run(work, *args)
    except ToolError as error:
        raise UsageError(str(error)) from None


def _changes(entry: FoundTree) -> str:
    state = entry.state
    if not state.changed:
        return "none"
    files, commits = plural(state.files, "file"), plural(state.ahead, "commit")
    return f"{files}, +{state.insertions} -{state.deletions}, {commits}"
