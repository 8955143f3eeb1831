"""Words of programs that name something else than a file of this machine: a ref, an image, a script, a text."""

import re
from collections.abc import Sequence
from itertools import pairwise

from teamwright.core.permissions.programs import texts_in
from teamwright.host.shell.programs.git import without_git_options
from teamwright.host.shell.programs.launchers import launched

_LEFT_OUT = re.compile(r"--(?:exclude|ignore)[\w-]*=")
_LEAVES_OUT = frozenset({"--exclude", "--exclude-dir", "--ignore", "-path", "-name", "-ipath", "-iname", "-wholename"})
_TELL_NAMES = frozenset({"ls", "du", "stat"})
_GREPS = frozenset({"grep", "egrep", "fgrep", "rg"})
_SCRIPTS = frozenset({"npm", "yarn", "pnpm", "bun", "make"})
_NAME = re.compile(r"[\w:-]+")
_REFS_ALONE = frozenset({"branch", "cherry-pick", "fetch", "merge", "pull", "rebase", "revert", "switch", "tag"})
_REFS = _REFS_ALONE | frozenset(
    """
    add bisect checkout clone commit describe mv push remote reset restore rev-parse rm stash submodule worktree
    """.split()
)
_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "kubectl"})
_MOUNTS = re.compile(r"-v|--(?:volume|mount|secret|ssh|env-file|build-context|from-file|from-env-file)")
_MESSAGES = frozenset({"-m", "-am", "--message", "--title", "--body", "--notes"})
_COPIES = frozenset({"cp", "scp", "rsync", "sftp"})
_REMOTE = re.compile(r"[^/]*:.*", re.DOTALL)


def set_aside(words: Sequence[str]) -> set[int]:
    """The positions of words that only leave something out, or that are plain names, patterns and messages."""
    name, pairs = words[0].rpartition("/")[2], list(enumerate(pairwise(words), 1))
    aside = {n for n, (flag, word) in pairs if flag in _LEAVES_OUT or _LEFT_OUT.match(word)}
    if name == "git":
        return _set_aside_by_git(words, pairs, aside)
    if name in _GREPS:
        return aside | texts_in(words)
    if _takes_names(name, words):
        return aside | {n for n, (flag, word) in pairs if not flag.startswith("-") and _NAME.fullmatch(word)}
    return aside


def _takes_names(name: str, words: Sequence[str]) -> bool:
    """Of scripts or containers."""
    if name in _CONTAINERS:
        return {"build", "cp"}.isdisjoint(words)  # what it runs, too
    return name in _SCRIPTS and launched(words) == 0


def _set_aside_by_git(words: Sequence[str], pairs: Sequence[tuple[int, tuple[str, str]]], aside: set[int]) -> set[int]:
    if not _REFS_ALONE.isdisjoint(without_git_options(words)[1:2]):
        return {n for n, (flag, word) in pairs if flag not in ("-F", "--file") and not word.startswith("-")}
    return aside | {n for n, (flag, _) in pairs if flag in _MESSAGES}


def perhaps_files(words: Sequence[str]) -> list[str]:
    """The words that may be or contain a path of this machine."""
    name, known = words[0].rpartition("/")[2], words[1:]
    named = name in _SCRIPTS or (name == "git" and not _REFS.isdisjoint(without_git_options(words)[1:2]))
    if name in _TELL_NAMES or (named and launched(words) == 0):
        return []
    aside = set_aside(words) | texts_in(words)
    return _unlike_names(name, known, [pair for n, pair in enumerate(pairwise(words), 1) if n not in aside])


def _unlike_names(name: str, known: Sequence[str], pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Without images, messages and files of other machines; each word comes with the one before it."""
    if name in _CONTAINERS:
        mounts = [word for flag, word in pairs if _MOUNTS.fullmatch(flag) or _MOUNTS.match(word)]
        return mounts + [word for word in known if "cp" in known and not _REMOTE.fullmatch(word)]
    copies = not _COPIES.isdisjoint((name, *known))
    return [word for flag, word in pairs if flag not in _MESSAGES and not (copies and _REMOTE.fullmatch(word))]
