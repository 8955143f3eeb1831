"""Merges a worktree's branch into the current one: tried without touching anything, done only if safe."""

import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.core.text import few, shown
from teamwright.host.git.guard import refuse_to_run
from teamwright.host.git.run import Ran, commit_of, count_commits, git, git_text, locate
from teamwright.host.git.worktrees.listing import branch_here
from teamwright.host.git.worktrees.record import is_there, is_tied, private_of
from teamwright.host.git.worktrees.status import UNDER_WAY, own_links, read_status
from teamwright.host.git.worktrees.worktree import FoundTree

LIMIT = 600.0  # seconds; a person's hooks may be slow
NEEDED = (2, 38)  # the first git version that merges without a working tree
_SHOWN = 10  # paths named in a sentence


class Preview(Struct, frozen=True):
    """What a merge would do. It succeeds if nothing is `blocked` and nothing conflicts."""

    tip: str
    into: str
    commits: int  # commits it would bring in
    conflicts: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()  # paths that would change here
    blocked: tuple[str, ...] = ()  # sentences about what must be resolved first

    @property
    def passes(self) -> bool:
        return bool(self.commits) and not self.conflicts and not self.blocked


class Merged(Struct, frozen=True):
    preview: Preview
    commit: str
    forward: bool  # a fast-forward: no merge commit


async def preview_merge(found: FoundTree, cwd: Path) -> Preview:
    """Checks everything; writes nothing but objects in git's store."""
    tree, here = found.worktree, (await locate(cwd)).here
    await _require_version(here)
    tip = await commit_of(f"refs/heads/{tree.branch}", cwd=here)
    if tip is None:
        raise ToolError(f"The worktree {tree.name} has no branch {tree.branch} any more, so there is nothing to merge.")
    into, commits = await branch_here(here), await count_commits([tip], "HEAD", cwd=here)
    blocked = [*await _not_here(here, into, found), *await _not_whole(found, tip)]
    if not commits:
        return Preview(tip, into, 0, blocked=tuple(blocked))
    ran = await git("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", "HEAD", tip, cwd=here)
    if ran.status not in (0, 1) or not ran.out:
        raise ToolError(f"git cannot merge {tree.branch} into what is here: {ran.complaint}")
    merged, *conflicts = ran.out.rstrip("\0").split("\0")
    if ran.status == 1:
        return Preview(tip, into, commits, tuple(dict.fromkeys(conflicts)), (), tuple(blocked))
    told = await git_text("diff-tree", "-r", "-z", "--no-renames", "--name-status", "HEAD", merged, cwd=here)
    fields = told.rstrip("\0").split("\0") if told else []
    changes = dict(zip(fields[1::2], fields[::2], strict=True))
    if edited := await _in_the_way(here, changes):
        blocked.append(f"It would write over what is not committed here: {_named(edited)}. Commit or stash that.")
    return Preview(tip, into, commits, (), tuple(changes), tuple(blocked))


async def merge(found: FoundTree, cwd: Path) -> Merged:
    """Raises ToolError if it cannot be done cleanly; the tree here is then unchanged."""
    preview, branch = await preview_merge(found, cwd), found.worktree.branch
    if preview.blocked:
        raise ToolError("Nothing was merged. " + " ".join(preview.blocked))
    if preview.conflicts:
        raise ToolError(
            f"Nothing was merged: {branch} and {preview.into} have both changed {_named(preview.conflicts)}. Merge "
            f"{preview.into} into {branch}{_where(found)}, settle it there, then try again."
        )
    if not preview.commits:
        raise ToolError(f"Nothing was merged: {preview.into} has everything that {branch} has.")
    here = (await locate(cwd)).here
    refuse_to_run(here, "Nothing was merged")
    words = f"Merge branch '{branch}'" + ("" if preview.into in ("main", "master") else f" into {preview.into}")
    # Merge the commit that was checked, not the branch, because an agent may be committing to it.
    try:
        ran = await git(
            "merge",
            "--no-edit",
            "--no-autostash",
            "--commit",
            "--no-squash",
            "-m",
            words,
            preview.tip,
            cwd=here,
            limit=LIMIT,
            as_person=True,
        )
    except ToolError:
        await _give_up(here)
        raise
    if ran.status:
        await _give_up(here)
        raise ToolError(f"Nothing was merged: git merge failed ({_fault(ran)}).")
    commit = (await git_text("rev-parse", "HEAD", cwd=here)).strip()
    return Merged(preview, commit, forward=commit == preview.tip)


