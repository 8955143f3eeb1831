"""Details of one worktree: its commits, its diffstat, and how far it and the current branch have diverged."""

from pathlib import Path

from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.host.git.run import commit_of, git, git_text
from teamwright.host.git.worktrees.record import require_tied
from teamwright.host.git.worktrees.status import DiffstatRow, own_links, read_diffstat, read_numstat, read_status
from teamwright.host.git.worktrees.worktree import FoundTree

MOST_COMMITS = 50


class WorktreeView(Struct, frozen=True):
    """`lines` compare the base with the current files; `commits` are the newest, as `HASH SUBJECT`."""

    found: FoundTree
    here: str  # the branch checked out in the current directory; empty if none
    ahead: int  # commits that only the worktree has
    behind: int  # commits that only the branch here has
    commits: tuple[str, ...] = ()
    lines: tuple[DiffstatRow, ...] = ()


async def view(found: FoundTree, cwd: Path) -> WorktreeView:
    tree = found.worktree
    tip = await tip_of(found)
    told = await git_text("rev-list", "--left-right", "--count", f"HEAD...{tip}", cwd=cwd)
    behind, ahead = map(int, told.split())
    log = await git_text("log", "-z", f"-{MOST_COMMITS}", "--format=%h %s", tip, "--not", tree.base, cwd=tree.repo)
    return WorktreeView(
        found,
        await branch_here(cwd),
        ahead,
        behind,
        tuple(line for line in log.split("\0") if line),
        tuple(await _lines(found, tip)),
    )


async def tip_of(found: FoundTree) -> str:
    """The commit its work is based on: HEAD there, or what is left of its branch."""
    tree = found.worktree
    try:
        require_tied(tree)
        head = await commit_of("HEAD", cwd=tree.path)
    except ToolError:
        head = None
    return head or await commit_of(f"refs/heads/{tree.branch}", cwd=tree.repo) or tree.base


async def _lines(found: FoundTree, tip: str) -> list[DiffstatRow]:
    tree = found.worktree
    try:
        private = require_tied(tree)
    except ToolError:
        told = await git_text(
            "diff", "--numstat", "-z", "-M", "--no-ext-diff", "--no-textconv", tree.base, tip, cwd=tree.repo
        )
        return read_numstat(told)
    own = own_links(tree)
    untracked = [path for path in (await read_status(tree.path)).untracked if path not in own]
    return await read_diffstat(tree.path, private, tree.base, untracked)


async def branch_here(cwd: Path) -> str:
    """The branch that is checked out; empty at a detached HEAD."""
    ran = await git("symbolic-ref", "--quiet", "--short", "HEAD", cwd=cwd)
    return ran.out.strip() if ran.status == 0 else ""
