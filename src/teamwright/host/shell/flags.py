"""Flags and operands of commands that only read: any flag that is not listed makes the command unknown."""

import re
import sys
from collections.abc import Sequence

from msgspec import Struct

from teamwright.core.permissions.patterns import UNKNOWN


class Use(Struct, frozen=True):
    """What a harmless command touches. `deep`: also everything below the paths it reads."""

    reads: tuple[str, ...] = ()
    deep: bool = False
    writes: tuple[str, ...] = ()


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
        at += 1
        if word == "--":
            operands += words[at:]
            break
        if not word.startswith("-") or word == "-":
            operands.append(word)
            continue
        names, value = _split_flag(flags, word)
        if names is None or (operands and not permutes):
            return None
        for name in names:
            values.setdefault(name, [])
        if value is None and _takes_value(flags, names[-1]):
            if at == len(words) or (_IS_FLAG.match(words[at]) and not _may_be_any(names[-1], words[at])):
                return None  # should the program read it as a flag after all, nobody has looked at it
            value, at = words[at], at + 1
        if value is not None:
            values[names[-1]].append(value)
    return operands, values


def _may_be_any(name: str, value: str) -> bool:
    """Values that often begin with a dash, of flags that no program reads otherwise."""
    return name in ("e", "--regexp") or (name == "--sort" and value[:2] != "--")


def _use(flags: Flags, operands: list[str], reads: list[str], seen: set[str], skipped: int) -> Use | None:
    paths = operands[skipped:]
    if flags.most is not None and len(operands) > flags.most:
        return None
    if any(word.startswith(UNKNOWN) for word in operands):
        return None  # it may turn out to be a flag
    if flags.free:
        return NOTHING
    deep = flags.deep == "*" or not seen.isdisjoint(flags.deep.split())
    if not paths and (flags.here or deep):
        paths = ["."]
    return Use(tuple(reads + [p for p in paths if p != "-"]), deep)


def _split_flag(flags: Flags, word: str) -> tuple[list[str] | None, str | None]:
    """The flags in one word, and the value that is glued to the last one."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        known = f"{flags.long} {flags.long_valued} {flags.paths}".split()
        return ([name] if name in known and UNKNOWN not in name else None), (value if equals else None)
    if flags.numbers and word[1:].isdigit():
        return ["number"], ""
    valued = flags.valued + "".join(p for p in flags.paths.split() if len(p) == 1)
    names: list[str] = []
    for n, letter in enumerate(word[1:], 2):
        names.append(letter)
        if letter in valued:
            return (None, None) if flags.alone and n > 2 else (names, word[n:] or None)
        if letter in flags.glued:
            return names, word[n:]
        if letter not in flags.short:
            return None, None
    return names, ""


def _takes_value(flags: Flags, name: str) -> bool:
    if name.startswith("--"):
        return name in f"{flags.long_valued} {flags.paths}".split() and name not in flags.long.split()
    return name in flags.valued or name in flags.paths.split()
