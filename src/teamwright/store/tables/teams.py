"""Teams, their rosters, the states of members and the lead's lease."""

import sqlite3
from collections.abc import Callable, Collection
from functools import partial

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.crashpoint import crashpoint
from teamwright.core.data.letter import Letter, is_quiet
from teamwright.core.data.team import (
    LEAD_NAME,
    Mail,
    Member,
    Moved,
    ProcessId,
    Refused,
    State,
    Team,
    may_follow,
    next_color,
    safe_name,
)
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, CallId
from teamwright.store.db.database import Database
from teamwright.store.db.statements import change, fetch_all
from teamwright.store.tables.jobs import NewAgent, insert_agent
from teamwright.store.tables.mail_insert import LIMITS, MailLimits, abandon, post
from teamwright.store.tables.processes import ProcessTable, lease_epoch, process_number
from teamwright.store.tables.rounds import note_team_progress
from teamwright.store.tables.state import agent_number, now_ms
from teamwright.store.tables.team_rows import (
    IN_TEAM,
    MEMBER,
    TEAM,
    add_member,
    as_lead,
    current_teams,
    find_member,
    find_team,
    latest,
    must,
    next_turn,
    read_member,
    replace_lead,
    roster,
    team_number,
)

_encoder = msgspec.json.Encoder()
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


class Deleted(Struct, frozen=True):
    """A team that is gone. `idle` are its members that had not shut down: the processes that run them end them."""

    idle: tuple[Member, ...]


