"""Worktrees that team members may return to, even while no process holds them."""

from pathlib import Path

from teamwright.core.data.team import Member
from teamwright.core.ids import AgentId
from teamwright.store.files.paths import Home
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.teams import TeamTable


async def housed(teams: TeamTable) -> dict[AgentId, Member]:
    """Those that have not shut down, by agent."""
    members = [member for team in await teams.teams() for member in await teams.members(team.name)]
    return {member.agent: member for member in members if member.worktree and member.state != "shutdown"}


async def read_housed(home: Home) -> dict[Path, Member]:
    """The same by directory, for callers without an open store."""
    if not home.state.exists():
        return {}
    state = await StateStore.open(home.state)
    try:
        found = await housed(TeamTable(state.database, ProcessTable(state.database, home.run)))
    finally:
        await state.close()
    return {Path(member.worktree): member for member in found.values()}
