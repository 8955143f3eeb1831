"""Reads for the hub from `state.db`: tasks, mail, costs and the landing queue of a session."""

from pathlib import Path
from typing import Any

import anyio
from msgspec.structs import replace

from teamwright.core.data.tasks import Task
from teamwright.core.ids import SessionId
from teamwright.host.git.places import repository_of
from teamwright.runtime.landing.plan import repo_key
from teamwright.store.files.paths import Home
from teamwright.store.mirrors.task import record
from teamwright.store.tables.landing import LandTable
from teamwright.store.tables.mail import MailEntry, MailTable
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.tasks import TaskTable
from teamwright.store.tables.teams import TeamTable
from teamwright.surfaces.port.stored import tell_notes
from teamwright.surfaces.reports.cost import cost_of
from teamwright.surfaces.reports.landing import landing_record
from teamwright.surfaces.view.letters import mail_words
from teamwright.surfaces.web.sessions.graph import draw
from teamwright.tools.bounds import visible

MOST_POINTS = 200  # in one series
MOST_LANDED = 50  # decided branches

Json = dict[str, Any]


class Stores:
    """Opened on first use."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._state: StateStore | None = None
        self._opening = anyio.Lock()

    async def _open(self) -> StateStore | None:
        async with self._opening:  # a page's first requests come at once
            if self._state is None and self._home.state.exists():
                self._state = await StateStore.open(self._home.state)
                tell_notes(self._state)
        return self._state

    async def close(self) -> None:
        if self._state is not None:
            await self._state.close()

    async def list_name(self, session: str) -> str:
        """A session's own list, or that of the team which took it over."""
        state = await self._open()
        if state is None:
            return session
        teams = [name for name in await TaskTable(state.database).lists(session) if name != session]
        return teams[-1] if teams else session

    async def tasks(self, session: str, team: str = "") -> tuple[Task, ...]:
        state = await self._open()
        if state is None:
            return ()
        name = team or await self.list_name(session)
        return (await TaskTable(state.database).list(name)).tasks

    async def lists(self, session: str) -> list[str]:
        state = await self._open()
        return [] if state is None else await TaskTable(state.database).lists(session)

    async def board(self, session: str, team: str = "", chosen: str = "") -> Json:
        """The tasks as in `tasks --json`, and the place of each in the graph."""
        tasks = await self.tasks(session, team)
        waits = {task.id: set(task.blocked_by) for task in tasks}
        for task in tasks:
            for other in task.blocks:
                waits.setdefault(other, set()).add(task.id)
        named = next((task.id for task in tasks if str(task.id) == chosen), None)
        graph = draw(tasks, {id: tuple(before) for id, before in waits.items()}, named)
        name = team or await self.list_name(session)
        shown = [record(replace(t, subject=visible(t.subject), description=visible(t.description))) for t in tasks]
        return {"list": visible(name), "tasks": shown, "graph": graph}

    async def mail(self, session: str, before: int, limit: int) -> Json:
        """The messages of the session's teams, in order."""
        state = await self._open()
        if state is None:
            return {"entries": [], "more": False}
        teams = TeamTable(state.database)
        table, found = MailTable(state.database), list[MailEntry]()
        names = [team.name for team in await teams.teams()]
        own = {name for name in await self.lists(session) if name in names}
        own |= {team.name for team in await teams.teams() if await self._leads(teams, team.name, session)}
        for name in sorted(own):
            found += [e for e in await table.newest(name, 100_000) if not before or e.n < before]
        found.sort(key=_number)
        return {"entries": [_entry(e) for e in found[-limit:]], "more": len(found) > limit}

    async def _leads(self, teams: TeamTable, name: str, session: str) -> bool:
        return any(member.session == session for member in await teams.members(name))

    async def cost(self, session: str) -> Json:
        """The cost as in `cost --json`, and its course over time."""
        state = await self._open()
        costs = [] if state is None else await state.costs(SessionId(session))
        series = [] if state is None else await state.spent_over_time(SessionId(session), MOST_POINTS)
        report = cost_of(costs)
        shown = {name: getattr(report, name) for name in report.__struct_fields__}
        return shown | {"series": series}

    async def landing(self, cwd: Path, only: str) -> list[Json]:
        """The landing queue of the repository around `cwd`, the newest first; `only` what this session queued."""
        state, repo = await self._open(), repository_of(str(cwd))
        if state is None or not repo:
            return []
        entries = await LandTable(state.database).entries(repo_key(repo), MOST_LANDED, only)
        return [{name: _plain(value) for name, value in landing_record(entry).items()} for entry in reversed(entries)]

    async def members(self, session: str) -> list[Json]:
        """The roster of the session's teams."""
        state = await self._open()
        if state is None:
            return []
        teams = TeamTable(state.database)
        mail, out = MailTable(state.database), list[Json]()
        for team in await teams.teams():
            members = await teams.members(team.name)
            if any(member.session == session for member in members):
                for m in members:
                    out.append(
                        {
                            "id": m.agent,
                            "name": visible(m.name),
                            "team": visible(m.team),
                            "kind": visible(m.kind),
                            "state": m.state,
                            "place": m.backend,
                            "worktree": visible(m.worktree),
                            "unread": await mail.unread(m.agent),
                            "color": m.color,
                            "since": m.since,
                        }
                    )
        return out


def _plain(value: Any) -> Any:
    return visible(value) if isinstance(value, str) else value


def _number(entry: MailEntry) -> int:
    return entry.n


def _entry(entry: MailEntry) -> Json:
    return {
        "n": entry.n,
        "team": visible(entry.team),
        "from": visible(entry.from_name),
        "to": visible(entry.to_name),
        "summary": visible(entry.summary),
        "text": visible(mail_words(entry.text, "")),
        "color": entry.color,
        "state": entry.state,
        "reason": visible(entry.reason),
        "sent_at": entry.sent_at,
        "delivered_at": entry.delivered_at,
    }
