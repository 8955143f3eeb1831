"""Names of agents and their branches, as branches in a person's repository have them."""

import re

from teamwright.core.errors import ToolError
from teamwright.host.git.create import check_name


def flat_name(name: str, otherwise: str) -> str:
    """Fit for a worktree's branch; where nothing of the name is, the other one."""
    tame = re.sub(r"[^A-Za-z0-9._+/-]+", "-", name).strip("-./+")[:60]
    try:
        return check_name(tame or otherwise)
    except ToolError:
        return check_name(otherwise)
