"""Programs that copy, pack or search whole trees, by the arguments that make them do so: what they can show."""

import re
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct, structs

from teamwright.host.shell.programs.flags import ON_DISK, Shown, Skips
from teamwright.host.shell.programs.git import without_git_options


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
_OF_GIT = frozenset({"archive", "bundle", "fast-export", "format-patch", "checkout-index", "grep", "diff", "show"})
_PATCH = re.compile(r"-[a-z]*[pu]|--patch.*|--cc|-[SGL].*")
_TRACKED = Shown(frozenset({"index", "history"}), program="git")


def trees_of(words: Sequence[str]) -> tuple[list[str], Shown]:
    """The operands below which everything may be shown, and how much of that; most commands have none."""
    name = words[0].rpartition("/")[2]
    if name == "git":
        return _of_git(without_git_options(words)[1:])
    tree = _TREES.get(name)
    if tree is None or not any(tree.when.fullmatch(word) for word in _where_flags_are(name, words)):
        return [], ON_DISK
    named = [word for before, word in pairwise(words) if word[:1] != "-" and before != "--exclude"]
    if tree.to_last and not any(word.startswith(("-t", "--target")) for word in words):
        named = named[:-1]
    out = _left_out(words) if tree.skips else ()
    return named or (["."] if tree.here else []), structs.replace(ON_DISK, skips=Skips(out, out), program=name)


def _of_git(words: Sequence[str]) -> tuple[list[str], Shown]:
    """Of a command that is not known in full."""
    name = "".join(words[:1])
    if name not in _OF_GIT and not (name == "log" and any(map(_PATCH.fullmatch, words))):
        return [], ON_DISK
    named = [word for word in words[1:] if not word.startswith("-")]
    if "--no-index" in words:
        return named if name == "diff" else named[1:] or ["."], ON_DISK
    behind = named[1:] if name == "archive" else []
    return behind or ["."], structs.replace(_TRACKED, whole=not behind)


def _where_flags_are(name: str, words: Sequence[str]) -> Sequence[str]:
    """tar's and 7z's first word is a flag even without a dash."""
    return [word for n, word in enumerate(words[1:]) if word.startswith("-") or (n == 0 and name in _BARE)]


def _left_out(words: Sequence[str]) -> tuple[str, ...]:
    after = [value for flag, value in pairwise(words) if flag == "--exclude"]
    return (*after, *(word.partition("=")[2] for word in words if word.startswith("--exclude=")))
