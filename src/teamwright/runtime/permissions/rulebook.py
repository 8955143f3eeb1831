"""Permission rules of a session: those it began with, and those that a person added since."""

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from teamwright.core.ids import AgentId
from teamwright.core.permissions.path_rules import read_denied
from teamwright.core.permissions.rules import Rule, Rules, parse_rules

Behaviour = Literal["allow", "ask", "deny"]


class Rulebook:
    def __init__(self, rules: Rules, *, base: str, home: str) -> None:
        self.rules = rules
        self._base = base
        self._home = home
        self._own: dict[AgentId, Rules] = {}  # what was added for one agent alone

    def add(self, behaviour: Behaviour, texts: Sequence[str], agent: AgentId | None = None) -> list[str]:
        """For the rest of the session, for all or one agent; returns what is wrong with those that cannot be used."""
        rules, problems = parse_rules(texts, "session", self._base, self._home)
        if agent is None:
            self.rules += Rules(**{behaviour: rules})
        else:
            self._own[agent] = self._own.get(agent, Rules()) + Rules(**{behaviour: rules})
        return [str(problem) for problem in problems]

    def remove(self, behaviour: Behaviour, texts: Sequence[str] | None) -> None:
        """Those of this session alone: what the settings and the command line say is not undone by an answer."""

        def stays(rule: Rule) -> bool:
            return rule.source != "session" or (texts is not None and str(rule) not in texts)

        kept = tuple(rule for rule in getattr(self.rules, behaviour) if stays(rule))
        self.rules = replace(self.rules, **{behaviour: kept})

    def of(self, agent: AgentId) -> Rules:
        """Those that hold for an agent: everybody's and its own."""
        own = self._own.get(agent)
        return self.rules if own is None else self.rules + own

    def hides(self, path: str) -> bool:
        """Is this resolved path denied to Read? Searches leave it out."""
        return bool(self.rules.deny) and read_denied(self.rules, path)
