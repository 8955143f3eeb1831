"""Git worktrees for agents: made from the parent's commit, locked while in use, removed only if provably unchanged."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import anyio
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.crashpoint import crashpoint
from teamwright.core.errors import ToolError
from teamwright.core.text import shown
from teamwright.host.git import LANDING
from teamwright.host.git.run import Checkout, commit_of, count_commits, git, git_text, locate
from teamwright.host.git.worktrees.create import CHECKOUT, check_name, drop_branch, link, make
from teamwright.host.git.worktrees.record import (
    PLACE,
    Holder,
    Worktree,
    WorktreeRecord,
    alone,
    branch_of,
    forget,
    holder_of,
    is_alive,
    is_ours,
    is_there,
    is_tied,
    private_of,
    read_record,
    recorded,
    refuse_if_used,
    registered,
    write_record,
)
from teamwright.host.git.worktrees.status import (
    TreeState,
    has_submodules,
    hide,
    inner_trees,
    keep,
    keep_past,
    own_links,
    read_numstat,
    read_status,
    state,
    tips,
    tree_state,
)

__all__ = [
    "FoundTree",
    "KeptTree",
    "TreeState",
    "Worktree",
    "check_name",
    "close",
    "find",
    "find_one",
    "is_there",
    "let_go",
    "make",
    "release",
    "remove",
    "state",
]

AT_ONCE = max(2, min(8, os.cpu_count() or 1))  # worktrees checked in parallel


def told_worktree(path: Path, branch: str) -> str:
    """Where an agent works, for the one who must merge it."""
    return f"{path} (branch {branch})" if branch else str(path)


class KeptTree(Struct, frozen=True):
    """A worktree that was kept; `note` explains it where its state does not."""

    path: Path
    branch: str
    summary: str
    state: TreeState | None = None  # None: unknown
    note: str = ""

    @property
    def words(self) -> str:
        """What was kept, for the end of a report."""
        lines = [f"Its worktree was kept: {told_worktree(self.path, self.branch)}", self.summary, self.note]
        return "\n".join(line for line in lines if line)


class FoundTree(Struct, frozen=True):
    """A worktree in a list. `merged`: all its work is also in another branch; `orphan`: partly made or removed, or left
    by a process that is gone."""

    worktree: Worktree
    use: Literal["in_use", "changed", "merged", "clean", "orphan"]
    state: TreeState
    note: str = ""


async def close(tree: Worktree) -> KeptTree | None:
    """Ends the agent's use. A provably unchanged tree is removed with its branch; anything else is kept and
    reported."""
    found, note = None, ""
    try:
        found = await state(tree)
        if not found.changed:
            crashpoint("worktree.judged")
            await _take_away(tree)
            return None
    except ToolError as error:
        note = str(error)
    return await let_go(tree, found, note)


async def let_go(tree: Worktree, found: TreeState | None, note: str) -> KeptTree:
    """Keeps it as found and releases it for others."""
    try:
        await release(tree)
    except ToolError as error:
        note = note or str(error)
    return KeptTree(tree.path, tree.branch, found.summary if found else "", found, note)


async def _take_away(tree: Worktree) -> None:
    """Removes an unchanged worktree; unforced, so that git checks once more itself."""
    async with alone(tree.common) as held:
        private = private_of(tree)
        holder = holder_of(private) if private else None
        if private is None or (holder and not await is_ours(holder, tree.owner)):
            raise ToolError(f"The worktree {tree.name} was locked by somebody else meanwhile.")
        record = read_record(tree) or WorktreeRecord(tree.branch, tree.base, "ready")
        write_record(tree, replace(record, phase="closing"))
        crashpoint("worktree.closing")
        await keep_past(tree, private)
        links = own_links(tree)
        for name in links:  # not everybody's ignore rules cover them, and git would refuse because of them
            (tree.path / name).unlink(missing_ok=True)
        ran = await _unlock_and_remove(tree, holder, held)
        if ran:
            write_record(tree, record)
            link(tree, sorted(links))
            raise ToolError(f"git would not remove the worktree: {ran}")
        crashpoint("worktree.removed")
        await drop_branch(tree, held)
        crashpoint("worktree.dropped")
        forget(tree)


async def _unlock_and_remove(tree: Worktree, holder: Holder | None, held: int, *force: str) -> str:
    """Returns git's complaint; empty on success."""
    if holder:
        await git_text("worktree", "unlock", str(tree.path), cwd=tree.repo, held=held)
    crashpoint("worktree.unlocked")
    ran = await git("worktree", "remove", *force, str(tree.path), cwd=tree.repo, held=held, limit=CHECKOUT)
    return ran.complaint if ran.status else ""


