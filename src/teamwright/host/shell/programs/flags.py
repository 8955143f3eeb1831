"""Flags and operands of commands that only read: an unlisted flag makes the command unknown."""

import re
import sys
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from teamwright.core.permissions.patterns import UNKNOWN


class Skips(Struct, frozen=True):
    """Which files below a place a command skips: by patterns of file names or of directories on the way, because no
    name matches `only`, by path (relative to the command's directory), or because they are hidden and no ignore file
    includes them."""

    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    hidden: bool = False


class Shown(Struct, frozen=True):
    """What a command can show of the content below the places it reads; without `sources`, only names.

    `whole`: of the whole repository, from anywhere in it. `revisions`: those it names. `from_top`: paths it names
    relative to the top of the repository. `program`: the one whose flags can exclude something. `unsure`: anything,
    perhaps more.
    """

    sources: frozenset[Literal["disk", "index", "history"]] = frozenset()
    skips: Skips = Skips()
    whole: bool = False
    revisions: tuple[str, ...] = ()
    from_top: tuple[str, ...] = ()
    program: str = ""
    unsure: bool = False


NAMES_ALONE = Shown()
ON_DISK = Shown(frozenset({"disk"}))


class Use(Struct, frozen=True):
    """What a harmless command touches. `deep`: also everything below the paths it reads. `shown`: how much of that it
    can show; None if unknown."""

    reads: tuple[str, ...] = ()
    deep: bool = False
    writes: tuple[str, ...] = ()
    shown: Shown | None = None


class Flags(Struct, frozen=True):
    """Known harmless flags, without and with a value; any other flag makes the command unknown.

    The first `skip` operands are not paths (a pattern, a format); `most` limits the others; `free`: no operand is a
    path.
    """

    short: str = ""
    valued: str = ""
    long: str = ""
    long_valued: str = ""  # if also in `long`, its value must follow a `=`
    glued: str = ""  # flags with an optional value that is attached
    numbers: bool = False  # -5
    skip: int = 0
    most: int | None = None
    free: bool = False
    deep: str = ""  # flags that make it recurse into directories; `*`: always
    paths: str = ""  # flags whose value is a path that is read
    here: bool = False  # reads the working directory if there are no operands
    alone: bool = False  # does not understand a flag with a value after others in one word


NOTHING = Use()
_IS_FLAG = re.compile(r"-[-A-Za-z]")
_PERMUTES = sys.platform != "darwin"  # other than with GNU, a flag after an operand is an operand


def read_flags(flags: Flags, words: Sequence[str], *, permutes: bool = _PERMUTES) -> Use | None:
    """What a command reads if all its flags are known; None for unknown flags or unclear words."""
    read = split_words(flags, words, permutes=permutes)
    if read is None:
        return None
    operands, values = read
    reads = [value for name, told in values.items() if name in flags.paths.split() for value in told]
    skipped = 0 if not values.keys().isdisjoint({"e", "f", "--regexp", "--file", "--files"}) else flags.skip
    return _use(flags, operands, reads, set(values), skipped)


def split_words(
    flags: Flags, words: Sequence[str], *, permutes: bool = _PERMUTES
) -> tuple[list[str], dict[str, list[str]]] | None:
    """The operands, and every flag with its values; None if a flag is unknown."""
    operands, values, at = list[str](), dict[str, list[str]](), 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return operands + list(words[at + 1 :]), values
        if word == "-" or word[:1] != "-":
            operands.append(word)
            at += 1
            continue
        read = None if operands and not permutes else _read_flag(flags, words, at)
        if read is None:
            return None
        names, told, at = read
        for name in names:
            values.setdefault(name, [])
        values[names[-1]] += told
    return operands, values


def _read_flag(flags: Flags, words: Sequence[str], at: int) -> tuple[list[str], Sequence[str], int] | None:
    """The flags in one word, the value of the last one, and the position of the next word."""
    names, value = _split_flag(flags, words[at])
    at += 1
    if names is None:
        return None
    if value is not None:
        return names, [value], at
    if not _takes_value(flags, names[-1]):
        return names, [], at
    if at == len(words) or (_IS_FLAG.match(words[at]) and not _may_be_any(names[-1], words[at])):
        return None  # if the program reads it as a flag after all, it would be unchecked
    return names, [words[at]], at + 1


def _may_be_any(name: str, value: str) -> bool:
    """Values that often start with a dash, of flags that every program reads alike."""
    return name in ("e", "--regexp") or (name == "--sort" and value[:2] != "--")


def _use(flags: Flags, operands: list[str], reads: list[str], seen: set[str], skipped: int) -> Use | None:
    if flags.most is not None and len(operands) > flags.most:
        return None
    if any(word.startswith(UNKNOWN) for word in operands):
        return None  # it may turn out to be a flag
    if flags.free:
        return NOTHING
    deep = _reads_below(flags, seen)
    here = ["."] if flags.here or deep else []
    return Use((*reads, *(path for path in operands[skipped:] or here if path != "-")), deep)


def _reads_below(flags: Flags, seen: set[str]) -> bool:
    return flags.deep == "*" or not seen.isdisjoint(flags.deep.split())


def _split_flag(flags: Flags, word: str) -> tuple[list[str] | None, str | None]:
    """The flags in one word, and the value that is glued to the last one."""
    if word.startswith("--"):
        return _split_long(flags, word)
    if flags.numbers and word[1:].isdigit():
        return ["number"], ""
    return _split_letters(flags, word)


def _split_letters(flags: Flags, word: str) -> tuple[list[str] | None, str | None]:
    for n, letter in enumerate(word[1:], 2):
        names = list(word[1:n])
        if letter in flags.valued or letter in flags.paths.split():
            return (None, None) if flags.alone and n > 2 else (names, word[n:] or None)
        if letter in flags.glued:
            return names, word[n:]
        if letter not in flags.short:
            return None, None
    return list(word[1:]), ""


def _split_long(flags: Flags, word: str) -> tuple[list[str] | None, str | None]:
    name, equals, value = word.partition("=")
    known = f"{flags.long} {flags.long_valued} {flags.paths}".split()
    return ([name] if name in known and UNKNOWN not in name else None), (value if equals else None)


def _takes_value(flags: Flags, name: str) -> bool:
    if name.startswith("--"):
        return name in f"{flags.long_valued} {flags.paths}".split() and name not in flags.long.split()
    return name in flags.valued or name in flags.paths.split()
