"""Which words of well-known programs are files that they show, and which commands only speak of files."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

_SHOWS = frozenset(
    """
    cat tac head tail nl less more bat batcat grep egrep fgrep rg sed awk gawk cut sort uniq base64 base32 xxd od
    hexdump strings diff cmp cp mv ln dd curl wget tar zip jq yq paste rev fold column tee source . mapfile env
    """.split()
)
_SCRIPTS = frozenset({"sed", "grep", "egrep", "fgrep", "rg", "awk", "gawk", "jq", "yq"})  # before the files
_VALUED = {  # flags whose value is a number or a text
    **dict.fromkeys(("head", "tail"), "nc"),
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg"), "eABCm"),
    **dict.fromkeys(("awk", "gawk"), "vF"),
    "sed": "e",
    "cut": "bcdf",
}
_GIVES_SCRIPT = re.compile(r"-[A-Za-z]*[ef]|--(?:ex?(?:=|$)|exp|reg|fi|from|sou|exec)")
_NUMBER = re.compile(r"-[^\w-].*", re.DOTALL)  # `-$n`
_RECORDS = frozenset({"add", "commit", "merge", "push", "rm", "stash", "tag"})
_INVERTS = re.compile(r"-[A-Za-z]*v[A-Za-z]*|--invert-match")


def shown_by(words: Sequence[str]) -> Iterator[str]:
    """The words that may be a file, if the program shows files."""
    if words and words[0].rpartition("/")[2] in _SHOWS:
        texts = texts_in(words)
        yield from (word for n, word in enumerate(words) if n > 0 and n not in texts)


def texts_in(words: Sequence[str]) -> set[int]:
    """The positions of numbers, patterns and scripts, which are no files. In doubt, a word is a file."""
    name, texts = words[0].rpartition("/")[2], set[int]()
    script = name in _SCRIPTS and not any(map(_GIVES_SCRIPT.match, words))
    flag = re.compile(f"-[A-Za-z]*[{_VALUED[name]}]|--(?:lines|bytes)") if name in _VALUED else _NUMBER
    flags = True
    for n, (before, word) in enumerate(pairwise(words), 1):
        flags = flags and before != "--"
        if flags and (flag.fullmatch(before) or flag.match(word) or _NUMBER.fullmatch(word)):
            texts.add(n)
        elif script and not (flags and word.startswith("-")):
            texts.add(n)
            script = False
    return texts


def is_about_names(words: Sequence[str]) -> bool:
    """Does it record something with a message, or leave out lines?"""
    match words:
        case ["git", name, *_]:
            return name in _RECORDS
        case ["grep" | "egrep" | "fgrep" | "rg", *rest]:
            return any(map(_INVERTS.fullmatch, rest))
        case _:
            return False
