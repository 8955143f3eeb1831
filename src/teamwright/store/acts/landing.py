"""Acts on the landing queue."""

import sqlite3

from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.landing import MOST_REASON, LandDraft, LandEntry, LandId, LandState
from teamwright.core.data.letters.landing import ready_mail, returned_letter, returned_mail
from teamwright.core.data.tasks import Hold, Task, TaskId
from teamwright.core.data.team import LEAD_NAME, Member
from teamwright.core.ids import AgentId
from teamwright.core.policies.authority import Demand
from teamwright.store.acts.act import Context
from teamwright.store.tables.mail_insert import LIMITS, post
from teamwright.store.tables.rows.agents import insert_letter
from teamwright.store.tables.rows.landing import find_entry, find_open, insert_entry, rewrite_entry, set_state
from teamwright.store.tables.rows.teams import IN_TEAM, find_by_name, find_member, is_member
from teamwright.store.tables.task_changes import change_task, find_task

_OWNER = "agent = (SELECT n FROM agents WHERE id = ?) AND team = (SELECT n FROM teams WHERE name = ?)"


class QueueBranch(Struct, frozen=True):
    """Queue a branch at this commit, and tell the lead of a member's team, unless it was queued for the member.

    A waiting entry of the same branch gets the new commit and keeps its place; one that is tried at this very commit is
    returned as it is.
    """

    draft: LandDraft
    told: bool = True

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand | None:
        agent = self.draft.agent
        return Demand((agent,), ((agent, self.draft.owner),)) if agent else None

    def apply(self, db: sqlite3.Connection, ctx: Context) -> LandEntry:
        draft = self.draft
        for known in find_open(db, draft):
            if known.draft == draft or (known.state == "trying" and known.draft.tip == draft.tip):
                return _placed(db, known)
            if known.state == "waiting":
                rewrite_entry(db, known.id, draft, ctx.now)
                return self._told(db, known.id, ctx)
        return self._told(db, insert_entry(db, draft, ctx.now), ctx)

    def _told(self, db: sqlite3.Connection, id: LandId, ctx: Context) -> LandEntry:
        draft, entry = self.draft, find_entry(db, id)
        assert entry is not None
        entry = _placed(db, entry)
        mine = self.told and draft.agent is not None and is_member(db, draft.team, draft.agent)
        lead = find_by_name(db, draft.team, LEAD_NAME) if mine else None
        if lead is not None and lead.agent != draft.agent:
            post(db, ready_mail(lead, entry), LIMITS, ctx.now)
        return entry


def _placed(db: sqlite3.Connection, entry: LandEntry) -> LandEntry:
    sql = "SELECT count(*) FROM landing WHERE repo = ? AND target = ? AND state IN ('waiting', 'trying') AND n <= ?"
    draft = entry.draft
    return replace(entry, place=db.execute(sql, (draft.repo, draft.target, entry.id)).fetchone()[0])


class ChangeLanding(Struct, frozen=True):
    """Move an entry from one state to another, or change only its words; None if it is in another state by now."""

    id: LandId
    before: LandState
    after: LandState
    reason: str = ""
    commit: str = ""

    def apply(self, db: sqlite3.Connection, ctx: Context) -> LandEntry | None:
        entry = find_entry(db, self.id)
        if entry is None or entry.state != self.before:
            return None
        return set_state(db, entry, self.after, self.reason[:MOST_REASON], self.commit, ctx.now)


class SentBack(Struct, frozen=True):
    """`told` is who has the letter, if anybody could be told; `member` is set if that is a team's member."""

    entry: LandEntry
    told: AgentId | None = None
    member: Member | None = None


class SendBack(Struct, frozen=True):
    """An entry did not land: tell its owner and open its task again, all or nothing. None: it is no longer tried."""

    id: LandId
    reason: str
    output: str = ""

    def apply(self, db: sqlite3.Connection, ctx: Context) -> SentBack | None:
        entry = find_entry(db, self.id)
        if entry is None or entry.state != "trying":
            return None
        member = _reader(db, entry.draft)
        reopened = _reopen(db, entry.draft, ctx.now)
        told = member.agent if member else _main_agent(db, entry.draft)
        if told is not None:
            letter = returned_letter(entry, self.reason, self.output, told, reopened=reopened)
            if member is not None:
                post(db, returned_mail(letter, member), LIMITS, ctx.now)
            else:
                insert_letter(db, letter, ctx.now)
        after = set_state(db, entry, "sent_back", self.reason[:MOST_REASON], entry.commit, ctx.now)
        return SentBack(after, told, member)


def _reader(db: sqlite3.Connection, draft: LandDraft) -> Member | None:
    """The owner, if it is a member that has not shut down; else the lead of its team."""
    if not draft.team:
        return None
    owner = find_member(db, _OWNER, (draft.agent, draft.team)) if draft.agent else None
    if owner is not None and owner.state != "shutdown":
        return owner
    lead = find_by_name(db, draft.team, LEAD_NAME)
    return lead if lead is not None and lead.state != "shutdown" else None


def _main_agent(db: sqlite3.Connection, draft: LandDraft) -> AgentId | None:
    row = db.execute("SELECT id FROM agents WHERE id = ?", (draft.session,)).fetchone()
    return AgentId(row[0]) if row else None


def _reopen(db: sqlite3.Connection, draft: LandDraft, now: int) -> bool:
    """Reopen the task, for its owner or, without one, for anybody. False: it was not completed, or is gone."""
    found = find_task(db, draft.list, TaskId(draft.task)) if draft.task is not None else None
    if found is None or found[1].status != "completed":
        return False
    n, task = found
    change_task(db, n, task, _hold(db, draft, task), now)
    return True


def _hold(db: sqlite3.Connection, draft: LandDraft, task: Task) -> Hold:
    lives = task.agent is not None and _lives(db, draft.team, task.agent)
    return Hold("in_progress", task.owner, task.agent) if lives else Hold("pending")


def _lives(db: sqlite3.Connection, team: str, agent: AgentId) -> bool:
    """Whether an owner can go on. Outside of a team it is the main agent or one that it started: the person can
    continue it."""
    if not team:
        return True
    row = db.execute(f"SELECT state FROM members {IN_TEAM}", (agent, team)).fetchone()  # noqa: S608
    return row is not None and row[0] != "shutdown"
