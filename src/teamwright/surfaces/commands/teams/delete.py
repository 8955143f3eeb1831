"""`teamwright teams delete`: removes a team that nobody leads any more, and reports what happens to its worktrees."""

import os
from pathlib import Path
from typing import Any

import anyio

from teamwright.app.options import Options
from teamwright.app.workspace import open_workspace, tell_git
from teamwright.core.data.team import Member, Refused
from teamwright.core.errors import ToolError, UsageError
from teamwright.core.text import closest, plural
from teamwright.host.git.worktrees.worktree import find_one, remove
from teamwright.store.db.database import Database
from teamwright.store.files.paths import Home, home_from
from teamwright.store.mirrors.task import TaskMirror
from teamwright.store.mirrors.team import TeamMirror
from teamwright.store.tables.mail import MailTable
from teamwright.store.tables.tasks import TaskTable
from teamwright.store.tables.teams import TeamTable
from teamwright.surfaces.commands.tables import print_json, say
from teamwright.surfaces.port.stored import opened_store
from teamwright.tools.bounds import visible

_PATIENCE = 60.0  # seconds for an engine


def delete_team(name: str, engine: str | None, *, as_json: bool) -> int:
    """Removes roster, inboxes and tasks; a worktree only if it holds no work."""
    home = home_from(os.environ)
    if engine is not None:
        team, members = anyio.run(_delete_in_engine, home, name, engine)
    elif home.state.exists():
        team, members = anyio.run(_delete_here, home, name)
    else:
        raise UsageError(f"there is no team {visible(name)}")
    trees = [_settle(member) for member in members if member.worktree and Path(member.worktree).is_dir()]
    if as_json:
        print_json({"team": team, "members": [member.name for member in members], "worktrees": trees})
        return 0
    say(f"deleted {team} ({plural(len(members), 'teammate')}), its inboxes and its tasks")
    for tree in trees:
        say(f"worktree {tree['name']} of {tree['agent']}: {tree['note']}")
    return 0


async def _delete_here(home: Home, name: str) -> tuple[str, list[Member]]:
    async with opened_store(home) as state:
        return await _delete(state.database, home, name)


async def _delete_in_engine(home: Home, name: str, engine: str) -> tuple[str, list[Member]]:
    from teamwright.store.engine.space import Joining, open_space  # noqa: PLC0415
    from teamwright.surfaces.commands.through_engine import read_named_engine  # noqa: PLC0415

    address = read_named_engine(engine)
    assert address is not None
    space = await open_space(address, home.root, Joining(patience=_PATIENCE))
    try:
        return await _delete(space.database, space.home, name)
    finally:
        await space.close()


async def _delete(database: Database, home: Home, name: str) -> tuple[str, list[Member]]:
    teams = TeamTable(database)
    known = {team.name.casefold(): team.name for team in await teams.teams()}
    if (team := known.get(name.casefold())) is None:
        near = closest(name, known.values())
        hint = f"did you mean {near}?" if near else f"teams: {', '.join(known.values()) or 'none'}"
        raise UsageError(f"there is no team {visible(name)}; {hint}")
    members = [member for member in await teams.members(team) if not member.is_lead]
    done = await teams.delete_left(team)
    if isinstance(done, Refused):
        raise UsageError(done.reason)
    await TeamMirror(home.root, teams, MailTable(database)).remove(team)
    await TaskMirror(home.root, TaskTable(database)).remove(team)
    return team, members


def _settle(member: Member) -> dict[str, Any]:
    path = Path(member.worktree)
    tell_git(open_workspace(Options(cwd=path)))
    try:
        note, removed = anyio.run(_close, path)
    except ToolError as error:
        note, removed = f"kept: {error}", False
    return {"name": path.name, "path": str(path), "agent": member.name, "removed": removed, "note": note}


async def _close(path: Path) -> tuple[str, bool]:
    """As when a teammate shuts down: a worktree without work is removed."""
    found = await find_one(path, path.name)
    if found is None:
        return "gone already", True
    if found.use == "in_use":
        return "kept, because a process uses it", False
    if not found.state.changed:
        await remove(found.worktree)
        return "removed, because it held no work", True
    if found.use == "merged":
        return "kept; its work is merged: `teamwright worktrees clean` removes it", False
    return f"kept, because it holds work: `teamwright worktrees merge {path.name}` merges it", False
