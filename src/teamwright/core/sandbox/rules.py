"""The sandbox's settings, and which commands they exclude from it."""

import re
from collections.abc import Iterable
from posixpath import normpath

from msgspec import Struct

from teamwright.core.permissions.facts import Command, Runs
from teamwright.core.permissions.patterns import UNKNOWN, WILD, CommandPattern, command_fits, command_pattern, spelt
from teamwright.core.permissions.prefixes import reads_code
from teamwright.core.permissions.rules import Rule
from teamwright.core.sandbox.hosts import Hosts
from teamwright.core.sandbox.path_entry import PathEntry


class SandboxRules(Struct, frozen=True):
    """The combined settings of all sources. Paths are absolute and may hold wildcards, which are expanded against the
    machine's files when a command starts (`Terrain`)."""

    allow_write: tuple[PathEntry, ...] = ()  # with the person's `Edit(path)` allow rules
    deny_write: tuple[str, ...] = ()  # with `Edit` deny rules
    deny_read: tuple[str, ...] = ()  # `credentials.files`, with `Read` deny rules
    allow_read: tuple[PathEntry, ...] = ()
    open_files: bool = False  # `filesystem.disabled`: only the network is fenced
    hosts: Hosts = Hosts()
    sockets: tuple[str, ...] = ()
    all_sockets: bool = False
    excluded: tuple[str, ...] = ()  # patterns as in `Bash(...)`


def rule_paths(rules: Iterable[Rule], tool: str) -> tuple[str, ...]:
    """Paths of permission rules for `Edit` or `Read`, absolute, wildcards included; rules for a whole tool have
    none."""
    found = (_rule_path(rule) for rule in rules if rule.tool == tool and rule.pattern and not rule.is_whole)
    return tuple(dict.fromkeys(path for path in found if path != "/"))


def _rule_path(rule: Rule) -> str:
    """Reads a path like `path_pattern`: a name without a slash matches at any depth."""
    pattern = rule.pattern or ""
    if pattern.startswith("//"):
        return normpath("/" + pattern.lstrip("/"))
    if pattern == "~" or pattern.startswith("~/"):
        return normpath(f"{rule.home}/{pattern[2:]}")
    anywhere = "/" not in pattern.rstrip("/") and pattern.rstrip("/") not in (".", "..", "**")
    return normpath(f"{rule.base}/{'**/' if anywhere else ''}{pattern.lstrip('/')}")


# They change the shell itself, and so the meaning of later commands on the line.
_STATEFUL = frozenset(
    """
    cd pushd popd export declare typeset local readonly unset set shopt alias unalias eval source . exec trap hash
    enable command builtin function coproc read mapfile readarray getopts
    """.split()
)
_WRAPPERS = frozenset(
    """
    env nohup nice ionice timeout time stdbuf setsid chroot sudo doas su xargs parallel watch flock find strace ltrace
    script unshare nsenter busybox
    """.split()
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[.*\])?\+?=")
# A line of nothing but words, quoted or not, and command separators. `2>&1` is the only redirection.
_PLAIN = re.compile(
    r"""(?: '[^'$`]*'               # even in single quotes: nobody should have to know who expands what
          | "[^"$`\\]*"
          | \s2>&1(?=\s|[;|&]|\Z)
          | && | \|\|? | ;
          | [\w\s@%+=:,./*?\[\]~^-]
        )*""",
    re.VERBOSE,
)


_UNSPELLABLE = re.compile(r"[*'\"\0\1\n()]")  # a pattern would give these another meaning


def excluded(runs: Runs, rules: SandboxRules) -> bool:
    """Does the whole line run outside? Only if it consists of nothing but simple commands, all of them excluded."""
    patterns = [command_pattern(text) for text in rules.excluded]
    if not patterns or runs.broken or runs.reads or runs.writes or not _PLAIN.fullmatch(runs.text):
        return False
    if any(_name(command) in _STATEFUL for command in runs.commands):
        return False
    commands = [command for command in runs.commands if not command.shadow]
    return bool(commands) and all(_is_excluded(command, patterns) for command in commands)


def exclusions(runs: Runs) -> tuple[str, ...]:
    """Patterns that exclude the commands of this line word for word; none if they cannot be excluded."""
    lines = [command.views[0].words if command.views else () for command in runs.commands if not command.shadow]
    if any(map(reads_code, lines)) or any(_UNSPELLABLE.search(word) for words in lines for word in words):
        return ()
    found = tuple(dict.fromkeys(spelt(words) for words in lines))
    return found if excluded(runs, SandboxRules(excluded=found)) else ()


def _name(command: Command) -> str:
    words = command.views[0].words if command.views else ()
    return words[0].rpartition("/")[2] if words else ""


def _is_excluded(command: Command, patterns: list[CommandPattern]) -> bool:
    words = command.views[0].words if command.views else ()
    if command.opaque or not words or any(UNKNOWN in word for word in words):
        return False
    name = _name(command)
    if _ASSIGNMENT.match(words[0]) or command.views[0].need is None:
        return False
    return any(
        command_fits(pattern, words) == "yes" and (name not in _WRAPPERS or _spells(pattern, words[0]))
        for pattern in patterns
    )


def _spells(pattern: CommandPattern, name: str) -> bool:
    """A wrapper counts only if the person spelled it out, not if a wildcard happens to match it."""
    return bool(pattern.words) and WILD not in pattern.words[0] and pattern.words[0] == name
