"""A shell command taken apart: every simple command in it, wherever it stands, and every file it is redirected to.

What the parser does not know, or where bash might read it otherwise, makes the whole command `broken`: it asks.
"""

from teamwright.core.permissions.facts import Runs
from teamwright.host.shell.cwd import CwdTracker, ShellContext
from teamwright.host.shell.destructive import removal_in_text
from teamwright.host.shell.grammar import MOST_WORDS
from teamwright.host.shell.statements import Walk
from teamwright.host.shell.words import Unreadable


def read_command(text: str, tool: str, around: ShellContext) -> Runs:
    """The facts of a shell command. Touches the disk to resolve the paths that it names."""
    walk, broken = Walk(CwdTracker(around, (around.cwd,)), 0, [MOST_WORDS]), ""
    try:
        walk.read(text)
    except Unreadable as error:
        broken = str(error)
    except RecursionError:
        broken = "it is nested too deeply"
    commands, removal = walk.settled(), walk.removal
    if not removal.ruin and (broken or "xargs" in text or any(c.opaque for c in commands)):
        removal = removal_in_text(text, around.home, unread=bool(broken)).or_else(removal)
    return Runs(tool, text, commands, tuple(walk.reads), tuple(walk.writes), broken, removal.ruin, removal.doubt)
