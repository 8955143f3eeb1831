"""Requests between agents (shutdown, plan, permission), each answered once, and only by its addressee.

A person's interrupt for an agent in another process is a request, too; that process answers it, not the agent.
"""

from functools import partial
from typing import Any

from teamwright.core.data.team import Mail, Refused, RequestId, TeamRequest
from teamwright.core.ids import AgentId
from teamwright.store.acts.requests import AnswerRequest, ExpireRequest, HandleAnswer, PostRequest
from teamwright.store.db.database import Database
from teamwright.store.db.statements import fetch_all
from teamwright.store.tables.mail_insert import LIMITS, MailLimits
from teamwright.store.tables.rows.requests import COLUMNS, find_request, read_request


class RequestTable:
    def __init__(self, database: Database, limits: MailLimits = LIMITS) -> None:
        self._db, self._limits = database, limits

    async def open(
        self, request: TeamRequest, *, mail: Mail | None = None, key: str | None = None
    ) -> TeamRequest | Refused:
        """Store a request along with the letter that shows it. A known key returns the request that it made."""
        return await self._db.write(PostRequest(request, mail, key, self._limits))

    async def answer(
        self, id: RequestId, by: AgentId, answer: dict[str, Any], *, mail: Mail | None = None
    ) -> TeamRequest | Refused:
        """Answer a request; the first answer counts. One after the time limit is refused, but kept with the request.

        `mail` shows the answer to the asker; an asker that has gone meanwhile does not undo it.
        """
        return await self._db.write(AnswerRequest(id, by, answer, mail, self._limits))

    async def expire(self, id: RequestId) -> bool:
        """Nobody answered in time. False if somebody did."""
        return await self._db.write(ExpireRequest(id))

    async def handled(self, id: RequestId) -> bool:
        """The asker has acted on the answer, even a late one. False the second time."""
        return await self._db.write(HandleAnswer(id))

    async def by_id(self, id: RequestId) -> TeamRequest | None:
        return await self._db.read(partial(find_request, where="requests.id = ?", value=id))

    async def by_key(self, key: str) -> TeamRequest | None:
        """The request that the call with this key opened, if it got so far."""
        return await self._db.read(partial(find_request, where="requests.key = ?", value=key))

    async def open_for(self, agent: AgentId) -> list[TeamRequest]:
        """Requests that wait for an agent's answer."""
        return await self._select("answerers.id = ? AND state = 'open' AND requests.kind <> 'interrupt'", agent)

    async def interrupts_of(self, agent: AgentId) -> list[TeamRequest]:
        """Interrupts that the process which runs the agent has not obeyed yet."""
        return await self._select("answerers.id = ? AND state = 'open' AND requests.kind = 'interrupt'", agent)

    async def asked_by(self, agent: AgentId) -> list[TeamRequest]:
        """An agent's open requests, and those whose answers it has not acted on."""
        return await self._select(
            """
            askers.id = ? AND (state = 'open' OR (state = 'answered' AND handled = 0)) AND requests.kind <> 'interrupt'
            """,
            agent,
        )

    async def plans_of(self, agent: AgentId) -> list[TeamRequest]:
        """All plans that an agent has handed in."""
        return await self._select("askers.id = ? AND requests.kind = 'plan'", agent)

    async def pending_permission(self, asker: AgentId, tool: str, input: Any) -> TeamRequest | None:
        """The last question about exactly this call that is still open, or whose answer came when nobody waited."""
        open_or_kept = "(state = 'open' OR (answer IS NOT NULL AND handled = 0))"
        found = await self._select(f"askers.id = ? AND requests.kind = 'permission' AND {open_or_kept}", asker)
        same = [r for r in found if r.body.get("tool") == tool and r.body.get("input") == input]
        return same[-1] if same else None

    async def agreed_by(self, agent: AgentId) -> list[TeamRequest]:
        """Shutdowns that an agent has agreed to and that are not done yet."""
        found = await self._select(
            "answerers.id = ? AND requests.kind = 'shutdown' AND state = 'answered' AND handled = 0", agent
        )
        return [request for request in found if request.answer and request.answer.get("approve")]

    async def _select(self, where: str, *values: str) -> list[TeamRequest]:
        sql = f"{COLUMNS} WHERE {where} ORDER BY requests.n"
        return [read_request(row) for row in await self._db.read(fetch_all(sql, values))]
