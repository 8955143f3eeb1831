"""Parses permission rules and matches them against calls."""

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct

from teamwright.core.permissions.patterns import PathPattern, command_pattern, path_pattern, path_problem
from teamwright.core.text import shown

Source = Literal["default", "managed", "flag", "local", "project", "user", "session", "agent"]

_RULE = re.compile(r"\s*([A-Za-z][\w-]*|mcp__[\w*.-]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
# People write these names in rules, so they are part of the rule language: a rule for the first of a family covers the
# others, and suggestions use the first.
EDITING = (EDIT := "Edit", "Write", "NotebookEdit")
READING = (READ := "Read", GLOB := "Glob", "Grep")
SHELL = (BASH := "Bash", "Monitor")
FETCH, AGENT, SKILL = "WebFetch", "Agent", "Skill"
# Names in older rules and calls: of renamed tools, and of tools without a direct successor.
RENAMED = {
    "Task": AGENT,
    "MultiEdit": EDIT,
    "LS": GLOB,
    "KillShell": "TaskStop",
    "KillBash": "TaskStop",
    "BashOutput": "TaskOutput",
    "AgentOutputTool": "TaskOutput",
    "SlashCommand": SKILL,
    "NotebookRead": READ,
}
_REPLACED = {"TodoWrite": "TaskCreate and TaskUpdate", "TodoRead": "TaskList"}
_FAMILIES = {EDIT: EDITING, READ: READING, BASH: SHELL}
_DOTS = dict.fromkeys(map(ord, "\u3002\uff0e\uff61"), ".")  # dots of other scripts, which separate domain labels too
_ON_PATHS = frozenset(EDITING + READING)


class Rule(Struct, frozen=True):
    """One rule. Relative path patterns begin at `base`, `~` is `home`; both absolute and resolved."""

    tool: str
    pattern: str | None  # None or `*` for the whole tool
    source: Source = "session"
    base: str = "/"
    home: str = "/"

    def __str__(self) -> str:
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"

    @property
    def is_whole(self) -> bool:
        """Does it cover the whole tool, whatever the arguments?"""
        if self.pattern is None:
            return True
        return self.tool in SHELL and command_pattern(self.pattern).whole


class Problem(Struct, frozen=True):
    """A rule that cannot be used, and why; the others still hold."""

    text: str
    source: Source
    reason: str

    def __str__(self) -> str:
        return f"the permission rule `{shown(self.text, 100)}` ({self.source}) is ignored: {self.reason}"


class Rules(Struct, frozen=True):
    """Deny beats ask beats allow, wherever each comes from. `outside` lists commands that run outside the sandbox; the
    other three decide whether they may run."""

    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    outside: tuple[Rule, ...] = ()

    def __add__(self, other: "Rules") -> "Rules":
        return Rules(
            self.allow + other.allow, self.ask + other.ask, self.deny + other.deny, self.outside + other.outside
        )


def parse_rule(text: str, source: Source, base: str = "/", home: str = "/") -> Rule | Problem:
    """A rule, or what is wrong with it. Never raises: one bad rule must not discard the others."""
    found = _RULE.fullmatch(text)
    if found is None:
        return Problem(text, source, "write `Tool` or `Tool(pattern)`, such as `Bash(git log *)` or `Edit(src/**)`")
    tool, pattern = RENAMED.get(found[1], found[1]), found[2]
    pattern = pattern.strip() if pattern is not None else None
    if found[1] == "SlashCommand" and pattern is not None:
        pattern = pattern.removeprefix("/").removesuffix(":*")  # our rules name only the command
    reason = _fault(tool, pattern)
    if reason:
        return Problem(text, source, reason)
    return Rule(tool, pattern, source, base.rstrip("/") or "/", home.rstrip("/") or "/")


def _fault(tool: str, pattern: str | None) -> str:
    if tool in _REPLACED:
        return f"there is no such tool; what it did is done by {_REPLACED[tool]}"
    if pattern is None:
        return ""
    if not pattern:
        return "the parentheses are empty; leave them out to mean the whole tool"
    if "\0" in pattern or "\1" in pattern:
        return "it contains control characters"
    if tool.startswith("mcp__"):
        return "rules for MCP tools take no pattern; name the tool, or end its name with `*`"
    if tool == FETCH and not re.fullmatch(r"domain:(\*\.)?[^\s/:*]+", pattern):
        return "write `WebFetch(domain:example.com)`, or `domain:*.example.com` for what is below it"
    return path_problem(pattern) if tool in _ON_PATHS else ""


def parse_rules(texts: Iterable[str], source: Source, base: str, home: str) -> tuple[tuple[Rule, ...], list[Problem]]:
    """The usable rules, and the problems of the others."""
    read = [parse_rule(text, source, base, home) for text in texts]
    return tuple(r for r in read if isinstance(r, Rule)), [r for r in read if isinstance(r, Problem)]


def split_rules(text: str) -> list[str]:
    """Splits several rules in one argument at commas and spaces outside parentheses."""
    found, depth, current = list[str](), 0, ""
    for c in text:
        depth = max(0, depth + (c == "(") - (c == ")"))
        if depth == 0 and c in ", \t\n":
            found.append(current)
            current = ""
        else:
            current += c
    return [rule for rule in (*found, current) if rule]


def names_tool(rule: Rule, tool: str) -> bool:
    """Does the rule cover this tool by name, family or MCP server?"""
    if rule.tool == tool or tool in _FAMILIES.get(rule.tool, ()):
        return True
    if not rule.tool.startswith("mcp__"):
        return False
    if "*" in rule.tool:
        return fnmatchcase(tool, rule.tool)
    return rule.tool.count("__") == 1 and tool.startswith(rule.tool + "__")


def whole_rule(rules: Sequence[Rule], tool: str) -> Rule | None:
    """The first rule for this tool as such."""
    return next((r for r in rules if r.is_whole and names_tool(r, tool)), None)


def path_rule(rules: Sequence[Rule], tool: str, paths: Iterable[str], *, wide: bool) -> Rule | None:
    """The first rule whose path pattern covers one of these absolute paths. `wide` for rules that restrict."""
    places = tuple(paths)
    for rule in rules:
        if rule.pattern is None or not names_tool(rule, tool) or rule.tool not in _ON_PATHS:
            continue
        pattern = path_pattern(rule.pattern, rule.base, rule.home)
        if any(pattern.covers(path, wide=wide) for path in places):
            return rule
    return None


def guarded_patterns(rules: Rules) -> tuple[PathPattern, ...]:
    """Patterns of all rules that restrict reading. A command that reads a whole tree is checked for files they
    cover."""
    restricting = [rule for rule in (*rules.deny, *rules.ask) if names_tool(rule, READ)]
    patterns = [path_pattern(rule.pattern, rule.base, rule.home) for rule in restricting if rule.pattern is not None]
    return tuple(dict.fromkeys(patterns))


def domain_rule(rules: Sequence[Rule], domain: str, *, wide: bool) -> Rule | None:
    """The first rule for this domain. `wide` is for restricting rules: they also cover subdomains."""
    host = domain.lower().rstrip(".")
    on_domains = (rule for rule in rules if rule.tool == FETCH and rule.pattern is not None)
    return next((rule for rule in on_domains if _names_host(rule.pattern or "", host, wide=wide)), None)


def _names_host(pattern: str, host: str, *, wide: bool) -> bool:
    written = pattern.removeprefix("domain:").lower().rstrip(".")
    name = written.removeprefix("*.")
    itself, below = wide or written == name, wide or written != name
    spelt = spellings(name, wide=wide)
    return (itself and host in spelt) or (below and any(host.endswith("." + one) for one in spelt))


def spellings(name: str, *, wide: bool) -> set[str]:
    """The spellings of a domain on the wire. `wide`: also those of older programs, such as `ss` for `ß`."""
    if name.isascii():
        return {name}
    import unicodedata  # noqa: PLC0415

    plain = unicodedata.normalize("NFKC", name).lower().translate(_DOTS)
    labels = (part if part.isascii() else f"xn--{part.encode('punycode').decode()}" for part in plain.split("."))
    found = {".".join(labels).rstrip(".")}
    if wide:
        try:
            found.add(name.encode("idna").decode().lower().rstrip("."))
        except UnicodeError:
            return found
    return found


def detail_rule(rules: Sequence[Rule], tool: str, detail: str, *, wide: bool) -> Rule | None:
    """The first rule such as `Agent(name)` that matches, ignoring case. An empty detail matches only with `wide`."""
    for rule in rules:
        if rule.pattern is None or not names_tool(rule, tool):
            continue
        if fnmatchcase(detail.lower(), rule.pattern.lower()) if detail else wide:
            return rule
    return None


def hidden_tools(rules: Rules, names: Iterable[str]) -> set[str]:
    """Tools that a deny rule removes as a whole: the model never sees them."""
    return {name for name in names if whole_rule(rules.deny, name)}
