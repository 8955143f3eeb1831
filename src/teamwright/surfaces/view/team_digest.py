"""One-line digests of the teams that sessions lead, for the session picker."""

from collections.abc import Callable
from contextlib import suppress

from teamwright.core.data.team import Team
from teamwright.core.errors import StoreError
from teamwright.core.ids import SessionId
from teamwright.core.text import plural
from teamwright.store.files.paths import Home
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.tasks import TaskTable
from teamwright.store.tables.teams import TeamTable


async def read_teams(home: Home, tell: Callable[[StateStore], None] = lambda _: None) -> dict[SessionId, str]:
    """Digests by session. What cannot be read is left out: the sessions can be resumed anyway."""
    with suppress(StoreError):
        if home.state.exists():
            state = await StateStore.open(home.state)
            try:
                tell(state)
                return await _read(state, home)
            finally:
                await state.close()
    return {}


async def _read(state: StateStore, home: Home) -> dict[SessionId, str]:
    teams = TeamTable(state.database)
    tasks = TaskTable(state.database)
    found: dict[SessionId, str] = {}
    for team in await teams.teams():
        members = [m.name for m in await teams.members(team.name) if not m.is_lead and m.state != "shutdown"]
        unfinished = sum(task.status != "completed" for task in (await tasks.list(team.name)).tasks)
        before = f"{found[team.session]}, " if team.session in found else ""
        found[team.session] = before + _words(team, members, unfinished)
    return found


def _words(team: Team, members: list[str], unfinished: int) -> str:
    who = plural(len(members), "member") if len(members) > 3 else ", ".join(members) or "nobody"
    left = f", {plural(unfinished, 'open task')}" if unfinished else ""
    return f"{team.name} ({who}{left})"
