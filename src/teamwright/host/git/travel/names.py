"""Turns names of agents and their branches into branch names for a person's repository."""

import re

from teamwright.core.errors import ToolError
from teamwright.core.text import shown
from teamwright.host.git.worktrees.create import check_name

_AGENT = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_agent(id: str) -> None:
    """Validates an agent id, which becomes part of paths and refs."""
    if not _AGENT.fullmatch(id):
        raise ToolError(f"`{shown(id, 80)}` is not the id of an agent.")


def flat_name(name: str, otherwise: str) -> str:
    """A name that fits a worktree's branch; `otherwise` if nothing of the name is usable."""
    tame = re.sub(r"[^A-Za-z0-9._+/-]+", "-", name).strip("-./+")[:60]
    try:
        return check_name(tame or otherwise)
    except ToolError:
        return check_name(otherwise)
