"""Requests between agents (shutdown, plan, permission), each answered once and only by its addressee.

A person's interrupt for an agent in another process is a request too; that process answers it, not the agent.
"""

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from teamwright.core.crashpoint import crashpoint
from teamwright.core.data.team import Mail, Refused, RequestId, TeamRequest
from teamwright.core.ids import AgentId
from teamwright.store.db.database import Database
from teamwright.store.db.statements import change, fetch_all
from teamwright.store.tables.mail_insert import LIMITS, MailLimits, post
from teamwright.store.tables.state import agent_number, now_ms

_encoder = msgspec.json.Encoder()
_COLUMNS = """
    SELECT requests.id, requests.kind, teams.name, askers.id, answerers.id, body, asked_at, state, answer, answered_at,
        handled
    FROM requests JOIN teams ON teams.n = requests.team JOIN agents AS askers ON askers.n = asker
        JOIN agents AS answerers ON answerers.n = answerer
"""


class RequestTable:
    def __init__(self, database: Database, now: Callable[[], int] = now_ms, limits: MailLimits = LIMITS) -> None:
        self._db, self._limits = database, limits
        self._now = now

    async def open(
        self, request: TeamRequest, *, mail: Mail | None = None, key: str | None = None
    ) -> TeamRequest | Refused:
        """Stored together with the letter that shows it. The same key again: the request that it made."""
        at = self._now()

        def work(db: sqlite3.Connection) -> TeamRequest | Refused:
            if key is not None and (made := _find(db, "requests.key = ?", key)) is not None:
                return made
            team = db.execute("SELECT n FROM teams WHERE name = ?", (request.team,)).fetchone()
            if team is None:
                return Refused("no_team", f"There is no team {request.team}: it was deleted.")
            if mail is not None and isinstance(refused := post(db, mail, self._limits, at), Refused):
                return refused
            sides = (agent_number(db, request.asker), agent_number(db, request.answerer))
            sql = """
                INSERT INTO requests (id, kind, team, asker, answerer, body, asked_at, state, key)
                VALUES (?, ?, ?, ?, ?, ?, ?, 'open', ?)
            """
            db.execute(sql, (request.id, request.kind, team[0], *sides, _encoder.encode(request.body), at, key))
            crashpoint("request.open")
            return msgspec.structs.replace(request, asked_at=at, state="open")

        return await self._db.write(work)

    async def answer(
        self, id: RequestId, by: AgentId, answer: dict[str, Any], *, mail: Mail | None = None
    ) -> TeamRequest | Refused:
        """The first answer counts. One that comes after the time limit is refused, but kept with the request.

        `mail` shows the answer to the asker; an asker that has gone meanwhile does not undo it.
        """
        at = self._now()

        def work(db: sqlite3.Connection) -> TeamRequest | Refused:
            found = _find(db, "requests.id = ?", id)
            if found is None:
                return Refused("unknown_request", f"There is no request {id}. Use the id of the message that asked.")
            if found.answerer != by:
                return Refused("not_yours", f"Request {id} was not put to you, so you cannot answer it.")
            if found.state == "answered" or found.answer is not None:
                return Refused("answered", f"Request {id} has been answered already; the first answer counts.")
            sql = "UPDATE requests SET answer = ?, answered_at = ?, state = ? WHERE id = ?"
            late = found.state == "expired"
            db.execute(sql, (_encoder.encode(answer), at, "expired" if late else "answered", id))
            crashpoint("request.answer")
            if late:
                return Refused("expired", f"Request {id} had expired before this answer came; it is only kept.")
            if mail is not None:
                post(db, mail, self._limits, at)
            return msgspec.structs.replace(found, state="answered", answer=answer, answered_at=at)

        return await self._db.write(work)

    async def expire(self, id: RequestId) -> bool:
        """Nobody answered in time. False if somebody did."""
        sql = "UPDATE requests SET state = 'expired' WHERE id = ? AND state = 'open'"
        return await self._db.write(change(sql, (id,))) > 0

    async def handled(self, id: RequestId) -> bool:
        """The asker has acted on the answer, be it a late one. False the second time."""
        sql = "UPDATE requests SET handled = 1 WHERE id = ? AND handled = 0 AND answer IS NOT NULL"
        return await self._db.write(change(sql, (id,))) > 0

    async def by_id(self, id: RequestId) -> TeamRequest | None:
        return await self._db.read(partial(_find, where="requests.id = ?", value=id))

    async def by_key(self, key: str) -> TeamRequest | None:
        """What the call with this key opened, if it got so far."""
        return await self._db.read(partial(_find, where="requests.key = ?", value=key))

    async def open_for(self, agent: AgentId) -> list[TeamRequest]:
        """What waits for an agent's answer."""
        return await self._select("answerers.id = ? AND state = 'open' AND requests.kind <> 'interrupt'", agent)

    async def interrupts_of(self, agent: AgentId) -> list[TeamRequest]:
        """That the process which runs it has not heeded yet."""
        return await self._select("answerers.id = ? AND state = 'open' AND requests.kind = 'interrupt'", agent)

    async def asked_by(self, agent: AgentId) -> list[TeamRequest]:
        """What an agent waits for: its open requests, and the answers that it has not acted on."""
        return await self._select(
            """
            askers.id = ? AND (state = 'open' OR (state = 'answered' AND handled = 0)) AND requests.kind <> 'interrupt'
            """,
            agent,
        )

    async def plans_of(self, agent: AgentId) -> list[TeamRequest]:
        """All plans that it has handed in."""
        return await self._select("askers.id = ? AND requests.kind = 'plan'", agent)

    async def pending_permission(self, asker: AgentId, tool: str, input: Any) -> TeamRequest | None:
        """The last question about this very call that is still open, or whose answer came when nobody waited."""
        open_or_kept = "(state = 'open' OR (answer IS NOT NULL AND handled = 0))"
        found = await self._select(f"askers.id = ? AND requests.kind = 'permission' AND {open_or_kept}", asker)
        same = [r for r in found if r.body.get("tool") == tool and r.body.get("input") == input]
        return same[-1] if same else None

    async def agreed_by(self, agent: AgentId) -> list[TeamRequest]:
        """Shutdowns that an agent has said yes to and that are not done yet."""
        found = await self._select(
            "answerers.id = ? AND requests.kind = 'shutdown' AND state = 'answered' AND handled = 0", agent
        )
        return [request for request in found if request.answer and request.answer.get("approve")]

    async def _select(self, where: str, *values: str) -> list[TeamRequest]:
        sql = f"{_COLUMNS} WHERE {where} ORDER BY requests.n"
        return [_request(row) for row in await self._db.read(fetch_all(sql, values))]


def _find(db: sqlite3.Connection, where: str, value: str) -> TeamRequest | None:
    row = db.execute(f"{_COLUMNS} WHERE {where}", (value,)).fetchone()
    return _request(row) if row else None


def _request(row: Sequence[Any]) -> TeamRequest:
    values = list(row)
    values[5] = msgspec.json.decode(values[5])
    values[8] = None if values[8] is None else msgspec.json.decode(values[8])
    values[10] = bool(values[10])
    return TeamRequest(*values)
