"""What an agent's definition says about how far it may use a tool: `Bash(git *)` in its list of tools."""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from teamwright.core.data.message import ToolCall
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Decision, Deny
from teamwright.core.permissions.rules import READING, Rules, parse_rules, path_rule
from teamwright.core.ports import Desk
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.permissions.call_facts import FactReader
from teamwright.runtime.permissions.gate import SessionGate


class LimitedGate:
    """The session's gate, and behind it the limits of each agent's own definition."""

    def __init__(
        self, gate: SessionGate, agent: Callable[[AgentId], Agent], facts: FactReader, *, base: str, home: str
    ) -> None:
        self._gate = gate
        self._agent = agent
        self._facts = facts
        self._base, self._home = base, home

    async def ask(self, agent: AgentId, call: ToolCall) -> Decision:
        decision = await self._gate.ask(agent, call)
        patterns = self._agent(agent).limits.get(call.name, ())
        if isinstance(decision, Deny) or not patterns:
            return decision
        rules, _ = parse_rules([f"{call.name}({p})" for p in patterns], "session", self._base, self._home)
        if call.name in READING:
            within = all(path_rule(rules, call.name, (path,), wide=False) for path in decision.paths.values())
        else:
            if decision.args is not None:  # a hook or a person made something else of it
                call = replace(call, input=msgspec.Raw(msgspec.json.encode(decision.args)))
            within = not isinstance(await self._limit(agent, Rules(allow=rules)).ask(agent, call), Deny)
        if within:
            return decision
        return Deny(f"{call.name} was not run: this agent may use it only as {', '.join(patterns)}.")

    def _limit(self, agent: AgentId, rules: Rules) -> SessionGate:
        desk: Desk = self._agent(agent).desk
        return SessionGate(
            mode=lambda _: "dontAsk",
            rules=lambda _: rules,
            desk=lambda _: desk,
            name=lambda _: "main",
            put=None,
            facts=self._facts,
        )
