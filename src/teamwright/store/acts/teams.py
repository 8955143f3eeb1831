"""Acts on teams and the lead's lease."""

import sqlite3

from msgspec import Struct

from teamwright.core.crashpoint import crashpoint
from teamwright.core.data.team import Member, ProcessId, Refused, Team, safe_name
from teamwright.core.ids import AgentId
from teamwright.store.acts.act import Context
from teamwright.store.tables.rows.agents import agent_number
from teamwright.store.tables.rows.processes import find_lease, process_number
from teamwright.store.tables.rows.teams import (
    add_member,
    as_lead,
    find_team,
    must,
    next_turn,
    replace_lead,
    roster,
    team_number,
)


class Deleted(Struct, frozen=True):
    """A deleted team. `idle` are its members that had not shut down: the processes that run them end them."""

    idle: tuple[Member, ...]


class CreateTeam(Struct, frozen=True):
    """Make a team: `lead` is its first member and `process` has its lease. The name of another lead's team gets a
    number. A known key returns the team that it made."""

    name: str
    description: str
    lead: Member
    process: ProcessId
    key: str | None = None

    def apply(self, db: sqlite3.Connection, ctx: Context) -> Team | Refused:
        safe = safe_name(self.name, empty="team")
        if self.key is not None and (made := find_team(db, "teams.key = ?", self.key)) is not None:
            return made
        if (known := find_team(db, "teams.name = ?", safe)) is not None:
            if known.lead == self.lead.agent:
                words = (
                    f"There is a team {safe} already, and you lead it: go on with it, or end it with TeamDelete first."
                )
                return Refused("team_exists", words)
            safe = safe_name(safe, [name for (name,) in db.execute("SELECT name FROM teams")])
        lead, process = agent_number(db, self.lead.agent), process_number(db, self.process)
        sql = "INSERT INTO teams (name, description, lead, process, epoch, created, key) VALUES (?, ?, ?, ?, 1, ?, ?)"
        db.execute(sql, (safe, self.description, lead, process, ctx.now, self.key))
        db.execute("DELETE FROM removed_teams WHERE name = ?", (safe,))
        add_member(db, as_lead(self.lead, safe, ctx.now), None)
        return must(find_team(db, "teams.name = ?", safe))


class DeleteTeam(Struct, frozen=True):
    """Delete a team; refused while members work. Its mail and requests go too; letters stay with their readers."""

    name: str
    epoch: int | None = None
    key: str | None = None

    def apply(self, db: sqlite3.Connection, ctx: Context) -> Deleted | Refused:
        team = find_team(db, "teams.name = ?", self.name)
        if team is None:
            return _no_team(self.name)
        if self.epoch is not None and team.epoch != self.epoch:
            return Refused("fenced", f"Team {self.name} has another lead by now.")
        others = [m for m in roster(db, self.name) if not m.is_lead]
        if busy := [m.name for m in others if m.state in ("created", "running")]:
            return Refused(
                "members_running", f"These still work: {', '.join(busy)}. Ask them to shut down first, then delete."
            )
        _delete(db, team, ctx)
        if self.key is not None:
            words = f"The team {team.name} had been deleted before the program ended."
            db.execute("INSERT OR IGNORE INTO calls (key, result) VALUES (?, ?)", (self.key, words))
        return Deleted(tuple(others))


class DeleteLeftTeam(Struct, frozen=True):
    """Delete a team that nobody leads, with its tasks, in whatever state its members were left.

    Refused while its lead or a member runs.
    """

    name: str

    def apply(self, db: sqlite3.Connection, ctx: Context) -> Deleted | Refused:
        name, team = self.name, find_team(db, "teams.name = ?", self.name)
        if team is None:
            return _no_team(name)
        if team.process is not None and ctx.alive(team.process):
            return Refused(
                "held", f"Team {name} has a lead that runs. End that session first, or ask the lead to delete it."
            )
        others = [member for member in roster(db, name) if not member.is_lead]
        if busy := [member.name for member in others if _is_run(db, member.agent, ctx)]:
            return Refused("members_running", f"These still run: {', '.join(busy)}. End their processes first.")
        _delete(db, team, ctx)
        db.execute("DELETE FROM task_lists WHERE name = ?", (name,))
        return Deleted(tuple(others))


class ClearTeam(Struct, frozen=True):
    """The files of a deleted team are gone."""

    name: str

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        db.execute("DELETE FROM removed_teams WHERE name = ?", (self.name,))


class TakeOverTeam(Struct, frozen=True):
    """Lead a team whose lead's process is gone. `current`: make it the agent's current team."""

    name: str
    lead: Member
    process: ProcessId
    current: bool = True

    def apply(self, db: sqlite3.Connection, ctx: Context) -> Team | Refused:
        name, process = self.name, self.process
        team = find_team(db, "teams.name = ?", name)
        if team is None:
            return Refused("no_team", f"There is no team {name}. `teamwright teams` lists them.")
        mine = team.process == process and team.lead == self.lead.agent
        if team.process is not None and team.process != process and ctx.alive(team.process):
            return Refused("held", f"Team {name} has a lead whose process lives. End that one first.")
        if not mine:
            sql = "UPDATE teams SET process = ?, epoch = epoch + 1 WHERE name = ?"
            db.execute(sql, (process_number(db, process), name))
        if team.lead != self.lead.agent:
            replace_lead(db, team, as_lead(self.lead, team.name, ctx.now), ctx.now)
        if self.current:
            sql = "UPDATE members SET turn = ? WHERE team = ? AND agent = ?"
            db.execute(sql, (next_turn(db), team_number(db, name), agent_number(db, self.lead.agent)))
        crashpoint("team.take_over")
        return must(find_team(db, "teams.name = ?", name))


def _no_team(name: str) -> Refused:
    return Refused("no_team", f"There is no team {name}.")


def _delete(db: sqlite3.Connection, team: Team, ctx: Context) -> None:
    if ctx.keeps_dead:  # workers end their members themselves
        db.execute("UPDATE remotes SET state = 'ended' WHERE team = ? AND worker IS NULL", (team.name,))
        db.execute("UPDATE remotes SET state = 'stopping' WHERE team = ? AND state <> 'ended'", (team.name,))
    db.execute("DELETE FROM teams WHERE name = ?", (team.name,))
    db.execute("INSERT OR IGNORE INTO removed_teams (name) VALUES (?)", (team.name,))


def _is_run(db: sqlite3.Connection, agent: AgentId, ctx: Context) -> bool:
    lease = find_lease(db, agent)
    return lease is not None and lease.process is not None and ctx.alive(lease.process)
