"""The permission rules of a session: those it began with, and those that a person added meanwhile."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from teamwright.core.rules import Rules, parse_rules, path_rule

Behaviour = Literal["allow", "ask", "deny"]


class Rulebook:
    def __init__(self, rules: Rules, *, base: str, home: str) -> None:
        self.rules = rules
        self._base = base
        self._home = home

    def add(self, behaviour: Behaviour, texts: Sequence[str]) -> list[str]:
        """For the rest of the session; returns what is wrong with those that cannot be used."""
        rules, problems = parse_rules(texts, "session", self._base, self._home)
        kept: tuple[object, ...] = getattr(self.rules, behaviour)
        self.rules = msgspec.structs.replace(self.rules, **{behaviour: (*kept, *rules)})
        return [str(problem) for problem in problems]

    def hides(self, path: str) -> bool:
        """Is this resolved path denied to Read? Searches leave it out."""
        return bool(self.rules.deny) and path_rule(self.rules.deny, "Read", (path,), wide=True) is not None
