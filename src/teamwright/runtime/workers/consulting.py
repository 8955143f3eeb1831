"""Asks the lead's process, from a worker, for decisions that only the lead can make."""

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.charter import Charter, HookName
from teamwright.core.data.extensions.hook import NOTHING, Fired, HookEvent, matches
from teamwright.core.data.message import ToolCall
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, new_question_id
from teamwright.core.permissions.consent import Decision, Deny, Question
from teamwright.runtime.extensions.hook_points import HookPoints
from teamwright.runtime.services import Services
from teamwright.runtime.teams.remote.permission_relay import answer_of, decision_of
from teamwright.runtime.workers.answering import CallAsked, HookAsked
from teamwright.store.tables.remotes import RemoteTable

_END = 2.0  # seconds
_LOOK = 1.0  # seconds between looks, if no change rings


_ASKED: dict[HookEvent, HookName] = {
    "TaskCreated": "TaskCreated",
    "TaskCompleted": "TaskCompleted",
    "TeammateIdle": "TeammateIdle",
}


class Place(Struct, frozen=True):
    """Where the agent works, for a judge elsewhere."""

    root: str
    home: str
    worker: str


class Consulting:
    """Serves one agent and those that it started."""

    def __init__(
        self, services: Services, table: RemoteTable, charter: Charter, news: Callable[[], anyio.Event], place: Place
    ) -> None:
        """`news` is set by the next change of the store."""
        self._services, self._table, self._charter, self._news, self._place = services, table, charter, news, place

    async def put(self, question: Question) -> Decision:
        """Ask the lead. If nobody answers, wait as long as the lead's settings say, then deny."""
        return decision_of(await self._consult(question))

    async def _consult(self, question: Question, *, hooked: bool = False, said: Fired = NOTHING) -> dict[str, Any]:
        services, charter = self._services, self._charter
        living = services.supervisor.agent(question.agent)
        if living is None:
            return answer_of(Deny(f"{question.tool} was not run: its agent has ended."))
        rules = services.rules.of(question.agent)
        intent = await services.facts.read(question.tool, question.args, living.desk, rules)
        asked = CallAsked.about(
            question,
            intent,
            living.desk,
            root=self._place.root,
            home=self._place.home,
            worker=self._place.worker,
            mode=services.mode_of(question.agent),
            protected=services.protected(living.desk),
            hooked=hooked,
            said=said,
        )
        id = _name(charter.agent, question, "hooked" if hooked else "" if said is NOTHING else "changed")
        with anyio.move_on_after(charter.patience):
            async with living.slot.waiting():
                body = msgspec.to_builtins(asked)
                return await self._answer(id, "call", body, keep=lambda: living.parked)
        return answer_of(Deny(f"Nobody answered the question about {question.tool} within {charter.patience:g} s."))

    async def _answer(
        self, id: str, kind: str, body: dict[str, Any], keep: Callable[[], bool] = lambda: False
    ) -> dict[str, Any]:
        """Wait for the answer. One that an earlier worker did not live to read is kept, and holds for the same
        question.

        `keep`: leave the question, because the agent goes on elsewhere and will ask it again.
        """
        await self._table.ask(id, self._charter.agent, kind, body)
        try:
            while True:
                news = self._news()
                found = await self._table.asked(id)
                if found is None:
                    return {"behavior": "deny", "reason": "The question was withdrawn."}
                if found.answer is not None:
                    return found.answer
                with anyio.move_on_after(_LOOK):
                    await news.wait()
        finally:
            if not keep():
                with anyio.CancelScope(shield=True), anyio.move_on_after(_END):
                    await self._forget(id)

    async def _forget(self, id: str) -> None:
        try:
            await self._table.drop(id)
        except StoreError:
            return  # another worker has the agent now, and asks under the same id

    # --- the lead's hooks

    def has(self, event: HookName) -> bool:
        return event in self._charter.hooks

    async def before(self, agent: AgentId, call: ToolCall) -> Fired:
        """The lead decides the whole call if one of its hooks matches it."""
        if not any(matches(matcher, call.name) for matcher in self._charter.hooks.get("PreToolUse", ())):
            return NOTHING
        living = self._services.supervisor.agent(agent)
        name = living.name if living else self._charter.name
        question = Question(
            new_question_id(), agent, name, call.id, call.name, dict(call.args), "a hook of the lead's is asked."
        )
        answer = await self._consult(question, hooked=True)
        said = msgspec.convert(answer.get("said", {}), Fired)
        if "behavior" not in answer:  # hooks changed the arguments
            changed = replace(question, args=said.updated_input or {})
            answer = await self._consult(changed, said=said)
        decision = decision_of(answer)
        if isinstance(decision, Deny):
            return replace(said, decision="deny", denial=decision)
        return replace(said, decision="allow", updated_input=decision.args or said.updated_input)

    async def hook(self, event: HookName, fields: Mapping[str, Any]) -> Fired:
        if not self.has(event):
            return NOTHING
        asked = HookAsked(event, {name: value for name, value in fields.items() if value is not None})
        id = f"{self._charter.agent}-{event}-{os.urandom(6).hex()}"
        with anyio.move_on_after(self._charter.patience):
            said = await self._answer(id, "hook", msgspec.to_builtins(asked))
            return Fired(blocked=said.get("blocked"), stop=said.get("stop"))
        return NOTHING


class LeadPoints(HookPoints, eq=False, kw_only=True):
    """Lets the lead's hooks speak about what an agent on a worker does. There are no others."""

    asks: Consulting

    def has(self, event: HookEvent) -> bool:
        return event in _ASKED and self.asks.has(_ASKED[event])

    async def before(self, agent: AgentId, call: ToolCall) -> Fired:
        return self._hold(agent, call, await self.asks.before(agent, call))

    async def fire(
        self, event: HookEvent, agent: AgentId, *, subject: str = "", cwd: Path | None = None, **fields: Any
    ) -> Fired:
        return await self.asks.hook(_ASKED[event], fields) if event in _ASKED else NOTHING


def _name(agent: AgentId, question: Question, asked: str) -> str:
    """The same id for exactly the same call, whoever repeats it."""
    about = msgspec.json.encode((question.agent, question.tool, question.args, asked), order="sorted")
    return f"{agent}-{hashlib.sha256(about).hexdigest()[:24]}"
