"""Merges or rebases a branch onto a commit in a fresh worktree; conflicts are never resolved by guessing."""

import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct

from teamwright.core.crashpoint import crashpoint
from teamwright.core.errors import ToolError
from teamwright.core.text import few, shown
from teamwright.host.git import LANDING, PLACE
from teamwright.host.git.run import Checkout, git, git_text
from teamwright.host.git.worktrees.create import CHECKOUT, link, prepare_place
from teamwright.host.git.worktrees.record import Worktree, is_there, lock_reason, private_at, registered

Method = Literal["merge", "rebase"]
KEPT = "refs/teamwright/landing/"  # refs that keep the commits of all branches ever queued
MOST_CONFLICT = 12_000  # characters of a conflict's text
# No recorded or configured resolution applies, no other branch moves, and nothing waits for a key.
_ALONE = (
    "rerere.enabled=false",
    "commit.gpgSign=false",
    "merge.autoStash=false",
    "merge.verifySignatures=false",
    "rebase.autoStash=false",
    "rebase.updateRefs=false",
    "rebase.autoSquash=false",
    "rebase.rebaseMerges=false",
)
_SETTINGS = tuple(word for setting in _ALONE for word in ("-c", setting))


class Tried(Struct, frozen=True):
    """A branch on top of a commit, in a tree that can be checked."""

    tree: Path
    onto: str
    commit: str


class Conflict(Struct, frozen=True):
    """The branch does not apply. `paths` were changed on both sides; `text` is git's output."""

    paths: tuple[str, ...]
    text: str

    @property
    def words(self) -> str:
        if not self.paths:
            return f"git cannot merge it ({shown(self.text.strip().splitlines()[0] if self.text.strip() else '')})"
        return f"it conflicts in {few([shown(path, 100) for path in self.paths], 5)}"


async def keep_commit(place: Checkout, branch: str, tip: str) -> str:
    """The hidden ref that keeps the commit from now on."""
    ref = f"{KEPT}{branch.replace('/', '+')}-{tip[:12]}"
    await git_text("update-ref", ref, tip, cwd=place.top)
    return ref


async def require_identity(place: Checkout) -> None:
    """Requires a committer for merges. Raises ToolError if git knows none."""
    ran = await git("var", "GIT_COMMITTER_IDENT", cwd=place.top)
    if ran.status:
        raise ToolError(
            "git does not know who you are, so it cannot make commits here. Set user.name and user.email with "
            "`git config`."
        )


def tree_of(place: Checkout, number: int) -> Path:
    return place.top.joinpath(*PLACE, f"{LANDING}{number}")


async def open_tree(place: Checkout, path: Path, commit: str, links: Sequence[str] = ()) -> None:
    """A detached worktree at that commit, locked for this process."""
    prepare_place(place)
    reason = await lock_reason("landing")
    lock = ("--lock", "--reason", reason)
    await git_text("worktree", "add", "--quiet", "--detach", *lock, str(path), commit, cwd=place.top, limit=CHECKOUT)
    crashpoint("land.tree")
    if links:
        link(Worktree(path.name, path, "", commit, place.top, place.common), links)


async def close_tree(place: Checkout, path: Path) -> None:
    """Removes the tree with all its content: it was ours from the start and holds nobody's work."""
    ran = await git("worktree", "remove", "-f", "-f", str(path), cwd=place.top, limit=CHECKOUT)
    if ran.status and is_there(path):
        shutil.rmtree(path, ignore_errors=True)
        await git("worktree", "unlock", str(path), cwd=place.top)
        await git("worktree", "prune", "--expire=now", cwd=place.top)


async def close_left_trees(place: Checkout) -> None:
    """Removes trees of a killed process. Only call this while holding the queue's lock."""
    folder = place.top.joinpath(*PLACE)
    left = {path for path, _ in registered(place.common) if path.parent == folder and path.name.startswith(LANDING)}
    with suppress(OSError):
        left |= {folder / entry.name for entry in folder.iterdir() if entry.name.startswith(LANDING)}
    for path in sorted(left):
        await close_tree(place, path)


async def put_on(tree: Path, onto: str, tip: str, *, method: Method, words: str) -> Tried | Conflict:
    """Puts `tip` on top of `onto`, where `tree` is checked out. `words` is the message of a merge commit."""
    if method == "rebase":
        ran = await git(*_SETTINGS, "rebase", "--quiet", "--no-verify", onto, tip, cwd=tree, limit=CHECKOUT)
    else:
        ran = await git(
            *_SETTINGS, "merge", "--quiet", "--ff", "--no-edit", "--no-squash", "-m", words, tip, cwd=tree,
            limit=CHECKOUT,
        )  # fmt: skip
    if ran.status:
        return await _conflict(tree, f"{ran.out}{ran.err}")
    commit = _detached_at(tree) or (await git_text("rev-parse", "HEAD", cwd=tree)).strip()
    crashpoint("land.merged")
    return Tried(tree, onto, commit)


def _detached_at(tree: Path) -> str:
    """The commit, read from git's own file; empty if it says something else (gitrepository-layout)."""
    with suppress(OSError):
        if private := private_at(tree):
            said = (private / "HEAD").read_text(errors="replace").strip()
            return said if re.fullmatch(r"[0-9a-f]{40,64}", said) else ""
    return ""


async def _conflict(tree: Path, said: str) -> Conflict:
    told = await git_text("diff", "--name-only", "--diff-filter=U", "-z", cwd=tree)
    paths = tuple(dict.fromkeys(path for path in told.split("\0") if path))
    shown_diff = await git("diff", "--no-color", "--no-ext-diff", "--no-textconv", cwd=tree) if paths else None
    return Conflict(paths, f"{said.strip()}\n{shown_diff.out if shown_diff else ''}"[:MOST_CONFLICT])
