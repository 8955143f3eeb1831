"""Moves a branch from exactly one commit to another; files change only where it is checked out without changes."""

import os
from pathlib import Path

import anyio
from msgspec import Struct

from teamwright.core.crashpoint import crashpoint
from teamwright.core.errors import ToolError
from teamwright.core.text import few, shown
from teamwright.host.git.run import Checkout, commit_of, git, git_text
from teamwright.host.git.worktrees.record import is_there, registered
from teamwright.host.git.worktrees.status import UNDER_WAY, hidden_paths

LIMIT = 600.0  # seconds to write the files of a large tree
PATIENCE = 2.0  # seconds to wait for another git to release a tree
_HEAD = "ref: refs/heads/"


class BranchMoved(Struct, frozen=True):
    """The branch was moved. `tree` is the working tree that was updated, if the branch is checked out."""

    tree: Path | None = None


class Missed(Struct, frozen=True):
    """Somebody else has moved the branch; nothing was changed."""


class Blocked(Struct, frozen=True):
    """The branch cannot be moved now; nothing was changed."""

    why: str


async def target_commit(place: Checkout, target: str) -> str:
    found = await commit_of(f"refs/heads/{target}", cwd=place.top)
    if found is None:
        raise ToolError(f"There is no branch {shown(target)} to land on. `git branch` lists those that there are.")
    return found


def checked_out(place: Checkout, target: str) -> tuple[Path, Path] | None:
    """The tree that has the branch checked out, and its private git directory, read from git's own files
    (gitrepository-layout)."""
    own = [(place.top, place.common)] if _is_main(place) else []
    for tree, private in (*own, *registered(place.common)):
        try:
            head = (private / "HEAD").read_text(errors="surrogateescape").strip()
        except OSError:
            continue
        if head == f"{_HEAD}{target}" and tree.is_dir():
            return tree, private
    return None


def _is_main(place: Checkout) -> bool:
    """Is `top` the repository's main working tree? A bare repository has a HEAD too, but it is checked out nowhere."""
    link = place.top / ".git"
    if link.is_dir():
        return link.resolve() == place.common.resolve()
    try:
        told = os.fsdecode(link.read_bytes()).removeprefix("gitdir: ").rstrip("\n")
    except OSError:
        return False
    return (place.top / told).resolve() == place.common.resolve()


async def in_the_way(place: Checkout, target: str) -> str:
    """Why the branch cannot be moved now; empty if it can, as far as can be told beforehand."""
    found = checked_out(place, target)
    return "" if found is None else await _in_tree(*found, target)


async def _in_tree(tree: Path, private: Path, target: str) -> str:
    where = f"{shown(target)} is checked out in {shown(str(tree))}"
    for name, words in UNDER_WAY.items():
        if (private / name).exists():
            return f"{where}, where {words} is under way; end it first"
    if not await _is_free(private / "index.lock"):
        return f"{where}, and another git is at work there (index.lock); if none runs, delete that file"
    told = await git_text("status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=dirty", cwd=tree)
    changed = [line[3:] for line in told.split("\0") if line]
    if changed:
        names = few([shown(path, 80) for path in changed], 3)
        return f"{where} with uncommitted changes ({names}); commit or stash them"
    return ""


async def _overwritten(tree: Path, old: str, new: str) -> str:
    """Why edits that git cannot see prevent the move: it was told not to check these files (`update-index
    --assume-unchanged`) and would overwrite them. Empty if there are none."""
    hidden = await hidden_paths(tree)
    if not hidden:
        return ""
    told = await git_text("diff", "--name-only", "-z", "--no-renames", old, new, cwd=tree)
    lost = sorted(set(hidden) & set(told.split("\0")))
    if not lost:
        return ""
    names = ", ".join(shown(path, 80) for path in lost[:3])
    return f"{names} in {shown(str(tree))} would be written over, and git is told not to look for changes there"


async def _is_free(lock: Path) -> bool:
    """Waits for the lock to be released; an editor's git may hold it for a moment."""
    until = anyio.current_time() + PATIENCE
    while is_there(lock):
        if anyio.current_time() > until:
            return False
        await anyio.sleep(0.02)
    return True


async def move_target(place: Checkout, target: str, new: str, old: str, words: str) -> BranchMoved | Missed | Blocked:
    """Moves the branch with a single git process, which continues if we are killed: it ends at `old` or `new`, files
    included."""
    if await target_commit(place, target) != old:
        return Missed()
    found = checked_out(place, target)
    if found is None:
        ran = await git("update-ref", "-m", words, f"refs/heads/{target}", new, old, cwd=place.top)
        crashpoint("land.moved")
        return BranchMoved() if ran.status == 0 else await _why(place, target, old, ran.complaint)
    tree, private = found
    if why := await _in_tree(tree, private, target) or await _overwritten(tree, old, new):
        return Blocked(why)
    ran = await git(
        "-c",
        "merge.autoStash=false",
        "-c",
        "merge.verifySignatures=false",
        "merge",
        "--quiet",
        "--ff-only",
        "--no-squash",
        "--no-overwrite-ignore",
        new,
        cwd=tree,
        limit=LIMIT,
        extra={"GIT_REFLOG_ACTION": words},
    )
    crashpoint("land.moved")
    if ran.status:
        return await _why(place, target, old, ran.complaint)
    return BranchMoved(tree)


async def _why(place: Checkout, target: str, old: str, complaint: str) -> Missed | Blocked:
    if await target_commit(place, target) != old:
        return Missed()
    return Blocked(f"{shown(target)} cannot be moved: {complaint}")


async def contains(place: Checkout, target: str, commit: str) -> bool:
    """Does the target already contain this commit?"""
    ran = await git("merge-base", "--is-ancestor", commit, f"refs/heads/{target}", cwd=place.top)
    return ran.status == 0
