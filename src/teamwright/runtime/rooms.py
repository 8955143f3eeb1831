"""Worktrees as the rooms of agents: made before an agent starts, closed after its end, never with work in them lost."""

from collections.abc import Sequence
from pathlib import Path

import anyio

from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId
from teamwright.core.ports import Desk
from teamwright.host.worktree import Kept, Worktree, close, make

CLOSE_LIMIT = 60.0  # seconds for git to tell whether anything was changed


class Rooms:
    def __init__(self, links: Sequence[str]) -> None:
        """`links` are directories that are linked into a worktree, not copied."""
        self._links = tuple(links)

    async def open(self, parent: Path, agent: AgentId) -> Worktree:
        return await make(parent, agent, links=self._links, owner=agent)

    async def close(self, tree: Worktree) -> Kept | None:
        """None if nothing was changed and it is gone. Whatever goes wrong, it is kept."""
        with anyio.move_on_after(CLOSE_LIMIT):
            try:
                return await close(tree)
            except ToolError as error:
                return Kept(tree.path, tree.branch, "", note=str(error))
        return Kept(tree.path, tree.branch, "", note=f"git did not answer within {CLOSE_LIMIT:g} s")


def move_in(desk: Desk, tree: Worktree) -> None:
    """The agent works there: its own tree takes the place of its parent's, and it has read nothing yet."""
    desk.cwd = tree.path
    desk.roots = (tree.path, *desk.roots[1:])
    desk.seen = {}


def words(kept: Kept) -> str:
    """What was kept, for the end of a report."""
    lines = [f"Its worktree was kept: {kept.path} (branch {kept.branch})", kept.summary, kept.note]
    return "\n".join(line for line in lines if line)
