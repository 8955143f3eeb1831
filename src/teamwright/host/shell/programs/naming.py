"""Words of programs that name something else than a file of this machine: a ref, an image, a script, a text."""

import re
from collections.abc import Sequence
from itertools import pairwise

from teamwright.host.shell.programs.git import without_git_options
from teamwright.host.shell.programs.launchers import launched

LEFT_OUT = re.compile(r"--(?:exclude|ignore)[\w-]*=")
LEAVES_OUT = frozenset({"--exclude", "--exclude-dir", "--ignore", "-path", "-name", "-ipath", "-iname", "-wholename"})
_TELL_NAMES = frozenset({"ls", "du", "stat"})
_SCRIPTS = frozenset({"npm", "yarn", "pnpm", "bun", "make"})
_REFS = frozenset(
    """
    add bisect branch checkout cherry-pick clone commit describe fetch merge mv pull push rebase remote reset restore
    rev-parse revert rm stash submodule switch tag worktree
    """.split()
)
_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
_MOUNTS = re.compile(r"-[vf]|--(?:volume|mount|secret|ssh|file|env-file|build-context|config)")
_MESSAGES = frozenset({"-m", "--message", "--title", "--body", "--notes"})
_COPIES = frozenset({"cp", "scp", "rsync", "sftp"})
_REMOTE = re.compile(r"[^/]*:.*", re.DOTALL)


def perhaps_files(words: Sequence[str]) -> list[str]:
    """The words that may be or contain a path of this machine."""
    name, known = words[0].rpartition("/")[2], words[1:]
    named = name in _SCRIPTS or (name == "git" and not _REFS.isdisjoint(without_git_options(words)[1:2]))
    if name in _TELL_NAMES or (named and launched(words) == 0):
        return []
    pairs = [
        (before, word) for before, word in pairwise(words) if before not in LEAVES_OUT and not LEFT_OUT.match(word)
    ]
    if name in _CONTAINERS:
        mounts = [word for before, word in pairs if _MOUNTS.fullmatch(before) or _MOUNTS.match(word)]
        return mounts + [word for word in known if "cp" in known and not _REMOTE.fullmatch(word)]
    copies = not _COPIES.isdisjoint((name, *known))
    return [word for before, word in pairs if before not in _MESSAGES and not (copies and _REMOTE.fullmatch(word))]
