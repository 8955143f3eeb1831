"""Worktrees that team members may return to, even while no process holds them."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from msgspec import Struct

from teamwright.core.data.team import Member
from teamwright.core.ids import AgentId
from teamwright.store.db.statements import fetch_all
from teamwright.store.files.paths import Home
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.teams import TeamTable


async def housed(teams: TeamTable) -> dict[AgentId, Member]:
    """Members with a worktree that have not shut down, by agent."""
    members = [member for team in await teams.teams() for member in await teams.members(team.name)]
    return {member.agent: member for member in members if member.worktree and member.state != "shutdown"}


Tell = Callable[[StateStore], None]  # passes on what the opening of a store has to say


class Houses(Struct, frozen=True):
    """Owners of worktrees: `members` have not shut down; `names` are those of all agents that were asked about."""

    members: Mapping[Path, Member] = {}
    names: Mapping[str, str] = {}
    led: Collection[str] = ()  # teams whose lead's process lives


async def read_houses(home: Home, owners: Collection[str], tell: Tell) -> Houses:
    """For callers without an open store."""
    if not home.state.exists():
        return Houses()
    state = await StateStore.open(home.state)
    try:
        tell(state)
        processes = ProcessTable(state.database, home.run)
        teams = TeamTable(state.database)
        found = await housed(teams)
        names = await _names(state, owners) | await _addresses(teams)
        led = [team.name for team in await teams.teams() if team.process and processes.alive(team.process)]
    finally:
        await state.close()
    return Houses({Path(member.worktree): member for member in found.values()}, names, led)


async def _names(state: StateStore, owners: Collection[str]) -> dict[str, str]:
    """Names of agents that another agent started; a main agent is known by its session."""
    marks = ", ".join("?" * len(owners))
    sql = f"SELECT id, name FROM agents WHERE parent IS NOT NULL AND name <> '' AND id IN ({marks})"  # noqa: S608
    return dict(await state.database.read(fetch_all(sql, tuple(owners))))


async def _addresses(teams: TeamTable) -> dict[str, str]:
    members = [member for team in await teams.teams() for member in await teams.members(team.name)]
    return {member.agent: member.address for member in members if not member.is_lead}
