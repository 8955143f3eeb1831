"""Temporary permissions beyond the session's rules: the allowed tools of skills in use."""

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from teamwright.core.ids import AgentId, CallId
from teamwright.core.permissions.rules import Rule, Rules, parse_rules
from teamwright.runtime.agents.agent import Agent

NONE = Rules()


class _Grant(Struct, frozen=True):
    """Holds from the agent's prompt number `first` until its prompt number `last` is done."""

    rules: tuple[Rule, ...]
    first: int
    last: int


class Grants:
    """Allow rules by agent. The session's deny and ask rules still come first, as before every allow rule.

    `standing` gives rules that an agent has all its life, such as for its own memory directory.
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
        """The current rules for this agent, besides the session's."""
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
        """Grant until the agent gets another prompt; `for_next`: also during that one. Returns a function that undoes
        it."""
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
        """Grant to the agent that this call is about to start, for its whole life."""
        if rules:
            self._calls[parent, call] = self._parsed(rules)

    def _parsed(self, rules: Sequence[str]) -> tuple[Rule, ...]:
        return parse_rules(rules, "session", self._base, self._home)[0]
