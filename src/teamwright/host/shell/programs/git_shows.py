"""Determines what a reading git command can show: tracked files, the history, or the disk."""

import os.path
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct, field, structs

from teamwright.host.shell.cwd import normal
from teamwright.host.shell.programs.flags import (
    NAMES_ALONE,
    Flags,
    Shown,
    Skips,
    Use,
    read_flags,
    split_words,
)

_REVISION = re.compile(r"[\w./~^@{}+-]+", re.ASCII)
_OF_REVISION = re.compile(r"([\w./~^@{}+-]+):((?:\./)?[\w.+-][\w./+-]*)", re.ASCII)
EXCLUDES = re.compile(r":(?:[!^]|\(exclude\))([\w.+-][\w./+-]*)", re.ASCII)
_PATTERN = re.compile(r"[*?\[\\]")
# For these a path excludes nothing: a log may follow a file to its earlier names.
_WHOLE = frozenset({"log", "whatchanged", "rev-list", "status", "stash"})
_IN_COMMITS = frozenset({"--cached", "--staged", "--merge-base"})  # for diff: the other side is a commit


# Without a patch, these list files.
_LISTS = frozenset(
    """
    --stat --numstat --shortstat --dirstat --name-only --name-status --raw --summary --quiet --no-patch
    --compact-summary q s
    """.split()
)
_PATCHES = frozenset(
    """
    p u U W --patch --patch-with-stat --unified --function-context --word-diff --binary --text --cc c m --check L
    """.split()
)
_COMMIT = re.compile(r"(?:HEAD|@)(?:[~^]\d*)*")


class _Named(Struct):
    """What the operands of a git command name. `unsure`: one of them may be anything."""

    revisions: list[str] = field(default_factory=list[str])
    paths: list[str] = field(default_factory=list[str])
    skipped: list[str] = field(default_factory=list[str])
    inside: list[str] = field(default_factory=list[str])  # `REVISION:PATH`
    patterns: bool = False
    unsure: bool = False

    @property
    def is_whole(self) -> bool:
        """Without a path to limit it, a revision covers the whole repository."""
        only_inside = bool(self.inside) and len(self.revisions) == len(self.inside)
        return self.patterns or not (self.paths or only_inside)


def repository_use(name: str, flags: Flags, words: Sequence[str], cwds: Sequence[str]) -> Use | None:
    """What `git NAME` reads, if it does nothing else; None if a flag is unknown."""
    use, read = read_flags(flags, words, permutes=True), split_words(flags, words, permutes=True)
    if use is None or read is None or not use.deep:
        return use
    operands, values = read
    if _only_lists(name, operands, values):
        return structs.replace(use, reads=(*use.reads, "."), shown=NAMES_ALONE)
    named = _read_operands(name, operands, words, values, cwds)
    whole = name in _WHOLE or named.is_whole
    reads = (*use.reads, *named.inside, *(["."] if whole or named.unsure else []))
    if named.unsure:
        return Use(reads, deep=True, shown=Shown(unsure=True))
    shown = Shown(
        _sources(name, named, values),
        Skips(paths=() if name == "status" else tuple(named.skipped)),  # status compares all files, whatever is named
        whole,
        tuple(named.revisions),
        tuple(named.inside),
        "git",
    )
    return Use(reads, deep=True, shown=shown)


def _only_lists(name: str, operands: Sequence[str], values: Mapping[str, Sequence[str]]) -> bool:
    """Does it show names and numbers alone? `git show` prints a blob whatever its flags."""
    if _LISTS.isdisjoint(values) or not _PATCHES.isdisjoint(values):
        return False
    return name == "diff" or (name == "show" and all(map(_COMMIT.fullmatch, operands)))


def _sources(
    name: str, named: _Named, values: Mapping[str, Sequence[str]]
) -> frozenset[Literal["disk", "index", "history"]]:
    if name == "grep" and "--untracked" in values:
        return frozenset({"disk", "index", "history"})
    if name == "diff" and len(named.paths) == 2:  # outside a repository it compares any two files or directories
        return frozenset({"disk", "index", "history"})
    if name not in ("diff", "grep") or named.revisions or named.inside or not _IN_COMMITS.isdisjoint(values):
        return frozenset({"index", "history"})
    return frozenset({"index"})


def _read_operands(
    name: str, operands: Sequence[str], words: Sequence[str], values: Mapping[str, Sequence[str]], cwds: Sequence[str]
) -> _Named:
    named = _Named()
    behind = list(words[words.index("--") + 1 :]) if "--" in words else []
    front = list(operands[: len(operands) - len(behind)])
    if name == "grep" and "e" not in values:
        named.unsure = not front  # the pattern comes after the `--`
        front = front[1:]
    named.unsure = named.unsure or "L" in values or any("--" in told for told in values.values())
    for word in front:
        _before_dashes(name, word, named, cwds)
    for word in behind:
        _behind_dashes(word, named)
    return named


def _before_dashes(name: str, word: str, named: _Named, cwds: Sequence[str]) -> None:
    """An existing file is a path (or git reports an ambiguity); anything else without wildcards is a revision."""
    if any(os.path.lexists(normal(cwd, word)) for cwd in cwds):
        named.paths.append(word)
    elif _REVISION.fullmatch(word) and not word.startswith("-"):
        named.revisions.append(word)
    elif (found := _OF_REVISION.fullmatch(word)) and name in ("show", "cat-file"):
        named.revisions.append(found[1])
        named.inside.append(found[2])
    elif _PATTERN.search(word) and ":" not in word:
        named.patterns = True
    else:
        named.unsure = True


def _behind_dashes(word: str, named: _Named) -> None:
    if found := EXCLUDES.fullmatch(word):
        named.skipped.append(found[1])
    elif word.startswith(":"):
        named.unsure = True
    elif _PATTERN.search(word):
        named.patterns = True
    else:
        named.paths.append(word)
