"""Gate before every tool call: collects the facts, judges them, and asks for approval if that is needed."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.extensions.hook import NOTHING, Fired
from teamwright.core.data.message import ToolCall
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Decision, Deny, Question
from teamwright.core.permissions.judge import Verdict
from teamwright.runtime.permissions.call_facts import FactReader, Intent
from teamwright.runtime.permissions.judgement import (
    DO_WITHOUT,
    NOBODY,
    Standing,
    allowance,
    judge_intent,
    question_about,
    refusal,
)


class Points(Protocol):
    """Where hooks speak about a call. What they allow is still judged."""

    async def before(self, agent: AgentId, call: ToolCall) -> Fired: ...
    async def requested(self, agent: AgentId, call: ToolCall, args: Mapping[str, Any]) -> Fired: ...
    def waits(self, question: Question) -> None: ...


class Ruling(Struct, frozen=True):
    """A decision, and what the call would do; a denial leaves that out."""

    decision: Decision
    intent: Intent = Intent(None)


class SessionGate:
    """One for all agents of a session. `put` asks the person; None: nobody can answer, so a question becomes a denial.

    `standing` is looked up for each judgement: mode and rules may change while a question waits.
    """

    def __init__(
        self,
        *,
        standing: Callable[[AgentId], Standing],
        facts: FactReader,
        put: Callable[[Question], Awaitable[Decision]] | None,
        points: Points | None = None,
    ) -> None:
        self._standing, self._facts, self._put, self._points = standing, facts, put, points

    async def ask(self, agent: AgentId, call: ToolCall) -> Decision:
        return (await self.rule(agent, call)).decision

    async def rule(self, agent: AgentId, call: ToolCall) -> Ruling:
        said = NOTHING if self._points is None else await self._points.before(agent, call)
        if said.denial is not None:
            return Ruling(said.denial)
        if said.decision == "deny":
            return self._refuse(agent, call, f"a hook refused it: {said.reason}")
        args = call.args if said.updated_input is None else said.updated_input
        intent, standing = await self._read(agent, call.name, args)
        verdict = heed(said, judge_intent(intent, standing), standing)
        if verdict.kind == "allow":
            return Ruling(allowance(intent, standing, said.updated_input), intent)
        if verdict.kind == "deny":
            return self._refuse(agent, call, verdict.reason, DO_WITHOUT, verdict.blocked_path)
        return await self._request(agent, call, args, said, verdict, intent)

    async def _request(
        self, agent: AgentId, call: ToolCall, args: dict[str, Any], said: Fired, verdict: Verdict, intent: Intent
    ) -> Ruling:
        """Get approval: from hooks first, then from the person."""
        fired = NOTHING if self._points is None else await self._points.requested(agent, call, args)
        if fired.decision == "deny":
            return self._refuse(agent, call, f"a hook refused it: {fired.reason}")
        if fired.decision == "allow" and not verdict.guarded:
            changed = said.updated_input if fired.updated_input is None else fired.updated_input
            return await self._allowed(agent, call, args, changed, intent)
        if self._put is None:
            return self._refuse(agent, call, verdict.reason, NOBODY, verdict.blocked_path)
        standing = self._standing(agent)
        patch = await self._facts.preview(call.name, args, standing.desk, intent.paths)
        question = replace(question_about(agent, call, args, standing, verdict, intent), patch=patch)
        if self._points is not None:
            self._points.waits(question)
        decision = await self._put(question)
        if isinstance(decision, Deny):
            return Ruling(decision)
        changed = said.updated_input if decision.args is None else decision.args
        ruling = await self._allowed(agent, call, args, changed, intent)
        return replace(ruling, decision=replace(ruling.decision, consent=decision.consent))

    async def _allowed(
        self, agent: AgentId, call: ToolCall, args: dict[str, Any], changed: dict[str, Any] | None, asked: Intent
    ) -> Ruling:
        """An approval covers what was asked and what the person made of it; what a rule denies stays denied."""
        # Read again even if nothing was changed: the answer may have taken long, and links may have moved.
        intent, standing = await self._read(agent, call.name, args if changed is None else changed)
        # only an approval of just that leaves the sandbox
        intent = replace(intent, leaves=intent.leaves and asked.leaves)
        verdict = judge_intent(intent, standing)
        if verdict.kind == "deny" and verdict.final:
            return self._refuse(agent, call, verdict.reason, DO_WITHOUT, verdict.blocked_path)
        return Ruling(allowance(intent, standing, changed), intent)

    async def _read(self, agent: AgentId, tool: str, args: Mapping[str, Any]) -> tuple[Intent, Standing]:
        """The facts, and the standing that judges them, with the same rules: what these guard is among the facts."""
        standing = self._standing(agent)
        while True:
            rules = standing.rules
            intent = await self._facts.read(tool, args, standing.desk, rules)
            standing = self._standing(agent)
            if standing.rules == rules:  # else a person changed them meanwhile
                return intent, standing

    def _refuse(self, agent: AgentId, call: ToolCall, reason: str, advice: str = "", path: str | None = None) -> Ruling:
        return Ruling(refusal(self._standing(agent), call.name, reason, advice, path))


def heed(said: Fired, verdict: Verdict, standing: Standing) -> Verdict:
    """A hook's yes answers a question, unless only a person may; its wish to ask turns a yes into a question. A no
    stays."""
    if said.decision == "allow" and verdict.kind == "ask" and not verdict.guarded:
        return Verdict("allow")
    if said.decision == "ask" and verdict.kind == "allow":
        return Verdict("deny" if standing.mode == "dontAsk" else "ask", said.reason or "a hook requires approval.")
    return verdict
