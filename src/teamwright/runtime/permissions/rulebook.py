"""Permission rules of a session: those that it began with, and those that a person has added since."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Behaviour
from teamwright.core.permissions.rules import Rule, Rules, guarded_patterns, parse_rules
from teamwright.host.files.hard_links import guarded_name
from teamwright.host.files.paths import is_linked

Added = Literal["session", "local"]


class Rulebook(Struct, eq=False):
    """`base` and `home` are where relative patterns and `~` begin."""

    rules: Rules
    base: str
    home: str
    own: dict[AgentId, Rules] = {}  # added for one agent alone

    def add(
        self, behaviour: Behaviour, texts: Sequence[str], agent: AgentId | None = None, source: Added = "session"
    ) -> list[str]:
        """Add rules for the rest of the session, for all agents or one; returns what is wrong with unusable ones."""
        rules, problems = parse_rules(texts, source, self.base, self.home)
        if agent is None:
            known = getattr(self.rules, behaviour)
            self.rules += Rules(**{behaviour: tuple(rule for rule in rules if rule not in known)})
        else:
            self.own[agent] = self.own.get(agent, Rules()) + Rules(**{behaviour: rules})
        return [str(problem) for problem in problems]

    def remove(self, behaviour: Behaviour, texts: Sequence[str] | None, source: Added = "session") -> None:
        """Remove rules of this session, or rules that were taken out of the local settings: an answer undoes nothing
        else."""

        def kept(rules: Rules) -> Rules:
            found = (r for r in getattr(rules, behaviour) if r.source != source or not _is_meant(r, texts))
            return replace(rules, **{behaviour: tuple(found)})

        self.rules = kept(self.rules)
        self.own = {agent: kept(rules) for agent, rules in self.own.items()}

    def listing(self) -> list[tuple[Behaviour, Rule, AgentId | None]]:
        """Every rule in effect, with its agent if it holds for one alone."""
        books: list[tuple[AgentId | None, Rules]] = [(None, self.rules), *self.own.items()]
        kinds: tuple[Behaviour, ...] = ("deny", "ask", "allow", "outside")
        return [(kind, rule, agent) for kind in kinds for agent, rules in books for rule in getattr(rules, kind)]

    def of(self, agent: AgentId) -> Rules:
        """Rules that hold for an agent: everybody's and its own."""
        own = self.own.get(agent)
        return self.rules if own is None else self.rules + own

    def hides(self, path: str) -> bool:
        """Whether this resolved path is denied to Read, by this name or that of a hard link. Searches leave it out."""
        if not self.rules.deny:
            return False
        from teamwright.core.permissions.path_rules import read_denied  # noqa: PLC0415  # its patterns take a while

        if read_denied(self.rules, path):
            return True
        return is_linked(path) and guarded_name(path, guarded_patterns(Rules(deny=self.rules.deny))) != ""


def _is_meant(rule: Rule, texts: Sequence[str] | None) -> bool:
    return texts is None or str(rule) in texts
