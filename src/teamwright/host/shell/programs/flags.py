"""Flags and operands of commands that only read: any flag that is not listed makes the command unknown."""

import re
import sys
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from teamwright.core.permissions.patterns import UNKNOWN


class Skips(Struct, frozen=True):
    """Which files below a place a command leaves out: by patterns of their names, by those of directories on the way,
    because of an `only` that none of their names fits, by their path (from where the command stands), or because they
    are hidden and no ignore file asks for them."""

    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    hidden: bool = False


class Shown(Struct, frozen=True):
    """Which contents a command can show of what lies below the places that it reads; of no `sources`, only names.

    `whole`: of the whole repository, wherever it stands. `revisions`: those that it names. `from_top`: paths that it
    names from the top of the repository. `program`: whose flags leave something out. `unsure`: any of it, or more.
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
    """What a harmless command touches. `deep`: also everything below the paths it reads. `shown`: what of that it can
    show; None where nobody knows."""

    reads: tuple[str, ...] = ()
    deep: bool = False
    writes: tuple[str, ...] = ()
    shown: Shown | None = None


class Flags(Struct, frozen=True):
    """Flags that change nothing, without and with a value; any other flag makes the command unknown.

    `skip` operands are no paths (a pattern, a format); `most` bounds the others; `free`: no operand is a path.
    """

    short: str = ""
    valued: str = ""
    long: str = ""
    long_valued: str = ""  # one that is in `long` too has a value only behind a `=`
    glued: str = ""  # flags whose value, if they have one, is glued to them
    numbers: bool = False  # -5
    skip: int = 0
    most: int | None = None
    free: bool = False
    deep: str = ""  # flags that make it read below directories; `*` for always
    paths: str = ""  # valued flags whose value is a path that is read
    here: bool = False  # without operands it reads the working directory
    alone: bool = False  # a flag with a value is not understood behind others in one word


NOTHING = Use()
_IS_FLAG = re.compile(r"-[-A-Za-z]")
_PERMUTES = sys.platform != "darwin"  # elsewhere than with GNU a flag behind an operand is an operand


def read_flags(flags: Flags, words: Sequence[str], *, permutes: bool = _PERMUTES) -> Use | None:
    """Flags that are all known, and the operands; None where a flag is not known, or a word that matters."""
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
    """The operands, and every flag with the values that it was given; None where a flag is not known."""
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
    """The flags in one word, the value of the last of them, and where the next word stands."""
    names, value = _split_flag(flags, words[at])
    at += 1
    if names is None:
        return None
    if value is not None:
        return names, [value], at
    if not _takes_value(flags, names[-1]):
        return names, [], at
    if at == len(words) or (_IS_FLAG.match(words[at]) and not _may_be_any(names[-1], words[at])):
        return None  # should the program read it as a flag after all, nobody has looked at it
    return names, [words[at]], at + 1


def _may_be_any(name: str, value: str) -> bool:
    """Values that often begin with a dash, of flags that no program reads otherwise."""
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
