"""`teamwright inbox`: lists every message of a team in order, with the times of sending and reading."""

import os
import sys
from typing import Any

import anyio

from teamwright.core.data.team import iso, split_address
from teamwright.core.errors import UsageError
from teamwright.core.text import shown
from teamwright.store.files.paths import Home, home_from
from teamwright.store.tables.mail import MailEntry, MailTable
from teamwright.store.tables.teams import TeamTable
from teamwright.surfaces.commands.tables import local_time, print_json, print_table
from teamwright.surfaces.port.stored import opened_store
from teamwright.surfaces.view.letters import mail_words

_PAGE = 1000
_LONGEST = 20_000  # characters; longer records are not read


def show_inbox(team: str | None, agent: str | None, *, as_json: bool) -> int:
    """Messages of one team or all, to one agent or all. `NAME@TEAM` names both."""
    if team and agent is None and "@" in team:
        agent, team = split_address(team)
    home = home_from(os.environ)
    known, entries = anyio.run(_read, home, team) if home.state.exists() else ([], [])
    _check_team(team, known)
    found = entries if agent is None else [e for e in entries if e.to_name.casefold() == agent.casefold()]
    if agent is not None and not found:
        _check_agent(agent, entries)
    _print(found, as_json=as_json)
    return 0


def _print(found: list[MailEntry], *, as_json: bool) -> None:
    if as_json:
        print_json([_record(entry) for entry in found])
    elif not found:
        sys.stdout.write("no messages\n")
    else:
        several = len({entry.team for entry in found}) > 1
        print_table([["SENT", "READ", "FROM", "TO", "MESSAGE"], *(_row(entry, several=several) for entry in found)])


def _check_team(team: str | None, known: list[str]) -> None:
    if team and team.casefold() not in {name.casefold() for name in known}:
        raise UsageError(f"there is no team {team}; teams: {', '.join(known) or 'none'}")


def _check_agent(agent: str, entries: list[MailEntry]) -> None:
    """A name that never wrote or got a message is probably mistyped."""
    known = {name for entry in entries for name in (entry.from_name, entry.to_name)}
    if agent.casefold() not in {name.casefold() for name in known}:
        raise UsageError(f"nobody called {agent} has mail there; names: {', '.join(sorted(known)) or 'none'}")


def _row(e: MailEntry, *, several: bool) -> list[str]:
    to = f"{e.to_name}@{e.team}" if several else e.to_name
    return [local_time(e.sent_at), _read_at(e), e.from_name, to, e.reason or _line(e)]


def _read_at(e: MailEntry) -> str:
    """When it was read, or why not."""
    if e.delivered_at is None or e.state not in ("stored", "delivered"):
        return "unread" if e.state == "stored" else e.state
    day, _, clock = local_time(e.delivered_at).partition(" ")
    return clock if local_time(e.sent_at).startswith(day) else f"{day} {clock}"


async def _read(home: Home, team: str | None) -> tuple[list[str], list[MailEntry]]:
    async with opened_store(home) as state:
        teams = await TeamTable(state.database).teams()
        mail = MailTable(state.database)
        names = [t.name for t in teams]
        found: list[MailEntry] = []
        for name in [team] if team else names:
            since = 0
            while page := await mail.audit(name, since=since, most=_PAGE):
                found += page
                since = page[-1].n
        return names, sorted(found, key=lambda entry: entry.n)


def _record(entry: MailEntry) -> dict[str, Any]:
    record = {
        "team": entry.team,
        "id": entry.id,
        "from": entry.from_name,
        "to": entry.to_name,
        "text": entry.text,
        "timestamp": iso(entry.sent_at),
        "color": entry.color,
        "summary": entry.summary,
        "read": entry.delivered_at is not None,
        "sent_at": entry.sent_at,
        "delivered_at": entry.delivered_at,
        "state": entry.state,
    }
    return record | ({"reason": entry.reason} if entry.reason else {})


def _line(entry: MailEntry) -> str:
    """The message as the app shows it: a record becomes a sentence."""
    return entry.summary or shown(" ".join(mail_words(entry.text[:_LONGEST], "").split()), 200)
