"""Takes a shell command apart: every simple command in it, wherever it is, and every file it redirects to.

Anything the parser does not know, or bash might read differently, makes the whole command `broken`: it needs approval.
"""

import re
from collections.abc import Sequence
from itertools import chain

from teamwright.core.permissions.facts import Command, Runs
from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.core.permissions.prefixes import reads_code
from teamwright.host.shell.cwd import CwdTracker, ShellContext
from teamwright.host.shell.grammar import MOST_WORDS
from teamwright.host.shell.pieces import Unreadable
from teamwright.host.shell.programs.destructive import Removal, removal_in_text
from teamwright.host.shell.programs.git import subcommand_at
from teamwright.host.shell.statements import Walk

_SETS_HOME = re.compile(r"(?<![$\w{])HOME\b")
_MOVES_TREE = re.compile(r"GIT_(?:WORK_TREE|DIR)\b|(?i:core\.worktree)")
_TREE_OPTIONS = ("--work-tree", "--git-dir")


def read_command(text: str, tool: str, around: ShellContext) -> Runs:
    """The facts of a shell command. Touches the disk to resolve the paths that it names."""
    walk, broken = Walk(CwdTracker(around, (around.cwd,)), 0, [MOST_WORDS]), ""
    try:
        walk.read(text)
    except Unreadable as error:
        broken = str(error)
    except RecursionError:
        broken = "it is nested too deeply"
    commands = walk.settled()
    removal = _removal(text, walk.removal, commands, around.home, broken=bool(broken))
    return Runs(tool, text, commands, tuple(walk.reads), tuple(walk.writes), broken, removal.ruin, removal.doubt)


def _removal(text: str, removal: Removal, commands: Sequence[Command], home: str, *, broken: bool) -> Removal:
    doubt = "it cannot be read, and seems to move something" if broken and re.search(r"\bmv\b", text) else ""
    removal = removal.or_else(Removal(doubt=doubt, shifts=bool(_SETS_HOME.search(text))))
    removal = removal.settled(text, elsewhere=removal.cleans and any(map(_moves_tree, commands)))
    if removal.ruin:
        return removal
    if broken:
        return removal_in_text(text, home, seen=0).or_else(removal)
    if "xargs" not in text and not any(c.opaque or any(reads_code(view.words) for view in c.views) for c in commands):
        return removal
    if any(map(_feeds_removal, commands)):
        removal = removal.or_else(Removal(doubt="what it would remove is read when it runs"))
    seen = sum(map(_is_removal, commands)) if any(map(_runs_unseen, commands)) else None
    return removal_in_text(text, home, seen=seen).or_else(removal)


def _moves_tree(command: Command) -> bool:
    """Could it make git work on another tree, by an option, a variable or a setting?"""
    if command.harmless:
        return False
    told = [view.words for view in command.views]
    named = [word.partition(" ")[0] for word in chain(*told)]  # a message may mention it further on
    code = [command.shown] if command.opaque else []
    return any(map(_MOVES_TREE.search, (*named, *code))) or any(map(_names_tree, told))


def _names_tree(words: Sequence[str]) -> bool:
    is_git = words[:1] and words[0].rpartition("/")[2] == "git"
    return bool(is_git) and any(word.startswith(_TREE_OPTIONS) for word in words[1 : subcommand_at(words)])


def _feeds_removal(command: Command) -> bool:
    """Does it contain an xargs with unknown flags, followed by a recursive rm?"""
    words = [word.rpartition("/")[2] for view in command.views for word in view.words] if command.opaque else []
    behind = words[words.index("xargs") :] if "xargs" in words else []
    return "rm" in behind and any(re.fullmatch(r"-[A-Za-z]*[rR][A-Za-z]*|--r[a-z]*", word) for word in behind)


def _runs_unseen(command: Command) -> bool:
    """Can it run code that is not listed separately?"""
    unknown = any(UNKNOWN in word for view in command.views for word in view.words[:1])
    return bool(command.opaque) and (command.shadow or unknown)


def _is_removal(command: Command) -> bool:
    names = {word.rpartition("/")[2] for view in command.views for word in view.words[:1]}
    return not names.isdisjoint({"rm", "find", "git"})
