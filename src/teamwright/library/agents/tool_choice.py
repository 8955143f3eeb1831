"""Resolves a definition's `tools` and `disallowedTools` to tools, their limits and the agents it may start."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from msgspec import Struct

from teamwright.core.data.definition import AgentDefinition
from teamwright.core.permissions.rules import AGENT, Problem, Rule, names_tool, parse_rule

_FORMER = {"task": AGENT}  # old names in files written for other programs


class ToolChoice(Struct, frozen=True):
    """`limits` maps tools to patterns: only these uses; `denied_uses` are rules: none of these uses."""

    names: frozenset[str] | None = None  # None: all
    limits: dict[str, tuple[str, ...]] = {}
    may_start: tuple[str, ...] | None = None  # kinds of agents; None: all
    denied: frozenset[str] = frozenset()
    denied_uses: tuple[str, ...] = ()

    def sees(self, tool: str) -> bool:
        """May the agent see this tool? MCP tools also match by server or name pattern."""
        if any(_covers(name, tool) for name in self.denied):
            return False
        return self.names is None or any(_covers(name, tool) for name in self.names)


def tool_names(definition: AgentDefinition, known: Iterable[str] = ()) -> ToolChoice:
    """Reads both fields. `known` are the existing tools; names match them ignoring case.

    An unreadable entry allows nothing, or denies the whole tool.
    """
    spelled = {name.lower(): name for name in known}
    entries = ("*",) if definition.tools is None else definition.tools
    rules = [rule for text in entries if (rule := _parse(text, spelled))]
    _, limits = _sorted(rules)
    names = None if "*" in entries else frozenset(rule.tool for rule in rules)
    may_start = limits.pop(AGENT, None)

    refusals, unread = _read_refusals(definition.disallowed_tools, spelled)
    denied, patterns = _sorted(refusals)
    if "*" in unread:
        names, unread = frozenset[str](), unread - {"*"}
    return ToolChoice(
        names=names,
        limits=limits,
        may_start=may_start,
        denied=denied | frozenset(spelled.get(name.lower(), name) for name in unread if name),
        denied_uses=tuple(f"{tool}({pattern})" for tool, found in patterns.items() for pattern in found),
    )


def _read_refusals(texts: Iterable[str], spelled: Mapping[str, str]) -> tuple[list[Rule], set[str]]:
    """The readable rules, and the tools of the unreadable ones."""
    rules: list[Rule] = []
    unread: set[str] = set()
    for text in texts:
        if (rule := _parse(text, spelled)) is not None:
            rules.append(rule)
        else:
            unread.add(text.split("(")[0].strip())
    return rules, unread


def _parse(text: str, spelled: Mapping[str, str]) -> Rule | None:
    rule = parse_rule(text, "session")
    if isinstance(rule, Problem):
        return None
    name = _FORMER.get(rule.tool.lower(), rule.tool)
    return Rule(spelled.get(name.lower(), name), rule.pattern, rule.source, rule.base, rule.home)


def _sorted(rules: Iterable[Rule]) -> tuple[frozenset[str], dict[str, tuple[str, ...]]]:
    """Tools named as a whole, and the patterns of the others. A tool named both ways counts as whole."""
    whole: set[str] = set()
    patterns: dict[str, dict[str, None]] = {}
    for rule in rules:
        pattern = rule.pattern or "*"
        parts = [p.strip() for p in pattern.split(",")] if rule.tool == AGENT else [pattern]
        if rule.is_whole or "*" in parts:
            whole.add(rule.tool)
        else:
            patterns.setdefault(rule.tool, {}).update(dict.fromkeys(p for p in parts if p))
    return frozenset(whole), {tool: tuple(found) for tool, found in patterns.items() if tool not in whole}


def _covers(name: str, tool: str) -> bool:
    if name.startswith("mcp__"):
        return names_tool(Rule(name, None), tool) or fnmatchcase(tool, name)
    return name == tool
