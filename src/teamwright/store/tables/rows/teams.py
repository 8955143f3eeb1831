"""Rows of teams and members, read and written inside transactions."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from teamwright.core.data.team import LEAD_NAME, Member, Team, next_color
from teamwright.core.ids import AgentId
from teamwright.store.tables.mail_insert import forward
from teamwright.store.tables.rows.agents import agent_number

_encoder = msgspec.json.Encoder()
_members = msgspec.json.Decoder(Member)
TEAM = """
    SELECT teams.name, description, coalesce(agents.id, ''), teams.created, coalesce(sessions.id, ''), processes.id,
        epoch, teams.n
    FROM teams LEFT JOIN agents ON agents.n = lead LEFT JOIN sessions ON sessions.n = agents.session
        LEFT JOIN processes ON processes.n = teams.process
"""
MEMBER = "SELECT record, state, since, members.n FROM members"

IN_TEAM = """
    WHERE members.agent = (SELECT n FROM agents WHERE id = ?) AND members.team = (SELECT n FROM teams WHERE name = ?)
"""


def find_team(db: sqlite3.Connection, where: str, value: str) -> Team | None:
    row = db.execute(f"{TEAM} WHERE {where}", (value,)).fetchone()
    return Team(*row[:-1]) if row else None


def team_number(db: sqlite3.Connection, team: str) -> int:
    return db.execute("SELECT n FROM teams WHERE name = ?", (team,)).fetchone()[0]


def find_member(db: sqlite3.Connection, where: str, values: Sequence[object]) -> Member | None:
    row = db.execute(f"{MEMBER} WHERE {where}", values).fetchone()
    return read_member(row) if row else None


def find_by_name(db: sqlite3.Connection, team: str, name: str) -> Member | None:
    """The living holder of a name, or else the last one."""
    where = """
        members.team = (SELECT n FROM teams WHERE name = ?) AND members.name = ?
        ORDER BY state = 'shutdown', members.n DESC LIMIT 1
    """
    return find_member(db, where, (team, name))


def is_member(db: sqlite3.Connection, team: str, agent: AgentId) -> bool:
    return db.execute(f"SELECT 1 FROM members {IN_TEAM}", (agent, team)).fetchone() is not None  # noqa: S608


def roster(db: sqlite3.Connection, team: str) -> list[Member]:
    sql = f"{MEMBER} WHERE members.team = (SELECT n FROM teams WHERE name = ?) ORDER BY members.n"  # noqa: S608
    return [read_member(row) for row in db.execute(sql, (team,))]


def latest(members: Iterable[Member]) -> list[Member]:
    """Only the last incarnation of each name."""
    found: dict[str, Member] = {}
    for member in members:
        found.pop(member.name.casefold(), None)
        found[member.name.casefold()] = member
    return list(found.values())


def current_teams(db: sqlite3.Connection, team: str) -> dict[AgentId, list[str]]:
    """The teams of each member that has not shut down, the current one first."""
    sql = """
        SELECT agents.id, teams.name FROM members AS mine JOIN members ON members.agent = mine.agent
            JOIN agents ON agents.n = members.agent JOIN teams ON teams.n = members.team
        WHERE mine.team = (SELECT n FROM teams WHERE name = ?) AND mine.state <> 'shutdown'
            AND members.state <> 'shutdown'
        ORDER BY members.turn DESC
    """
    found: dict[AgentId, list[str]] = {}
    for agent, name in db.execute(sql, (team,)):
        found.setdefault(AgentId(agent), []).append(name)
    return found


def read_member(row: Sequence[Any]) -> Member:
    return replace(_members.decode(row[0]), state=row[1], since=row[2])


def add_member(db: sqlite3.Connection, member: Member, key: str | None) -> None:
    sql = "INSERT INTO members (team, agent, name, state, since, turn, record, key) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    team, agent = team_number(db, member.team), agent_number(db, member.agent)
    record = _encoder.encode(member)
    db.execute(sql, (team, agent, member.name, member.state, member.since, next_turn(db), record, key))


def next_turn(db: sqlite3.Connection) -> int:
    return db.execute("SELECT coalesce(max(turn), 0) + 1 FROM members").fetchone()[0]


def as_lead(member: Member, team: str, at: int) -> Member:
    color = member.color or next_color(())
    return replace(
        member, name=LEAD_NAME, team=team, color=color, state="running", since=at, joined_at=member.joined_at or at
    )


def replace_lead(db: sqlite3.Connection, team: Team, lead: Member, at: int) -> None:
    """Give the lead's address to another agent, along with what waits for the former lead: mail and questions."""
    number, agent = team_number(db, team.name), agent_number(db, lead.agent)
    db.execute("UPDATE teams SET lead = ? WHERE n = ?", (agent, number))
    sql = "SELECT agent FROM members WHERE team = ? AND name = ? AND state <> 'shutdown'"
    former = db.execute(sql, (number, LEAD_NAME)).fetchone()
    # An agent that led this team before, and lost it, comes back as a new incarnation of the address.
    db.execute("DELETE FROM members WHERE team = ? AND agent = ?", (number, agent))
    if former is not None:
        sql = "UPDATE members SET state = 'shutdown', since = ? WHERE team = ? AND agent = ?"
        db.execute(sql, (at, number, former[0]))
        forward(db, number, former[0], lead.agent)
        sql = "UPDATE requests SET {0} = ? WHERE team = ? AND {0} = ? AND handled = 0"
        for side in ("asker", "answerer"):
            db.execute(sql.format(side), (agent, number, former[0]))
    add_member(db, lead, None)


def must(team: Team | None) -> Team:
    assert team is not None
    return team