async def release(tree: Worktree) -> None:
    """Unlocks it if we hold it; another agent or session may have it by now."""
    async with alone(tree.common) as held:
        private = private_of(tree)
        holder = holder_of(private) if private else None
        if holder and await is_ours(holder, tree.owner):
            await git_text("worktree", "unlock", str(tree.path), cwd=tree.repo, held=held)


async def remove(tree: Worktree) -> str | None:
    """Removes it with its branch on request. Returns the hidden ref that keeps its state."""
    private = private_of(tree)
    holder = holder_of(private) if private else None
    await refuse_if_used(tree, holder)
    if holder and not holder.pid:
        raise ToolError(
            f"The worktree {tree.name} is locked by somebody: {shown(holder.reason)}. Unlock it with git first."
        )
    tied = private is not None and is_tied(tree, private)
    if not tied and is_there(tree.path):
        raise ToolError(
            f"{shown(str(tree.path))} is not tied to the repository, so git cannot keep it. Remove it by hand."
        )
    ref = await _hide_state(tree, private if tied else None)
    crashpoint("worktree.hidden")
    async with alone(tree.common) as held:
        if private:
            await _remove_files(tree, holder, held)
        crashpoint("worktree.removed")
        await drop_branch(tree, held, whatever=True)
        crashpoint("worktree.dropped")
        forget(tree)
    return ref


async def _remove_files(tree: Worktree, holder: Holder | None, held: int) -> None:
    record = read_record(tree) or WorktreeRecord(tree.branch, tree.base, "ready", tree.owner, tree.session)
    write_record(tree, replace(record, phase="closing"))
    if complaint := await _unlock_and_remove(tree, holder, held, "--force"):
        write_record(tree, record)
        raise ToolError(f"git would not remove the worktree {shown(str(tree.path))}: {complaint}")


async def _hide_state(tree: Worktree, private: Path | None) -> str | None:
    """Keeps its files and commits under a hidden ref; if the tree is gone, the commits of its branch."""
    if private is not None:
        return await _keep_all(tree, private)
    tip = await commit_of(f"refs/heads/{tree.branch}", cwd=tree.repo)
    if tip and await count_commits([tip], tree.base, cwd=tree.repo):
        return await hide(tree, tip)
    return None


async def _keep_all(tree: Worktree, private: Path) -> str | None:
    """Stores everything under a ref. Refuses nested repositories, whose own history a ref cannot hold."""
    status = await read_status(tree.path)
    inner = [path for path in status.untracked if path.endswith("/")]
    inner += [path.name for path in inner_trees(tree)]
    if has_submodules(private):
        inner.append("its submodules")
    if inner:
        what = shown(", ".join(inner))
        raise ToolError(f"The worktree {tree.name} has other repositories in it ({what}). Move or remove them first.")
    return await keep(tree, private)


# --- the list


async def find(repo: Path) -> list[FoundTree]:
    """All our worktrees in the repository around `repo`, including leftovers of a crash."""
    place = await locate(repo)
    folder = place.top.joinpath(*PLACE)
    every = [path for path, _ in registered(place.common)]
    names = {path.name for path in every if path.parent == folder}
    names |= set(recorded(place.common))
    with suppress(OSError):
        names |= {entry.name for entry in folder.iterdir() if entry.is_dir()}
    names = {name for name in names if not name.startswith(LANDING)}
    found: dict[str, FoundTree | None] = dict.fromkeys(sorted(names))
    seats = anyio.Semaphore(AT_ONCE)

    async def look(name: str) -> None:
        async with seats:
            found[name] = await _look(place, folder / name, every)

    async with anyio.create_task_group() as group:
        for name in found:
            group.start_soon(look, name)
    return [one for one in found.values() if one]


