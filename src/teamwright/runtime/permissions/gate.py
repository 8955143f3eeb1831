"""The gate before every tool call: facts are read, judged, and what must be asked is put to whoever can answer."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from teamwright.core.data.hook import NOTHING, Fired
from teamwright.core.data.message import ToolCall
from teamwright.core.ids import AgentId, new_question_id
from teamwright.core.permissions.consent import Allow, Decision, Deny, Mode, Question
from teamwright.core.permissions.judge import Verdict, judge
from teamwright.core.permissions.rules import Rules
from teamwright.core.ports import Desk
from teamwright.runtime.permissions.call_facts import FactReader, Intent

_DO_WITHOUT = "Do without it, or say what you need and why."
_NOBODY = "That needs a person's yes, and nobody is attached to give it: go on without it, or report what you need."
_MAIN = "main"


class Points(Protocol):
    """Where hooks speak about a call. What they allow is judged all the same."""

    async def before(self, agent: AgentId, call: ToolCall) -> Fired: ...
    async def requested(self, agent: AgentId, call: ToolCall, args: Mapping[str, Any]) -> Fired: ...
    def waits(self, question: Question) -> None: ...


class SessionGate:
    """One for all agents of a session. `put` asks whoever can answer; None: nobody can, so a question is a denial."""

    def __init__(
        self,
        *,
        mode: Callable[[AgentId], Mode],
        rules: Callable[[AgentId], Rules],
        desk: Callable[[AgentId], Desk],
        name: Callable[[AgentId], str],
        put: Callable[[Question], Awaitable[Decision]] | None,
        facts: FactReader,
        readable: Sequence[Path] = (),
        protected: Sequence[Path] = (),
        points: Points | None = None,
        color: Callable[[AgentId], str] | None = None,
    ) -> None:
        self._mode, self._rules, self._desk, self._name, self._put = mode, rules, desk, name, put
        self._facts, self._points, self._color = facts, points, color
        self._readable = tuple(str(path.resolve()) for path in readable)
        self._protected = tuple(str(path.resolve()) for path in protected)

    async def ask(self, agent: AgentId, call: ToolCall) -> Decision:
        said = NOTHING if self._points is None else await self._points.before(agent, call)
        if said.decision == "deny":
            return Deny(self._refusal(agent, call.name, f"a hook refused it: {said.reason}", ""))
        args = call.args if said.updated_input is None else said.updated_input
        intent = await self._intent(agent, call.name, args)
        verdict = self._heed(agent, said, self._judge(agent, intent))
        if verdict.kind == "allow":
            return Allow(said.updated_input, intent.paths)
        if verdict.kind == "deny":
            return Deny(self._refusal(agent, call.name, verdict.reason, _DO_WITHOUT))
        return await self._request(agent, call, args, said, verdict)

    def _heed(self, agent: AgentId, said: Fired, verdict: Verdict) -> Verdict:
        """A hook's yes answers a question that a hook may answer; its wish to ask makes one. A no stays a no."""
        if said.decision == "allow" and verdict.kind == "ask" and not verdict.guarded:
            return Verdict("allow")
        if said.decision == "ask" and verdict.kind == "allow":
            reason = said.reason or "a hook wants it asked."
            return Verdict("deny" if self._mode(agent) == "dontAsk" else "ask", reason)
        return verdict

    async def _request(
        self, agent: AgentId, call: ToolCall, args: dict[str, Any], said: Fired, verdict: Verdict
    ) -> Decision:
        """It must be asked: of hooks first, then of whoever can answer."""
        fired = NOTHING if self._points is None else await self._points.requested(agent, call, args)
        if fired.decision == "deny":
            return Deny(self._refusal(agent, call.name, f"a hook refused it: {fired.reason}", ""))
        if fired.decision == "allow" and not verdict.guarded:
            changed = said.updated_input if fired.updated_input is None else fired.updated_input
            return await self._allowed(agent, call.name, args, Allow(changed))
        if self._put is None:
            return Deny(self._refusal(agent, call.name, verdict.reason, _NOBODY))
        question = Question(
            new_question_id(),
            agent,
            self._name(agent),
            call.id,
            call.name,
            args,
            verdict.reason,
            verdict.suggestions,
            verdict.blocked_path,
            self._color(agent) if self._color else "",
        )
        if self._points is not None:
            self._points.waits(question)
        decision = await self._put(question)
        if isinstance(decision, Deny):
            return decision
        changed = said.updated_input if decision.args is None else decision.args
        return await self._allowed(agent, call.name, args, Allow(changed))

    async def _allowed(self, agent: AgentId, tool: str, args: dict[str, Any], decision: Allow) -> Decision:
        """A yes covers what was asked and what the person made of it; what a rule denies stays denied."""
        changed = args if decision.args is None else decision.args
        # Read again even if nothing was changed: the answer may have taken its time, and links may have moved.
        intent = await self._intent(agent, tool, changed)
        verdict = self._judge(agent, intent)
        if verdict.kind == "deny" and verdict.final:
            return Deny(self._refusal(agent, tool, verdict.reason, _DO_WITHOUT))
        return Allow(decision.args, intent.paths)

    async def _intent(self, agent: AgentId, tool: str, args: Mapping[str, Any]) -> Intent:
        return await self._facts.read(tool, args, self._desk(agent))

    def _judge(self, agent: AgentId, intent: Intent) -> Verdict:
        if intent.facts is None:
            return Verdict("allow")  # the tool refuses such arguments, in better words
        return judge(
            intent.facts,
            mode=self._mode(agent),
            rules=self._rules(agent),
            roots=tuple(map(str, self._desk(agent).roots)),
            readable=self._readable,
            protected=self._protected,
        )

    def _refusal(self, agent: AgentId, tool: str, reason: str, advice: str) -> str:
        name = self._name(agent)
        who = "" if name == _MAIN else f" for the agent {name}"
        return f"{tool} was not run{who}: {reason} {advice}".rstrip()
