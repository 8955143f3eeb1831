"""Acts on mail: sending it, what becomes of it, and how often a team has gone round."""

import sqlite3

from msgspec import Struct

from teamwright.core.data.team import Mail, Refused
from teamwright.core.ids import AgentId, LetterId
from teamwright.core.policies.authority import Demand, demand_mail
from teamwright.store.acts.act import Context
from teamwright.store.tables.mail_insert import ASIDE, LIMITS, MailLimits, Stored, post, release_reports, set_aside
from teamwright.store.tables.rounds import note_progress, tell_of_rounds
from teamwright.store.tables.rows.agents import readers_of

ATTEMPTS = 3  # after these a message that cannot be handled is a dead letter


class PostMail(Struct, frozen=True):
    """Each is stored or refused by itself. For a known id nothing is stored, and the first answer is given again."""

    mails: tuple[Mail, ...]
    limits: MailLimits = LIMITS

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return demand_mail(self.mails)

    def apply(self, db: sqlite3.Connection, ctx: Context) -> list[Stored | Refused]:
        return [post(db, mail, self.limits, ctx.now) for mail in self.mails]


class FailMail(Struct, frozen=True):
    """An attempt to handle these has failed. Returns the dead letters among them, set aside after the third attempt."""

    letters: tuple[LetterId, ...]
    why: str

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand(readers_of(db, self.letters))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> list[LetterId]:
        dead: list[LetterId] = []
        for id in self.letters:
            sql = "UPDATE mail SET attempts = attempts + 1 WHERE id = ? AND state = 'stored' RETURNING n, attempts"
            row = db.execute(sql, (id,)).fetchone()
            if row is not None and row[1] >= ATTEMPTS:
                set_aside(db, row[0], "dead", self.why)
                dead.append(id)
        return dead


class DropLetters(Struct, frozen=True):
    """Set aside letters that are no mail and cannot be handled. They are kept, but handed to nobody. Returns those that
    waited."""

    letters: tuple[LetterId, ...]

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand(readers_of(db, self.letters))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> list[LetterId]:
        sql = "UPDATE letters SET delivered_at = ? WHERE id = ? AND delivered_at IS NULL"
        return [id for id in self.letters if db.execute(sql, (ASIDE, id)).rowcount]


class MarkTold(Struct, frozen=True):
    """Lead and sender have been told that these failed."""

    letters: tuple[LetterId, ...]

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        db.executemany("UPDATE mail SET told = 1 WHERE id = ?", [(id,) for id in self.letters])


class NoteWork(Struct, frozen=True):
    """The agent has used a tool for more than talking."""

    agent: AgentId

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand((self.agent,))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        for side in "ab":
            db.execute(f"DELETE FROM volleys WHERE {side} = (SELECT n FROM agents WHERE id = ?)", (self.agent,))  # noqa: S608


class NoteProgress(Struct, frozen=True):
    """The agent has changed something, or a person has spoken to it."""

    agent: AgentId

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand((self.agent,))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        note_progress(db, self.agent)


class TellOfRounds(Struct, frozen=True):
    """The number of rounds, if there may be no more, the first time since something was done; else 0."""

    team: str
    each: int

    def apply(self, db: sqlite3.Connection, ctx: Context) -> int:
        return tell_of_rounds(db, self.team, self.each)


class ReleaseReports(Struct, frozen=True):
    """Nobody works: reports that waited for that wake the lead."""

    team: str

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        release_reports(db, self.team)