def _where(found: FoundTree) -> str:
    """Work that was done on another machine has a branch and no tree."""
    path = found.worktree.path
    return f" in {shown(str(path))}" if path.exists() else " in a worktree of that branch"


def _fault(ran: Ran) -> str:
    lines = [line for line in ran.out.splitlines() if line.startswith("CONFLICT")]
    return shown(lines[0]) if lines else ran.complaint


async def _give_up(here: Path) -> None:
    """Restores the state before the merge, after a hook refused or git was stopped. No merge was in progress before
    ours."""
    if await commit_of("MERGE_HEAD", cwd=here):
        await git_text("merge", "--abort", cwd=here)


# --- obstacles


async def _require_version(here: Path) -> None:
    told = await git_text("version", cwd=here)
    found = re.search(r"(\d+)\.(\d+)", told)
    if not found or (int(found[1]), int(found[2])) < NEEDED:
        raise ToolError(
            f"This needs git {NEEDED[0]}.{NEEDED[1]} or newer, to try a merge without touching files; here is "
            f"{shown(told.strip(), 80)}. Run `git merge` yourself."
        )


async def _not_here(here: Path, into: str, found: FoundTree) -> list[str]:
    if not into:
        return ["HEAD is detached here, so no branch would have the merge. Check out a branch first."]
    if into == found.worktree.branch:
        return [f"{shown(into)} is checked out here itself. Go to the tree that it should be merged into."]
    private = Path((await git_text("rev-parse", "--absolute-git-dir", cwd=here)).rstrip("\n"))
    blocked = [
        f"{words} is under way here ({name}). End it first."
        for name, words in UNDER_WAY.items()
        if (private / name).exists()
    ]
    if is_there(private / "index.lock"):
        where = shown(str(private / "index.lock"))
        blocked.append(f"{where} is there: another git is at work here, or one was killed. If none runs, delete it.")
    return blocked


async def _not_whole(found: FoundTree, tip: str) -> list[str]:
    """Work in the worktree that its branch does not have."""
    tree, private = found.worktree, private_of(found.worktree)
    if private is None or not is_tied(tree, private):
        return []
    status, own = await read_status(tree.path), own_links(tree)
    loose = [*status.changed, *(path for path in status.untracked if path not in own)]
    where = shown(str(tree.path))
    blocked = [f"{words} is under way in {where}." for name, words in UNDER_WAY.items() if (private / name).exists()]
    if loose:
        blocked.append(f"{where} holds work that is not committed: {_named(loose)}. Commit it there first.")
    if status.head and await count_commits([status.head], tip, cwd=tree.path):
        blocked.append(f"HEAD in {where} has commits that {tree.branch} has not. Merge them by hand.")
    return blocked


async def _in_the_way(here: Path, changes: dict[str, str]) -> list[str]:
    """Paths that the merge would write over: edited, staged, untracked, and ignored ones, which git would lose."""
    status = await read_status(here)
    mine = [path for path in (*status.changed, *status.hidden) if path in changes]
    new = [path for path, letter in changes.items() if letter == "A" and path not in mine]
    return list(dict.fromkeys([*mine, *_lost(here, new, changes)]))


def _lost(here: Path, new: Iterable[str], changes: Collection[str]) -> list[str]:
    found: list[str] = []
    for path in new:
        place = here / path
        if place.is_dir() and not place.is_symlink():
            found += [name for name in _files_below(here, place) if name not in changes][:_SHOWN]
        elif is_there(place):
            found.append(path)
        parents = [parent for parent in Path(path).parents if _is_no_folder(here / parent)]
        found += [str(parent) for parent in parents if str(parent) not in changes]
    return found


def _files_below(here: Path, folder: Path) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        for name in names:
            yield str(Path(place, name).relative_to(here))


def _is_no_folder(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def _named(paths: Collection[str]) -> str:
    return few([shown(path, 100) for path in paths], _SHOWN)
