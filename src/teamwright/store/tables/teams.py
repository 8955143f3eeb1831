"""Teams, their rosters, the states of members and the lead's lease."""

import sqlite3
from collections.abc import Collection
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from teamwright.core.data.letter import Letter, is_quiet
from teamwright.core.data.team import LEAD_NAME, Backend, Mail, Member, Moved, ProcessId, Refused, State, Team
from teamwright.core.ids import AgentId, CallId
from teamwright.store.acts.members import AddMember, NoteTrouble, PlaceMember, SetState
from teamwright.store.acts.teams import ClearTeam, CreateTeam, Deleted, DeleteLeftTeam, DeleteTeam, TakeOverTeam
from teamwright.store.db.database import Database
from teamwright.store.db.statements import fetch_all
from teamwright.store.tables.mail_insert import LIMITS, MailLimits
from teamwright.store.tables.rows.agents import NewAgent
from teamwright.store.tables.rows.teams import (
    TEAM,
    current_teams,
    find_by_name,
    find_member,
    find_team,
    latest,
    roster,
)

_letters = msgspec.json.Decoder(Letter)


def call_key(agent: AgentId, call: CallId) -> str:
    """The key by which a team or a member is found again from the call that made it."""
    return f"{agent}/{call}"


class StoredRoster(Struct, frozen=True):
    """Members in the order in which they joined; of each name only the last incarnation."""

    members: list[Member]
    teams: dict[AgentId, list[str]]  # of each member that has not shut down, the current one first


class Unrest(Struct, frozen=True):
    mates: bool  # a teammate works, or has something unread
    lead: bool  # the lead has something unread that would start a turn


