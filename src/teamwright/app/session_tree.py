"""The git worktree in which a whole session works, if an option asks for one."""

import os
import sys
from collections.abc import Awaitable, Callable

import anyio
from msgspec.structs import replace

from teamwright.app.options import Options
from teamwright.app.workspace import open_workspace
from teamwright.core.errors import ToolError, UsageError
from teamwright.core.text import shown
from teamwright.host.git.worktrees.worktree import close, make


async def run_in_worktree(options: Options, name: str, run: Callable[[Options], Awaitable[int]]) -> int:
    """Make the worktree, or use the one of that name. One that is unchanged at the end goes, and any other is named."""
    owner = f"session-{os.urandom(3).hex()}"
    try:
        if "+" in name:
            raise ToolError(f"`{shown(name, 80)}` cannot name a worktree: write `/` where its directory has `+`.")
        links = open_workspace(options).settings.symlink_directories
        tree = await make(options.cwd, name or owner, links=links, owner=owner)
    except ToolError as error:
        raise UsageError(f"--worktree: {error}") from None
    try:
        return await run(replace(options, cwd=tree.path))
    finally:
        with anyio.CancelScope(shield=True):
            if (kept := await close(tree)) is not None:
                where = f"{shown(str(kept.path))} on the branch {kept.branch}"
                sys.stderr.write(f"teamwright: the worktree {tree.name} is kept: {where}\n")
