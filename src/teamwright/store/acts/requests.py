"""Acts on requests between agents."""

import sqlite3
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.crashpoint import crashpoint
from teamwright.core.data.team import Mail, Refused, RequestId, TeamRequest
from teamwright.core.ids import AgentId
from teamwright.core.policies.authority import Demand, demand_mail
from teamwright.store.acts.act import Context
from teamwright.store.tables.mail_insert import LIMITS, MailLimits, post
from teamwright.store.tables.rows.agents import agent_number
from teamwright.store.tables.rows.requests import find_request

_encoder = msgspec.json.Encoder()


class PostRequest(Struct, frozen=True):
    """Store a request along with the letter that shows it. A known key returns the request that it made."""

    request: TeamRequest
    mail: Mail | None = None
    key: str | None = None
    limits: MailLimits = LIMITS

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return demand_mail((self.mail,), self.request.asker)

    def apply(self, db: sqlite3.Connection, ctx: Context) -> TeamRequest | Refused:
        new = self.request
        if self.key is not None and (made := find_request(db, "requests.key = ?", self.key)) is not None:
            return made
        team = db.execute("SELECT n FROM teams WHERE name = ?", (new.team,)).fetchone()
        if team is None:
            return Refused("no_team", f"There is no team {new.team}: it was deleted.")
        if self.mail is not None and isinstance(refused := post(db, self.mail, self.limits, ctx.now), Refused):
            return refused
        sides = (agent_number(db, new.asker), agent_number(db, new.answerer))
        sql = """
            INSERT INTO requests (id, kind, team, asker, answerer, body, asked_at, state, key)
            VALUES (?, ?, ?, ?, ?, ?, ?, 'open', ?)
        """
        db.execute(sql, (new.id, new.kind, team[0], *sides, _encoder.encode(new.body), ctx.now, self.key))
        crashpoint("request.open")
        return replace(new, asked_at=ctx.now, state="open")


class AnswerRequest(Struct, frozen=True):
    """Answer a request; the first answer counts. One that comes after the time limit is refused, but kept with the
    request."""

    id: RequestId
    by: AgentId
    answer: dict[str, Any]
    mail: Mail | None = None
    limits: MailLimits = LIMITS

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand | None:
        found = find_request(db, "requests.id = ?", self.id)
        if found is not None and found.kind == "permission":
            return None
        return demand_mail((self.mail,), self.by)

    def apply(self, db: sqlite3.Connection, ctx: Context) -> TeamRequest | Refused:
        id, found = self.id, find_request(db, "requests.id = ?", self.id)
        if found is None:
            return Refused("unknown_request", f"There is no request {id}. Use the id of the message that asked.")
        if found.answerer != self.by:
            return Refused("not_yours", f"Request {id} was not put to you, so you cannot answer it.")
        if found.state == "answered" or found.answer is not None:
            return Refused("answered", f"Request {id} has been answered already; the first answer counts.")
        sql = "UPDATE requests SET answer = ?, answered_at = ?, state = ? WHERE id = ?"
        late = found.state == "expired"
        db.execute(sql, (_encoder.encode(self.answer), ctx.now, "expired" if late else "answered", id))
        crashpoint("request.answer")
        if late:
            return Refused("expired", f"Request {id} had expired before this answer came; it is only kept.")
        if self.mail is not None:  # an asker that has gone meanwhile does not undo the answer
            post(db, self.mail, self.limits, ctx.now)
        return replace(found, state="answered", answer=self.answer, answered_at=ctx.now)


class ExpireRequest(Struct, frozen=True):
    """Nobody answered in time. False if somebody did."""

    id: RequestId

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        found = find_request(db, "requests.id = ?", self.id)
        return Demand((found.asker,) if found else ())

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool:
        sql = "UPDATE requests SET state = 'expired' WHERE id = ? AND state = 'open'"
        return db.execute(sql, (self.id,)).rowcount > 0


class HandleAnswer(Struct, frozen=True):
    """The asker has acted on the answer, even a late one. False the second time."""

    id: RequestId

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        """A shutdown is handled by the agent that agreed to it, once it is gone."""
        found = find_request(db, "requests.id = ?", self.id)
        if found is None:
            return Demand()
        return Demand((found.answerer if found.kind == "shutdown" else found.asker,))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool:
        sql = "UPDATE requests SET handled = 1 WHERE id = ? AND handled = 0 AND answer IS NOT NULL"
        return db.execute(sql, (self.id,)).rowcount > 0
