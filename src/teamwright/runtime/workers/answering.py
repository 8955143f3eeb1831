"""Answers workers' questions in the lead's process, by the rules, the hooks and the person of this session."""

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.charter import read_rules, write_rules
from teamwright.core.data.extensions.hook import EVENTS, NOTHING, Fired, HookEvent
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Allow, Decision, Deny, Mode, Question, mode_allowed
from teamwright.core.permissions.facts import Facts
from teamwright.core.permissions.judge import Verdict
from teamwright.core.permissions.rules import Rules
from teamwright.core.permissions.written_facts import read_facts, write_facts
from teamwright.core.ports import Desk
from teamwright.runtime.permissions.call_facts import Intent
from teamwright.runtime.permissions.gate import heed
from teamwright.runtime.permissions.judgement import DO_WITHOUT, NOBODY, Standing, judge_intent, refusal
from teamwright.runtime.services import Services
from teamwright.runtime.teams.remote.permission_relay import answer_of
from teamwright.store.tables.remotes import Consult, RemoteTable

_TASK_HOOKS = ("TaskCreated", "TaskCompleted", "TeammateIdle")


class CallAsked(Struct, frozen=True, kw_only=True):
    """A call on a worker that is decided here. Paths are that machine's; `root` is the repository there."""

    question: Question
    facts: dict[str, Any] | None
    root: str
    home: str
    roots: tuple[str, ...]
    worker: str
    mode: Mode | None = None  # the agent's own
    protected: tuple[str, ...] = ()
    leaves: bool = False
    hooked: bool = False  # a hook of this session must see it
    said: Fired = NOTHING  # what hooks here said of it, when they changed its arguments to these

    @classmethod
    def about(cls, question: Question, intent: Intent, desk: Desk, **rest: Any) -> "CallAsked":
        facts = write_facts(intent.facts)
        return cls(question=question, facts=facts, roots=tuple(map(str, desk.roots)), leaves=intent.leaves, **rest)

    @property
    def read(self) -> Facts | None:
        return read_facts(self.facts)


class HookAsked(Struct, frozen=True):
    """A hook of this session to run for what an agent on a worker does."""

    event: str
    fields: dict[str, Any]


class Answering:
    def __init__(self, services: Services, table: RemoteTable, project: Path) -> None:
        self._services, self._table, self._project = services, table, str(project)
        self._asked: dict[str, anyio.CancelScope] = {}

    async def look(self, live: Collection[AgentId]) -> None:
        """Take up what the agents of this session ask, each question once."""
        if not live and not self._asked:
            return
        found = {consult.id: consult for consult in await self._table.questions(live)}
        for id, scope in self._asked.items():
            if id not in found:
                scope.cancel()  # nobody waits for the answer any more
        for id, consult in found.items():
            if id not in self._asked:
                self._asked[id] = anyio.CancelScope()
                self._services.supervisor.launch(partial(self._take, consult))

    async def _take(self, consult: Consult) -> None:
        try:
            with self._asked[consult.id]:
                await self._answer(consult)
        finally:
            del self._asked[consult.id]

    async def _answer(self, consult: Consult) -> None:
        try:
            if consult.kind == "call":
                answer = await self._answer_call(consult.agent, msgspec.convert(consult.body, CallAsked))
            else:
                answer = await self._fire(consult.agent, msgspec.convert(consult.body, HookAsked))
        except (msgspec.ValidationError, KeyError) as error:
            answer = answer_of(Deny(f"The lead could not read what was asked: {error}"))
        await self._table.answer(consult.id, answer)

    async def _fire(self, agent: AgentId, asked: HookAsked) -> dict[str, Any]:
        known: dict[str, HookEvent] = {event: event for event in EVENTS}
        if asked.event not in _TASK_HOOKS:
            return {}
        fired = await self._services.points.fire(known[asked.event], agent, **asked.fields)
        return {"blocked": fired.blocked, "stop": fired.stop}

    async def _answer_call(self, agent: AgentId, asked: CallAsked) -> dict[str, Any]:
        """What hooks say goes back with the decision. If they changed the arguments, it goes back alone: what the call
        would do now is found out on the worker, which asks again."""
        if not asked.hooked:
            return answer_of(await self._decide(agent, asked, asked.said))
        said = await self._fire_for(asked, "PreToolUse")
        answer = {"said": msgspec.to_builtins(replace(said, messages=(), printed=()))}
        if said.updated_input is not None and said.decision != "deny":
            return answer
        return answer | answer_of(await self._decide(agent, asked, said))

    async def _decide(self, agent: AgentId, asked: CallAsked, said: Fired) -> Decision:
        """Ask rules, hooks and the person as for any call here. No approval overrides a rule that denies."""
        question, standing = asked.question, self._standing(agent, asked)
        if said.decision == "deny":
            return refusal(standing, question.tool, f"a hook refused it: {said.reason}")
        intent = Intent(asked.read, leaves=asked.leaves)
        verdict = heed(said, judge_intent(intent, standing), standing)
        if verdict.kind == "allow":
            return Allow()
        if verdict.kind == "deny":
            return refusal(standing, question.tool, verdict.reason, DO_WITHOUT, verdict.blocked_path)
        return await self._ask(agent, asked, standing, verdict)

    async def _ask(self, agent: AgentId, asked: CallAsked, standing: Standing, verdict: Verdict) -> Decision:
        """Get approval: from hooks first, then from the person."""
        question, put = asked.question, self._services.approver
        fired = await self._fire_for(asked, "PermissionRequest")
        if fired.decision == "deny":
            return refusal(standing, question.tool, f"a hook refused it: {fired.reason}")
        if fired.decision == "allow" and not verdict.guarded:
            return Allow(fired.updated_input)
        if put is None:
            return refusal(standing, question.tool, verdict.reason, NOBODY, verdict.blocked_path)
        shown = replace(question, agent_name=f"{question.agent_name} on {asked.worker}", reason=verdict.reason)
        self._services.points.waits(shown)
        decision = await put(shown)
        if isinstance(decision, Deny):
            return decision
        again = judge_intent(Intent(asked.read, leaves=asked.leaves), self._standing(agent, asked))
        if again.kind == "deny" and again.final:
            return refusal(standing, question.tool, again.reason, DO_WITHOUT)
        return Allow(decision.args, consent=decision.consent)

    async def _fire_for(self, asked: CallAsked, event: HookEvent) -> Fired:
        question = asked.question
        about: dict[str, Any] = {
            "tool_name": question.tool,
            "tool_input": question.args,
            "tool_use_id": question.call_id,
        }
        return await self._services.points.fire(event, question.agent, subject=question.tool, **about)

    def _standing(self, agent: AgentId, asked: CallAsked) -> Standing:
        own = self._services.supervisor.main.mode or "default"
        mode = mode_allowed(own, asked.mode) if asked.mode else own
        desk = Desk(Path(asked.root), tuple(map(Path, asked.roots)) or (Path(asked.root),))
        name, color, rules = asked.question.agent_name, asked.question.color, self._rules(agent, asked)
        return Standing(name, mode, rules, desk, color, protected=asked.protected)

    def _rules(self, agent: AgentId, asked: CallAsked) -> Rules:
        """The current rules: a person may have added some. What is relative to the project is so on that machine,
        too."""
        return read_rules(write_rules(self._services.rules.of(agent), self._project), asked.root, asked.home)
