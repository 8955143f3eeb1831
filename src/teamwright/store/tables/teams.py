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
from teamwright.store.acts.members import AddMember, PlaceMember, SetState
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
    """Under which a team or a member is found again by the call that made it."""
    return f"{agent}/{call}"


class StoredRoster(Struct, frozen=True):
    """In the order they joined; for a name that was given again the last incarnation only."""

    members: list[Member]
    teams: dict[AgentId, list[str]]  # of each that has not shut down, the current one first


class Unrest(Struct, frozen=True):
    mates: bool  # one of them works, or has not read something
    lead: bool  # it has not read something that would start a turn


class TeamTable:
    def __init__(self, database: Database, limits: MailLimits = LIMITS) -> None:
        self._db, self._limits = database, limits

    # --- teams

    async def create_team(
        self, name: str, description: str, lead: Member, process: ProcessId, *, key: str | None = None
    ) -> Team | Refused:
        """`lead` is its first member and `process` has its lease. The same key again: the team that it made."""
        return await self._db.write(CreateTeam(name, description, lead, process, key))

    async def delete_team(self, name: str, *, epoch: int | None = None, key: str | None = None) -> Deleted | Refused:
        """Refused while members work. Its mail and requests go with it; letters stay with their readers."""
        return await self._db.write(DeleteTeam(name, epoch, key))

    async def delete_left(self, name: str) -> Deleted | Refused:
        """A team that nobody leads, in whatever state its members were left, with its tasks.

        Never one whose lead or member runs: the check and the change are one transaction.
        """
        return await self._db.write(DeleteLeftTeam(name))

    async def take_over(self, name: str, lead: Member, process: ProcessId, *, current: bool = True) -> Team | Refused:
        """Lead a team whose lead's process is gone. Never two: the check and the change are one transaction.

        First mark as delivered what the former lead's transcript holds: what is unread then goes to the new one.
        `current`: it becomes the current team of the agent.
        """
        return await self._db.write(TakeOverTeam(name, lead, process, current))

    async def team(self, name: str) -> Team | None:
        return await self._db.read(partial(find_team, where="teams.name = ?", value=name))

    async def teams(self) -> list[Team]:
        """All, in the order they were made."""
        return [Team(*row[:-1]) for row in await self._db.read(fetch_all(f"{TEAM} ORDER BY teams.n"))]

    async def teams_of(self, agent: AgentId) -> list[Team]:
        """Those that an agent belongs to, the current one first."""
        sql = f"""
            {TEAM} JOIN members ON members.team = teams.n
            WHERE members.agent = (SELECT n FROM agents WHERE id = ?) AND state <> 'shutdown' ORDER BY turn DESC
        """  # noqa: S608
        return [Team(*row[:-1]) for row in await self._db.read(fetch_all(sql, (agent,)))]

    async def unrest(self, name: str, *, without: Collection[str] = ()) -> Unrest:
        """Who of a team has something left to do. One statement: nothing can slip from one part to the other."""
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
        """The agent and the call that made a team; empty if that is not known."""
        rows = await self._db.read(fetch_all("SELECT key FROM teams WHERE name = ?", (name,)))
        return str(rows[0][0] or "") if rows else ""

    async def made_by(self, agent: AgentId, call: CallId) -> str | None:
        """What a call that was in flight at a crash had made or ended, in words; None if it had done nothing."""
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
        """A member with a name and a colour of its own, its agent's row and its first mail: all or nothing.

        A name that a living member has gets `-2`; that of one that has shut down is given again. `first` is addressed
        to the draft, and sent to the name that the member gets. The same key again: the member that it made.
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
        """Along the diagram only, and with `epoch` only for the process that still runs the agent.

        What a member that shuts down has not read is undeliverable from then on. `mail` tells of the change: whoever
        reads it finds the new state.
        """
        return await self._db.write(SetState(team, agent, new, epoch, why, mail, self._limits))

    def runs_soon(self, team: str, agent: AgentId, *, epoch: int) -> None:
        """It works from now on: stored with the next commit, which is that of its request at the latest."""
        self._db.write_soon(SetState(team, agent, "running", epoch))

    async def set_place(
        self, team: str, agent: AgentId, backend: Backend, pane: dict[str, Any] | None
    ) -> Member | Refused:
        """Where a member runs; everything else stays as it is."""
        return await self._db.write(PlaceMember(team, agent, backend, pane))

    async def members(self, team: str) -> list[Member]:
        """In the order they joined; for a name that was given again the last incarnation only."""
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
        """By default in its current team, else in the last one that it was in."""
        where = """
            members.agent = (SELECT n FROM agents WHERE id = ?)
            AND (? IS NULL OR members.team = (SELECT n FROM teams WHERE name = ?))
            ORDER BY state = 'shutdown', turn DESC LIMIT 1
        """
        return await self._db.read(partial(find_member, where=where, values=(agent, team, team)))

    async def find(self, team: str, name: str) -> Member | None:
        """The living holder of a name, else the last one that had it."""
        return await self._db.read(partial(find_by_name, team=team, name=name))


def _is_loud(letter: bytes) -> bool:
    try:
        return not is_quiet(_letters.decode(letter))
    except msgspec.DecodeError:
        return True  # its reader sets it aside
