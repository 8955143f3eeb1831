"""Limits on a tool from an agent's definition, such as `Bash(git *)` in its list of tools."""

from collections.abc import Callable

from teamwright.core.data.message import ToolCall
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Allow, Decision, Deny
from teamwright.core.permissions.facts import Reads
from teamwright.core.permissions.rules import Rules, parse_rules, path_rule
from teamwright.core.ports import Desk
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.permissions.call_facts import Intent
from teamwright.runtime.permissions.gate import SessionGate
from teamwright.runtime.permissions.judgement import Standing, judge_intent


class LimitedGate:
    """The session's gate, followed by the limits of each agent's own definition."""

    def __init__(self, gate: SessionGate, agent: Callable[[AgentId], Agent], *, base: str, home: str) -> None:
        self._gate = gate
        self._agent = agent
        self._base, self._home = base, home
        self._parsed: dict[tuple[str, tuple[str, ...]], Rules] = {}  # each tool's patterns, parsed once

    async def ask(self, agent: AgentId, call: ToolCall) -> Decision:
        ruling = await self._gate.rule(agent, call)
        found = self._agent(agent)
        patterns = found.limits.get(call.name, ())
        if isinstance(ruling.decision, Deny) or not patterns:
            return ruling.decision
        if _within(ruling.decision, ruling.intent, self._limit(call.name, tuple(patterns)), found.desk):
            return ruling.decision
        words = f"{call.name} was not run: this agent may use it only as {', '.join(patterns)}."
        return Deny(words, consent=ruling.decision.consent)

    def _limit(self, tool: str, patterns: tuple[str, ...]) -> Rules:
        if (tool, patterns) not in self._parsed:
            rules, _ = parse_rules([f"{tool}({p})" for p in patterns], "session", self._base, self._home)
            self._parsed[tool, patterns] = Rules(allow=rules)
        return self._parsed[tool, patterns]


def _within(decision: Allow, intent: Intent, limit: Rules, desk: Desk) -> bool:
    """Whether the limit alone allows it, judged by the facts that the decision rests on."""
    if isinstance(intent.facts, Reads):
        tool = intent.facts.tool
        return all(path_rule(limit.allow, tool, (path,), wide=False) for path in decision.paths.values())
    return judge_intent(intent, Standing("", "dontAsk", limit, desk)).kind != "deny"