async def find_one(repo: Path, name: str) -> FoundTree | None:
    """The one of that name, as `find` would list it."""
    place = await locate(repo)
    return await _look(place, place.top.joinpath(*PLACE, check_name(name)))


async def _look(place: Checkout, path: Path, among: Sequence[Path] | None = None) -> FoundTree | None:
    tree = Worktree(path.name, path, branch_of(path.name), place.head, place.top, place.common)
    private, record = private_of(tree), read_record(tree)
    tree = await _with_base(tree, private, record)
    if record and record.phase == "returned" and private is None:
        return await _look_at_branch(tree)
    held = _process_in(private)
    note = ""
    try:
        seen = await state(tree, among)
    except ToolError as error:
        if (seen := await _remains(tree, private)) is None:
            return None  # only a record, which the next `make` rewrites
        note = str(error)
    if held and await is_alive(held):
        return FoundTree(tree, "in_use", seen, note)
    if note or held or (record and record.phase != "ready"):
        return FoundTree(tree, "orphan", seen, note)
    if seen.changed and await _is_merged(tree, seen):
        return FoundTree(tree, "merged", seen, note)
    return FoundTree(tree, "changed" if seen.changed else "clean", seen, note)


async def _look_at_branch(tree: Worktree) -> FoundTree | None:
    """The work of an agent that ran elsewhere: a branch without a tree."""
    try:
        seen = await branch_state(tree)
    except ToolError:
        return None  # deleted by hand; the next one of that name rewrites its record
    tip = await commit_of(f"refs/heads/{tree.branch}", cwd=tree.repo)
    rest = ("rev-list", "--max-count=1", tip or tree.base, "--not", f"--exclude={branch_of('*')}", "--branches")
    merged = await git_text(*rest, cwd=tree.repo) == ""
    return FoundTree(tree, "merged" if merged else "changed", seen)


async def branch_state(tree: Worktree) -> TreeState:
    """The state of a branch that has no tree here."""
    tip = await commit_of(f"refs/heads/{tree.branch}", cwd=tree.repo)
    if tip is None or not await commit_of(tree.base, cwd=tree.repo):
        raise ToolError(f"The branch {shown(tree.branch)} is gone.")
    words = ("diff", "--numstat", "-z", "-M", "--no-ext-diff", "--no-textconv", tree.base, tip)
    lines = read_numstat(await git_text(*words, cwd=tree.repo))
    return tree_state(lines, await count_commits([tip], tree.base, cwd=tree.repo), [], loose=False)


async def _is_merged(tree: Worktree, seen: TreeState) -> bool:
    """Is all of its work in a branch that is neither a worktree's nor checked out there?"""
    if not seen.ahead or seen.loose or seen.notes:
        return False
    head = await commit_of("HEAD", cwd=tree.path)
    out = (await git("symbolic-ref", "--quiet", "--short", "HEAD", cwd=tree.path)).out.strip()
    others = [f"--exclude={name}" for name in (branch_of("*"), out) if name]
    ends = await tips(tree, head) if head else []
    rest = ("rev-list", "--max-count=1", *ends, "--not", *others, "--branches")
    return bool(ends) and await git_text(*rest, cwd=tree.repo) == ""


def _process_in(private: Path | None) -> Holder | None:
    """The process that claims to use it, which may have ended since. A person's own lock does not count."""
    holder = holder_of(private) if private else None
    return holder if holder and holder.pid else None


async def _with_base(tree: Worktree, private: Path | None, record: WorktreeRecord | None) -> Worktree:
    """Fills in the base from the record, or else the commit where it branched off the current one."""
    if record:
        return replace(tree, base=record.base, owner=record.owner, session=record.session)
    if private and is_tied(tree, private):
        ran = await git("merge-base", "HEAD", tree.base, cwd=tree.path)
        return replace(tree, base=ran.out.strip() or tree.base)
    return tree


async def _remains(tree: Worktree, private: Path | None) -> TreeState | None:
    """What is left of a worktree whose state is unknown; None if nothing is."""
    tip = await commit_of(f"refs/heads/{tree.branch}", cwd=tree.repo)
    there = is_there(tree.path)
    if not (tip or private or there):
        return None
    ahead = await count_commits([tip], tree.base, cwd=tree.repo) if tip else 0
    return TreeState(changed=bool(ahead) or there, ahead=ahead)