class TeamTable:
    def __init__(
        self, database: Database, processes: ProcessTable, now: Callable[[], int] = now_ms, limits: MailLimits = LIMITS
    ) -> None:
        self._db, self._limits = database, limits
        self._processes = processes
        self._now = now

    # --- teams

    async def create_team(
        self, name: str, description: str, lead: Member, process: ProcessId, *, key: str | None = None
    ) -> Team | Refused:
        """`lead` is its first member and `process` has its lease. The same key again: the team that it made."""
        at, safe = self._now(), safe_name(name, empty="team")

        def work(db: sqlite3.Connection) -> Team | Refused:
            if key is not None and (made := find_team(db, "teams.key = ?", key)) is not None:
                return made
            if find_team(db, "teams.name = ?", safe) is not None:
                return Refused(
                    "team_exists", f"There is a team {safe} already. Choose another name, or delete it (TeamDelete)."
                )
            number = agent_number(db, lead.agent)
            db.execute(
                """
                INSERT INTO teams (name, description, lead, process, epoch, created, key) VALUES (?, ?, ?, ?, 1, ?, ?)
                """,
                (safe, description, number, process_number(db, process), at, key),
            )
            db.execute("DELETE FROM removed_teams WHERE name = ?", (safe,))
            add_member(db, as_lead(lead, safe, at), None)
            return must(find_team(db, "teams.name = ?", safe))

        return await self._db.write(work)

    async def delete_team(self, name: str, *, epoch: int | None = None, key: str | None = None) -> Deleted | Refused:
        """Refused while members work. Its mail and requests go with it; letters stay with their readers."""

        def work(db: sqlite3.Connection) -> Deleted | Refused:
            team = find_team(db, "teams.name = ?", name)
            if team is None:
                return Refused("no_team", f"There is no team {name}.")
            if epoch is not None and team.epoch != epoch:
                return Refused("fenced", f"Team {name} has another lead by now.")
            others = [m for m in roster(db, name) if not m.is_lead]
            if busy := [m.name for m in others if m.state in ("created", "running")]:
                return Refused(
                    "members_running", f"These still work: {', '.join(busy)}. Ask them to shut down first, then delete."
                )
            db.execute("DELETE FROM teams WHERE name = ?", (name,))
            db.execute("INSERT OR IGNORE INTO removed_teams (name) VALUES (?)", (team.name,))
            if key is not None:
                words = f"The team {team.name} had been deleted before the program ended."
                db.execute("INSERT OR IGNORE INTO calls (key, result) VALUES (?, ?)", (key, words))
            return Deleted(tuple(others))

        return await self._db.write(work)

    async def delete_left(self, name: str) -> Deleted | Refused:
        """A team that nobody leads, in whatever state its members were left, with its tasks.

        Never one whose lead or member runs: the check and the change are one transaction.
        """

        def work(db: sqlite3.Connection) -> Deleted | Refused:
            team = find_team(db, "teams.name = ?", name)
            if team is None:
                return Refused("no_team", f"There is no team {name}.")
            if team.process is not None and self._processes.alive(team.process):
                return Refused(
                    "held", f"Team {name} has a lead that runs. End that session first, or ask the lead to delete it."
                )
            others = [member for member in roster(db, name) if not member.is_lead]
            if busy := [member.name for member in others if self._is_run(db, member.agent)]:
                return Refused("members_running", f"These still run: {', '.join(busy)}. End their processes first.")
            db.execute("DELETE FROM teams WHERE name = ?", (name,))
            db.execute("DELETE FROM task_lists WHERE name = ?", (name,))
            db.execute("INSERT OR IGNORE INTO removed_teams (name) VALUES (?)", (team.name,))
            return Deleted(tuple(others))

        return await self._db.write(work)

    def _is_run(self, db: sqlite3.Connection, agent: AgentId) -> bool:
        sql = """
            SELECT processes.id FROM leases JOIN processes ON processes.n = leases.process
            WHERE leases.agent = (SELECT n FROM agents WHERE id = ?)
        """
        found = db.execute(sql, (agent,)).fetchone()
        return found is not None and self._processes.alive(found[0])

    async def take_over(self, name: str, lead: Member, process: ProcessId, *, current: bool = True) -> Team | Refused:
        """Lead a team whose lead's process is gone. Never two: the check and the change are one transaction.

        First mark as delivered what the former lead's transcript holds: what is unread then goes to the new one.
        `current`: it becomes the current team of the agent.
        """
        at = self._now()

        def work(db: sqlite3.Connection) -> Team | Refused:
            team = find_team(db, "teams.name = ?", name)
            if team is None:
                return Refused("no_team", f"There is no team {name}. `teamwright teams` lists them.")
            mine = team.process == process and team.lead == lead.agent
            if team.process is not None and team.process != process and self._processes.alive(team.process):
                return Refused("held", f"Team {name} has a lead whose process lives. End that one first.")
            if not mine:
                sql = "UPDATE teams SET process = ?, epoch = epoch + 1 WHERE name = ?"
                db.execute(sql, (process_number(db, process), name))
            if team.lead != lead.agent:
                replace_lead(db, team, as_lead(lead, team.name, at), at)
            if current:
                sql = "UPDATE members SET turn = ? WHERE team = ? AND agent = ?"
                db.execute(sql, (next_turn(db), team_number(db, name), agent_number(db, lead.agent)))
            crashpoint("team.take_over")
            return must(find_team(db, "teams.name = ?", name))

        return await self._db.write(work)

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
        await self._db.write(change("DELETE FROM removed_teams WHERE name = ?", (name,)))

    # --- members

    async def add_member(
        self,
        draft: Member,
        *,
        agent: NewAgent | None = None,
        first: Callable[[Member], Mail] | None = None,
        key: str | None = None,
    ) -> Member | Refused:
        """A member with a name and a colour of its own, its agent's row and its first mail: all or nothing.

        A name that a living member has gets `-2`; that of one that has shut down is given again. The same key again:
        the member that it made.
        """
        at = self._now()

        def work(db: sqlite3.Connection) -> Member | Refused:
            if key is not None and (made := find_member(db, "members.key = ?", (key,))) is not None:
                return made
            if find_team(db, "teams.name = ?", draft.team) is None:
                return Refused("no_team", f"There is no team {draft.team}. TeamCreate makes one.")
            member = _made_distinct(db, draft, at)
            if agent is not None:
                insert_agent(db, replace(agent, name=member.name))
            add_member(db, member, key)
            note_team_progress(db, member.team)
            crashpoint("team.member")
            if first is not None and isinstance(refused := post(db, first(member), self._limits, at), Refused):
                raise StoreError(refused.reason)
            return member

        return await self._db.write(work)

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
        return await self._db.write(self._moving(team, agent, new, epoch, why, mail))

    def runs_soon(self, team: str, agent: AgentId, *, epoch: int) -> None:
        """It works from now on: stored with the next commit, which is that of its request at the latest."""
        self._db.write_soon(self._moving(team, agent, "running", epoch))

    def _moving(
        self, team: str, agent: AgentId, new: State, epoch: int | None, why: str = "", mail: Mail | None = None
    ) -> Callable[[sqlite3.Connection], Moved | Refused]:
        at = self._now()

        def work(db: sqlite3.Connection) -> Moved | Refused:
            found = db.execute(f"{MEMBER} {IN_TEAM}", (agent, team)).fetchone()
            if found is None:
                return Refused("no_member", f"Agent {agent} is not a member of team {team}.")
            before: State = found[1]
            if epoch is not None and lease_epoch(db, agent) != epoch:
                return Refused("fenced", f"Agent {agent} is run by another process by now.")
            if before == new:
                return Moved(before, new)
            if not may_follow(before, new):
                return Refused("not_allowed", f"A member that is {before} cannot become {new}.")
            db.execute("UPDATE members SET state = ?, since = ? WHERE n = ?", (new, at, found[3]))
            crashpoint("team.state")
            if mail is not None:
                post(db, mail, self._limits, at)
            lost = abandon(db, agent_number(db, agent), team_number(db, team), why) if new == "shutdown" else []
            return Moved(before, new, tuple(lost))

        return work

    async def amend(self, team: str, agent: AgentId, change: Callable[[Member], Member]) -> Member | Refused:
        """Change what is known of a member (its pane, worktree, model); name and state stay as they are."""

        def work(db: sqlite3.Connection) -> Member | Refused:
            row = db.execute(f"{MEMBER} {IN_TEAM}", (agent, team)).fetchone()
            if row is None:
                return Refused("no_member", f"Agent {agent} is not a member of team {team}.")
            old = read_member(row)
            new = replace(change(old), agent=old.agent, name=old.name, team=old.team, state=old.state, since=old.since)
            db.execute("UPDATE members SET record = ? WHERE n = ?", (_encoder.encode(new), row[3]))
            return new

        return await self._db.write(work)

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
        where = """
            members.team = (SELECT n FROM teams WHERE name = ?) AND members.name = ?
            ORDER BY state = 'shutdown', members.n DESC LIMIT 1
        """
        return await self._db.read(partial(find_member, where=where, values=(team, name)))


def _made_distinct(db: sqlite3.Connection, draft: Member, at: int) -> Member:
    """A new member with a name that no living one has, and a colour that they use least."""
    living = [m for m in roster(db, draft.team) if m.state != "shutdown"]
    name = safe_name(draft.name, [m.name for m in living])
    color = draft.color or next_color(m.color for m in living)
    return replace(draft, name=name, color=color, joined_at=at, state="created", since=at)


def _is_loud(letter: bytes) -> bool:
    try:
        return not is_quiet(_letters.decode(letter))
    except msgspec.DecodeError:
        return True  # its reader sets it aside
