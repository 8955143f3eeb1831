"""Programs that copy, pack or search whole trees, by the arguments that make them do so: what they can show."""

import re
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct, structs

from teamwright.host.shell.programs.flags import ON_DISK, Shown, Skips


class _Tree(Struct, frozen=True):
    """`when`: the word that makes it read trees. `to_last`: its last operand is a destination. `here`: without
    operands it reads the working directory. `skips`: it leaves out names by `--exclude`."""

    when: re.Pattern[str]
    to_last: bool = False
    here: bool = False
    skips: bool = False


_SEARCH = _Tree(re.compile(r"-[A-Za-z]*[rRd][A-Za-z]*|--(?:recursive|dereference-recursive|directories.*)"), here=True)
_TAR = _Tree(re.compile(r"-?[A-Za-z]*[cru][A-Za-z]*|--(?:create|append|update)"), skips=True)
_ARCHIVE = _Tree(re.compile(r"[au]"))
_TREES = {
    "cp": _Tree(re.compile(r"-[A-Za-z]*[rRa][A-Za-z]*|--(?:recursive|archive)"), to_last=True),
    "scp": _Tree(re.compile(r"-[A-Za-z0-9]*r[A-Za-z0-9]*"), to_last=True),
    "rsync": _Tree(re.compile(r"-[A-Za-z0-9]*[ar][A-Za-z0-9]*|--(?:recursive|archive)"), to_last=True, skips=True),
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _TAR),
    "zip": _Tree(re.compile(r"-[A-Za-z]*r[A-Za-z]*|--recurse-paths")),
    **dict.fromkeys(("7z", "7za", "7zr", "7zz"), _ARCHIVE),
    **dict.fromkeys(("grep", "egrep", "fgrep"), _SEARCH),
    "diff": _Tree(re.compile(r"-[A-Za-z]*r[A-Za-z]*|--recursive")),
}
_BARE = frozenset({"tar", "gtar", "bsdtar", "7z", "7za", "7zr", "7zz"})
_OF_GIT = frozenset({"archive", "bundle", "fast-export", "format-patch", "checkout-index"})
_TRACKED = Shown(frozenset({"index", "history"}), program="git")


def trees_of(words: Sequence[str]) -> tuple[list[str], Shown]:
    """The operands below which everything may be shown, and how much of that; most commands have none."""
    name = words[0].rpartition("/")[2]
    if name == "git" and not _OF_GIT.isdisjoint(words[1:2]):
        behind = [word for word in words[2:] if not word.startswith("-")][1:] if words[1] == "archive" else []
        return behind or ["."], structs.replace(_TRACKED, whole=not behind)
    tree = _TREES.get(name)
    if tree is None or not any(tree.when.fullmatch(word) for word in _where_flags_are(name, words)):
        return [], ON_DISK
    named = [word for before, word in pairwise(words) if word[:1] != "-" and before != "--exclude"]
    if tree.to_last and not any(word.startswith(("-t", "--target")) for word in words):
        named = named[:-1]
    out = _left_out(words) if tree.skips else ()
    return named or (["."] if tree.here else []), structs.replace(ON_DISK, skips=Skips(out, out), program=name)


def _where_flags_are(name: str, words: Sequence[str]) -> Sequence[str]:
    """tar's and 7z's first word is a flag even without a dash."""
    return [word for n, word in enumerate(words[1:]) if word.startswith("-") or (n == 0 and name in _BARE)]


def _left_out(words: Sequence[str]) -> tuple[str, ...]:
    after = [value for flag, value in pairwise(words) if flag == "--exclude"]
    return (*after, *(word.partition("=")[2] for word in words if word.startswith("--exclude=")))