class TeamTable:
    def __init__(self, database: Database, limits: MailLimits = LIMITS) -> None:
        self._db, self._limits = database, limits

    # --- teams

    async def create_team(
        self, name: str, description: str, lead: Member, process: ProcessId, *, key: str | None = None
    ) -> Team | Refused:
        """Make a team: `lead` is its first member and `process` has its lease. A known key returns the team that it
        made."""
        return await self._db.write(CreateTeam(name, description, lead, process, key))

    async def delete_team(self, name: str, *, epoch: int | None = None, key: str | None = None) -> Deleted | Refused:
        """Refused while members work. Its mail and requests go with it; letters stay with their readers."""
        return await self._db.write(DeleteTeam(name, epoch, key))

    async def delete_left(self, name: str) -> Deleted | Refused:
        """Delete a team that nobody leads, with its tasks, in whatever state its members were left.

        Refused while its lead or a member runs: the check and the change are one transaction.
        """
        return await self._db.write(DeleteLeftTeam(name))

    async def take_over(self, name: str, lead: Member, process: ProcessId, *, current: bool = True) -> Team | Refused:
        """Lead a team whose lead's process is gone. It never gets two: the check and the change are one transaction.

        First mark as delivered what the former lead's transcript holds: what is unread then goes to the new lead.
        `current`: make it the agent's current team.
        """
        return await self._db.write(TakeOverTeam(name, lead, process, current))

    async def team(self, name: str) -> Team | None:
        return await self._db.read(partial(find_team, where="teams.name = ?", value=name))

    async def teams(self) -> list[Team]:
        """All teams, in the order in which they were made."""
        return [Team(*row[:-1]) for row in await self._db.read(fetch_all(f"{TEAM} ORDER BY teams.n"))]

    async def teams_of(self, agent: AgentId) -> list[Team]:
        """The teams that an agent belongs to, the current one first."""
        sql = f"""
            {TEAM} JOIN members ON members.team = teams.n
            WHERE members.agent = (SELECT n FROM agents WHERE id = ?) AND state <> 'shutdown' ORDER BY turn DESC
        """  # noqa: S608
        return [Team(*row[:-1]) for row in await self._db.read(fetch_all(sql, (agent,)))]

    async def unrest(self, name: str, *, without: Collection[str] = ()) -> Unrest:
        """Who in a team has something left to do. One statement, so that nothing slips from one part to the other."""
        sql = """
            SELECT members.name, state, NULL FROM members
            WHERE team = (SELECT n FROM teams WHERE name = :name) AND state <> 'shutdown'
            UNION ALL
            SELECT members.name, state, letters.letter FROM members
                JOIN letters ON letters.agent = members.agent AND letters.delivered_at IS NULL
            WHERE team = (SELECT n FROM teams WHERE name = :name) AND state <> 'shutdown'
        """
        rows = await self._db.read(fetch_all(sql, {"name": name}))
        rows = [row for row in rows if row[0] not in without]
        loud = {who for who, _, letter in rows if letter is not None and _is_loud(letter)}
        mates = any(who != LEAD_NAME and (who in loud or state != "idle") for who, state, _ in rows)
        return Unrest(mates, LEAD_NAME in loud)

    async def key_of(self, name: str) -> str:
        """The agent and the call that made a team; empty if unknown."""
        rows = await self._db.read(fetch_all("SELECT key FROM teams WHERE name = ?", (name,)))
        return str(rows[0][0] or "") if rows else ""

    async def made_by(self, agent: AgentId, call: CallId) -> str | None:
        """What a call in flight at a crash had made or ended, in words; None if it had done nothing."""
        key = call_key(agent, call)

        def work(db: sqlite3.Connection) -> str | None:
            if (team := find_team(db, "teams.key = ?", key)) is not None:
                return f"The team {team.name} had been created before the program ended."
            if (member := find_member(db, "members.key = ?", (key,))) is not None:
                return f"{member.address} had been made a member of the team before the program ended."
            ended = db.execute("SELECT result FROM calls WHERE key = ?", (key,)).fetchone()
            return ended[0] if ended else None

        return await self._db.read(work)

    async def removed(self) -> list[str]:
        """Names of deleted teams whose files may still be there."""
        return [name for (name,) in await self._db.read(fetch_all("SELECT name FROM removed_teams"))]

    async def cleared(self, name: str) -> None:
        """The files of a deleted team are gone."""
        await self._db.write(ClearTeam(name))

    # --- members

    async def add_member(
        self,
        draft: Member,
        *,
        agent: NewAgent | None = None,
        first: Mail | None = None,
        key: str | None = None,
    ) -> Member | Refused:
        """Add a member with a name and a color of its own, its agent's row and its first mail: all or nothing.

        A name that a living member has gets `-2`; the name of one that has shut down is free again. `first` is
        addressed to the draft, and sent to the name that the member gets. A known key returns the member that it made.
        """
        return await self._db.write(AddMember(draft, agent, first, key, self._limits))

    async def set_state(
        self,
        team: str,
        agent: AgentId,
        new: State,
        *,
        epoch: int | None = None,
        why: str = "it has shut down",
        mail: Mail | None = None,
    ) -> Moved | Refused:
        """Change a member's state, along the diagram and, with `epoch`, only for the process that still runs the agent.

        What a member has not read when it shuts down becomes undeliverable. `mail` tells of the change: its reader
        finds the new state.
        """
        return await self._db.write(SetState(team, agent, new, epoch, why, mail, self._limits))

    def runs_soon(self, team: str, agent: AgentId, *, epoch: int) -> None:
        """It works from now on. Stored with the next commit, which is that of its request at the latest."""
        self._db.write_soon(SetState(team, agent, "running", epoch))

    async def set_place(
        self, team: str, agent: AgentId, backend: Backend, pane: dict[str, Any] | None
    ) -> Member | Refused:
        """Set where a member runs; everything else stays as it is."""
        return await self._db.write(PlaceMember(team, agent, backend, pane))

    async def note_trouble(self, team: str, agent: AgentId, why: str) -> None:
        """Note for the lead's process why another one cannot run a member; empty: that is over."""
        await self._db.write(NoteTrouble(team, agent, why))

    async def members(self, team: str) -> list[Member]:
        """Members in the order in which they joined; of each name only the last incarnation."""
        found = await self._db.read(partial(roster, team=team))
        return latest(found)

    async def roster(self, team: str) -> StoredRoster | None:
        """The members, and the teams of each; None if there is no such team."""

        def work(db: sqlite3.Connection) -> StoredRoster | None:
            if find_team(db, "teams.name = ?", team) is None:
                return None
            return StoredRoster(latest(roster(db, team)), current_teams(db, team))

        return await self._db.read(work)

    async def member(self, agent: AgentId, team: str | None = None) -> Member | None:
        """A member in its current team by default, or else in the last one that it was in."""
        where = """
            members.agent = (SELECT n FROM agents WHERE id = ?)
            AND (? IS NULL OR members.team = (SELECT n FROM teams WHERE name = ?))
            ORDER BY state = 'shutdown', turn DESC LIMIT 1
        """
        return await self._db.read(partial(find_member, where=where, values=(agent, team, team)))

    async def find(self, team: str, name: str) -> Member | None:
        """The living holder of a name, or else the last one."""
        return await self._db.read(partial(find_by_name, team=team, name=name))


def _is_loud(letter: bytes) -> bool:
    try:
        return not is_quiet(_letters.decode(letter))
    except msgspec.DecodeError:
        return True  # its reader sets it aside
