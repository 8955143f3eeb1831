"""Sessions of the store, as editors list them."""

import base64
import binascii
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from anyio import to_thread

from teamwright.core.errors import StoreError
from teamwright.core.ids import SessionId
from teamwright.store.files.paths import Home, SessionEntry, list_sessions
from teamwright.store.tables.tasks import TaskTable
from teamwright.store.tables.teams import TeamTable
from teamwright.surfaces.acp.protocol.wire import PARAMS, RpcError
from teamwright.surfaces.port.stored import opened_store
from teamwright.surfaces.view.text import one_line

PAGE = 50


async def list_page(home: Home, cwd: str | None, cursor: str | None) -> dict[str, Any]:
    """The newest sessions first. Raises RpcError for a cursor that is not ours."""
    place = _read_cursor(cursor)
    entries = await to_thread.run_sync(list_sessions, home, Path(cwd) if cwd else None)
    teams = await _read_teams(home)
    entries = [e for e in entries if e.cwd and not e.fault and (e.said or e.id in teams)]
    later = [e for e in entries if (e.modified, e.id) < place] if place else entries
    later = sorted(later, key=_place, reverse=True)
    page = {"sessions": [_info(entry, teams.get(entry.id)) for entry in later[:PAGE]]}
    return page | ({"nextCursor": _cursor_after(later[PAGE - 1])} if len(later) > PAGE else {})


def _place(entry: SessionEntry) -> tuple[int, str]:
    return entry.modified, entry.id


def _info(entry: SessionEntry, team: dict[str, Any] | None) -> dict[str, Any]:
    used = datetime.fromtimestamp(entry.modified / 1000, UTC).isoformat().replace("+00:00", "Z")
    info = {"sessionId": entry.id, "cwd": entry.cwd, "updatedAt": used}
    info |= {"title": one_line(entry.name or entry.prompt, 200)} if entry.name or entry.prompt else {}
    return info | {"_meta": {"teamwright": team or {"team": None, "agents": [], "open_tasks": 0}}}


def _cursor_after(entry: SessionEntry) -> str:
    return base64.urlsafe_b64encode(f"{entry.modified}:{entry.id}".encode()).decode()


def _read_cursor(cursor: str | None) -> tuple[int, str] | None:
    if not cursor:
        return None
    try:
        at, colon, id = base64.urlsafe_b64decode(cursor.encode()).decode().partition(":")
        if colon and id:
            return int(at), id
    except (binascii.Error, ValueError):
        pass
    raise RpcError(PARAMS, "the cursor is none of ours: list from the beginning")


async def _read_teams(home: Home) -> dict[SessionId, dict[str, Any]]:
    """Teams by the session that leads them. What cannot be read is left out."""
    found: dict[SessionId, dict[str, Any]] = {}
    with suppress(StoreError):
        if home.state.exists():
            async with opened_store(home) as state:
                teams = TeamTable(state.database)
                tasks = TaskTable(state.database)
                for team in await teams.teams():
                    members = [m.name for m in await teams.members(team.name) if not m.is_lead]
                    states = Counter(task.status for task in (await tasks.list(team.name)).tasks)
                    open_tasks = sum(states.values()) - states["completed"]
                    found[team.session] = {"team": team.name, "agents": members, "open_tasks": open_tasks}
    return found
