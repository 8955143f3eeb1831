"""Acts on the members of teams."""

import sqlite3
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.crashpoint import crashpoint
from teamwright.core.data.team import (
    LEAD_NAME,
    Backend,
    Mail,
    Member,
    Moved,
    Refused,
    State,
    may_follow,
    next_color,
    safe_name,
)
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId
from teamwright.core.policies.authority import Demand, demand_mail
from teamwright.store.acts.act import Context
from teamwright.store.tables.mail_insert import LIMITS, MailLimits, abandon, post, release_reports
from teamwright.store.tables.rounds import note_team_progress
from teamwright.store.tables.rows.agents import NewAgent, agent_number, insert_agent
from teamwright.store.tables.rows.processes import lease_epoch
from teamwright.store.tables.rows.remotes import place_waiting
from teamwright.store.tables.rows.teams import (
    IN_TEAM,
    MEMBER,
    add_member,
    find_member,
    find_team,
    read_member,
    roster,
    team_number,
)

_encoder = msgspec.json.Encoder()
_AT_WORK = """
    SELECT 1 FROM members
    WHERE team = (SELECT n FROM teams WHERE name = ?) AND state = 'running' AND name <> ? LIMIT 1
"""


class AddMember(Struct, frozen=True):
    """Add a member with a name and a color of its own, its agent's row and its first mail: all or nothing.

    A name that a living member has gets `-2`; the name of one that has shut down is free again. A known key returns the
    member that it made.
    """

    draft: Member
    agent: NewAgent | None = None
    first: Mail | None = None  # to the draft's name; it is sent to the name that the member gets
    key: str | None = None
    limits: MailLimits = LIMITS

    def apply(self, db: sqlite3.Connection, ctx: Context) -> Member | Refused:
        if self.key is not None and (made := find_member(db, "members.key = ?", (self.key,))) is not None:
            return made
        if find_team(db, "teams.name = ?", self.draft.team) is None:
            return Refused("no_team", f"There is no team {self.draft.team}. TeamCreate makes one.")
        member = _made_distinct(db, self.draft, ctx.now)
        if self.agent is not None:
            insert_agent(db, replace(self.agent, name=member.name))
        add_member(db, member, self.key)
        note_team_progress(db, member.team)
        crashpoint("team.member")
        if self.first is not None:
            stored = post(db, replace(self.first, to_name=member.name), self.limits, ctx.now)
            if isinstance(stored, Refused):
                raise StoreError(stored.reason)
        return member


class SetState(Struct, frozen=True):
    """Change a member's state, along the diagram and, with `epoch`, only for the process that still runs the agent.

    What a member has not read when it shuts down becomes undeliverable. `mail` tells of the change: its reader finds
    the new state.
    """

    team: str
    agent: AgentId
    new: State
    epoch: int | None = None
    why: str = ""
    mail: Mail | None = None
    limits: MailLimits = LIMITS

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return demand_mail((self.mail,), self.agent)

    def apply(self, db: sqlite3.Connection, ctx: Context) -> Moved | Refused:
        team, agent, new = self.team, self.agent, self.new
        found = db.execute(f"{MEMBER} {IN_TEAM}", (agent, team)).fetchone()
        if found is None:
            return Refused("no_member", f"Agent {agent} is not a member of team {team}.")
        before: State = found[1]
        if self.epoch is not None and lease_epoch(db, agent) != self.epoch:
            return Refused("fenced", f"Agent {agent} is run by another process by now.")
        if before == new:
            return Moved(before, new)
        if not may_follow(before, new):
            return Refused("not_allowed", f"A member that is {before} cannot become {new}.")
        db.execute("UPDATE members SET state = ?, since = ? WHERE n = ?", (new, ctx.now, found[3]))
        crashpoint("team.state")
        if self.mail is not None:
            post(db, self.mail, self.limits, ctx.now)
        if new == "shutdown":
            abandon(db, agent_number(db, agent), team_number(db, team), self.why)
        if new != "running" and db.execute(_AT_WORK, (team, LEAD_NAME)).fetchone() is None:
            release_reports(db, team)
        if ctx.keeps_dead and new != "running":  # on its worker another one may work now
            place_waiting(db, ctx.now)
        return Moved(before, new)


class PlaceMember(Struct, frozen=True):
    """Set where a member runs."""

    team: str
    agent: AgentId
    backend: Backend
    pane: dict[str, Any] | None

    def apply(self, db: sqlite3.Connection, ctx: Context) -> Member | Refused:
        return _rewrite(db, self.team, self.agent, backend=self.backend, pane=self.pane)


class NoteTrouble(Struct, frozen=True):
    """Why the process that was to run a member could not; empty: that is over."""

    team: str
    agent: AgentId
    why: str

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        _rewrite(db, self.team, self.agent, trouble=self.why)


def _rewrite(db: sqlite3.Connection, team: str, agent: AgentId, **fields: Any) -> Member | Refused:
    row = db.execute(f"{MEMBER} {IN_TEAM}", (agent, team)).fetchone()
    if row is None:
        return Refused("no_member", f"Agent {agent} is not a member of team {team}.")
    member = replace(read_member(row), **fields)
    db.execute("UPDATE members SET record = ? WHERE n = ?", (_encoder.encode(member), row[3]))
    return member


def _made_distinct(db: sqlite3.Connection, draft: Member, at: int) -> Member:
    """A new member with a name that no living one has, and the color that they use least."""
    living = [m for m in roster(db, draft.team) if m.state != "shutdown"]
    name = safe_name(draft.name, [m.name for m in living])
    color = draft.color or next_color(m.color for m in living)
    return replace(draft, name=name, color=color, joined_at=at, state="created", since=at)
