"""Temporary permissions beyond the session's rules: the allowed tools of skills that are in use."""

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from teamwright.core.ids import AgentId, CallId
from teamwright.core.permissions.rules import Rule, Rules, parse_rules
from teamwright.runtime.agents.agent import Agent

NONE = Rules()


class _Grant(Struct, frozen=True):
    """It holds while the agent has been given `first` to `last` prompts."""

    rules: tuple[Rule, ...]
    first: int
    last: int


class Grants:
    """Allow rules by agent. Deny and ask rules of the session still come first, as before every allow rule.

    `standing` are rules that an agent has for as long as it lives, such as for its own memory directory.
    """

    def __init__(
        self,
        agent: Callable[[AgentId], Agent | None],
        *,
        base: Path,
        home: Path,
        standing: Callable[[Agent], Rules] = lambda _: NONE,
    ) -> None:
        self._agent, self._standing = agent, standing
        self._base, self._home = str(base), str(home)
        self._held: dict[AgentId, list[_Grant]] = {}
        self._calls: dict[tuple[AgentId, CallId], tuple[Rule, ...]] = {}

    def of(self, agent: AgentId) -> Rules:
        """All that holds for this agent now, besides the session's rules."""
        found = self._agent(agent)
        if found is None:
            return NONE
        rules = self._standing(found)
        started = found.history.started
        if self._calls and started is not None and started.call_id is not None and found.parent is not None:
            rules += Rules(allow=self._calls.get((found.parent, started.call_id), ()))
        held = self._held.get(agent, ())
        if not held:
            return rules
        said = found.history.prompted
        kept = [grant for grant in held if said <= grant.last]
        self._held[agent] = kept
        return rules + Rules(allow=tuple(rule for grant in kept if said >= grant.first for rule in grant.rules))

    def give(self, agent: AgentId, rules: Sequence[str], *, for_next: bool = False) -> Callable[[], None]:
        """Until the agent is given another prompt; `for_next`: also during the next one. Returns what takes it back."""
        found = self._agent(agent)
        if found is None or not rules:
            return lambda: None
        said = found.history.prompted
        grant = _Grant(self._parsed(rules), said, said + for_next)
        self._held.setdefault(agent, []).append(grant)

        def take_back() -> None:
            self._held[agent] = [held for held in self._held.get(agent, ()) if held is not grant]

        return take_back

    def give_child(self, parent: AgentId, call: CallId, rules: Sequence[str]) -> None:
        """To the agent that this call is about to start, for its whole life."""
        if rules:
            self._calls[parent, call] = self._parsed(rules)

    def _parsed(self, rules: Sequence[str]) -> tuple[Rule, ...]:
        return parse_rules(rules, "session", self._base, self._home)[0]
