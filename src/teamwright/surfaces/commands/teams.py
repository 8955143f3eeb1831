"""`teamwright teams`: lists teams, their members, and whether a lead is running."""

import os
import sys
from typing import Any

import anyio

from teamwright.core.data.team import Member, Team, config, iso
from teamwright.store.files.paths import Home, home_from
from teamwright.store.tables.mail import MailTable
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.teams import TeamTable
from teamwright.surfaces.commands.tables import print_json, print_table
from teamwright.tools.bounds import visible


def show_teams(*, as_json: bool) -> int:
    home = home_from(os.environ)
    found = anyio.run(_read, home) if home.state.exists() else []
    if as_json:
        print_json(found)
    elif not found:
        sys.stdout.write("no teams\n")
    else:
        rows = [[t["name"], t["state"], str(len(t["members"])), str(t["unread"]), t["description"]] for t in found]
        print_table([["TEAM", "LEAD", "MEMBERS", "UNREAD", "DESCRIPTION"], *rows])
        for team in found:
            sys.stdout.write("\n")
            _print_members(team)
    return 0


def _print_members(team: dict[str, Any]) -> None:
    sys.stdout.write(visible(f"{team['name']}, session {team['sessionId'] or 'none'}").replace("\n", " ") + "\n")
    cells = [
        [f"  {m['name']}", m["agentType"], m["state"], m["since"], m["backendType"], m["model"]]
        for m in team["members"]
    ]
    print_table([["  NAME", "KIND", "STATE", "SINCE", "RUNS", "MODEL"], *cells])


async def _read(home: Home) -> list[dict[str, Any]]:
    state = await StateStore.open(home.state)
    try:
        processes = ProcessTable(state.database, home.run)
        teams, mail = TeamTable(state.database, processes), MailTable(state.database)
        found: list[dict[str, Any]] = []
        for team in await teams.teams():
            members = await teams.members(team.name)
            unread = sum([await mail.unread(member.agent) for member in members])
            led = team.process is not None and processes.alive(team.process)
            found.append(_record(team, members) | {"state": "led" if led else "lead gone", "unread": unread})
        return found
    finally:
        await state.close()


def _record(team: Team, members: list[Member]) -> dict[str, Any]:
    """The words of `config.json`, with those who have shut down."""
    record = config(team, members)
    gone = [m for m in members if m.state == "shutdown"]
    listed = [*record["members"], *({"name": m.name, "agentId": m.address} | _short(m) for m in gone)]
    since = {m.name: iso(m.since) for m in members}
    return record | {"sessionId": team.session, "members": [m | {"since": since[m["name"]]} for m in listed]}


def _short(member: Member) -> dict[str, Any]:
    return {"agentType": member.kind, "state": member.state, "backendType": member.backend, "model": member.model}
