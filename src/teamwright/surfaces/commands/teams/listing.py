"""`teamwright teams`: lists teams, their members, and whether a lead is running."""

import os
import sys
from collections.abc import Sequence
from typing import Any

import anyio
from msgspec import Struct

from teamwright.core.data.team import Member, Team, config, iso
from teamwright.core.ids import AgentId
from teamwright.store.files.paths import Home, home_from
from teamwright.store.tables.mail import MailTable
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.teams import TeamTable
from teamwright.surfaces.commands.tables import local_time, print_json, print_table
from teamwright.surfaces.port.stored import opened_store
from teamwright.tools.bounds import visible

_LEFT = "lead gone: `teamwright --team NAME` leads it, `teams delete NAME` removes it"


class TeamRow(Struct, frozen=True):
    """One team in the list. `run` are the members that a living process runs."""

    team: Team
    members: Sequence[Member]
    unread: int
    led: bool
    run: frozenset[AgentId]

    @property
    def state(self) -> str:
        return "led" if self.led else "lead gone"


def show_teams(*, as_json: bool) -> int:
    home = home_from(os.environ)
    found = anyio.run(_read, home) if home.state.exists() else []
    if as_json:
        print_json([_record(row) for row in found])
    elif not found:
        sys.stdout.write("no teams\n")
    else:
        rows = [[r.team.name, r.state, str(len(r.members)), str(r.unread), r.team.description] for r in found]
        print_table([["TEAM", "LEAD", "MEMBERS", "UNREAD", "DESCRIPTION"], *rows])
        for row in found:
            sys.stdout.write("\n")
            _print_members(row)
        if not all(row.led for row in found):
            sys.stdout.write(f"\n{_LEFT}\n")
    return 0


def _print_members(row: TeamRow) -> None:
    line = f"{row.team.name}, session {row.team.session or 'none'}"
    sys.stdout.write(visible(line).replace("\n", " ") + "\n")
    cells = [
        [f"  {m.name}", m.kind, _state(m, row), local_time(m.since)[:-3], m.backend, m.model]
        for m in sorted(row.members, key=lambda m: (m.state == "shutdown", not m.is_lead))
    ]
    print_table([["  NAME", "KIND", "STATE", "SINCE", "RUNS", "MODEL"], *cells])


def _state(member: Member, row: TeamRow) -> str:
    """The member's state. The stored one is out of date if its process is gone."""
    if member.is_lead:
        return member.state if row.led else "gone"
    stale = member.state in ("created", "running") and not row.led and member.agent not in row.run
    return "not running" if stale else member.state


async def _read(home: Home) -> list[TeamRow]:
    async with opened_store(home) as state:
        processes = ProcessTable(state.database, home.run)
        teams, mail = TeamTable(state.database), MailTable(state.database)
        found: list[TeamRow] = []
        for team in await teams.teams():
            members = await teams.members(team.name)
            unread = sum([await mail.unread(member.agent) for member in members])
            led = team.process is not None and processes.alive(team.process)
            run = [m.agent for m in members if not led and await processes.holder(m.agent) is not None]
            found.append(TeamRow(team, members, unread, led, frozenset(run)))
        return found


def _record(row: TeamRow) -> dict[str, Any]:
    """The team as `config.json` has it, plus members that have shut down."""
    record = config(row.team, row.members)
    gone = [m for m in row.members if m.state == "shutdown"]
    listed = [*record["members"], *({"name": m.name, "agentId": m.address} | _short(m) for m in gone)]
    since = {m.name: iso(m.since) for m in row.members}
    members = [m | {"since": since[m["name"]]} for m in listed]
    return record | {"sessionId": row.team.session, "members": members, "state": row.state, "unread": row.unread}


def _short(member: Member) -> dict[str, Any]:
    return {"agentType": member.kind, "state": member.state, "backendType": member.backend, "model": member.model}
