"""Programs that copy, pack or search whole trees, by the arguments that make them do so: what they can show."""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from operator import itemgetter
from pathlib import PurePosixPath

from msgspec import Struct, structs

from teamwright.host.shell.programs.flags import ON_DISK, Shown, Skips
from teamwright.host.shell.programs.git import without_git_options
from teamwright.host.shell.programs.git_shows import EXCLUDES
from teamwright.host.shell.programs.searches import searched


class _Tree(Struct, frozen=True):
    """`when`: the flags that make it read trees. `valued`: flags with a value, which may be the next word, in every
    version; the value of any other flag counts as an operand, which is asked about rather than overlooked. The first
    `skip` operands are something else (an archive, a pattern). `to_last`: its last operand is a destination."""

    when: str
    valued: str = ""
    skip: int = 0
    to_last: bool = False


_TARS = frozenset({"tar", "gtar", "bsdtar"})
_TAR = _Tree(
    "c r u --create --append --update",
    "f C T X b I --file --directory --exclude --files-from --exclude-from --use-compress-program --transform",
)
_GREP = _Tree(
    "r R d --recursive --dereference-recursive --directories",
    "e f A B C m d D --regexp --file --include --exclude --exclude-dir --exclude-from --max-count --context"
    " --after-context --before-context --directories --devices --label",
)
_TREES = {
    "cp": _Tree("r R a --recursive --archive", "t --target-directory", to_last=True),
    "scp": _Tree("r", "c D F i J l o P S X", to_last=True),
    "rsync": _Tree(
        "a r --archive --recursive",
        "e f M T B --exclude --include --filter --exclude-from --include-from --files-from --rsh --rsync-path",
        to_last=True,
    ),
    **dict.fromkeys(_TARS, _TAR),
    "zip": _Tree("r --recurse-paths", "b n t P x i", skip=1),
    **dict.fromkeys(("7z", "7za", "7zr", "7zz"), _Tree("a u", skip=1)),
    **dict.fromkeys(("grep", "egrep", "fgrep"), _GREP),
    "diff": _Tree("r --recursive", "x X U C I F W S --exclude --exclude-from --label"),
}
_OF_GIT = frozenset({"archive", "bundle", "fast-export", "format-patch", "checkout-index", "grep", "diff", "show"})
_LIMITED = frozenset({"archive", "diff", "grep", "show", "format-patch"})  # paths limit what they show
_VALUED = {"archive": "o --output --format --prefix --remote --exec --add-file --add-virtual-file --mtime".split()}
_PATCH = re.compile(r"-[a-z]*[pu]|--patch.*|--cc|-[SGL].*")
_TRACKED = Shown(frozenset({"index", "history"}), program="git", whole=True)
_HERE = frozenset({".", "./"})
_PATH = r"((?:\.?[\w+-][\w.+-]*/)*\.?[\w+-][\w.+-]*"
_BEGINNING = {"rsync": re.compile(rf"/{_PATH}/?)"), **dict.fromkeys(_TARS, re.compile(rf"\./{_PATH})"))}
_NOTHING = re.compile(r"(?!)")


def trees_of(words: Sequence[str]) -> tuple[list[str], Shown]:
    """The operands below which everything may be shown, and how much of that; most commands have none."""
    name = words[0].rpartition("/")[2]
    if name == "git":
        return _of_git(without_git_options(words)[1:])
    tree = _TREES.get(name)
    if tree is None:
        return [], ON_DISK
    read = _read(name, words[1:], tree.valued.split())
    values = dict[str, list[str]]()
    for flag, value in read:
        values.setdefault(flag, []).append(value)
    if not any(one.startswith(flag) for flag in values if flag for one in tree.when.split()):  # or cut short
        return [], ON_DISK
    if tree is _GREP:
        given = not values.keys().isdisjoint({"e", "f", "--regexp", "--file"})
        return values.get("", [])[0 if given else 1 :] or ["."], searched("grep", values)
    named = _named(read) if tree is _TAR else values.get("", [])[tree.skip :]
    if tree.to_last and not (name == "cp" and values.keys() & {"t", "--target-directory"}):
        named = named[:-1]
    return named, structs.replace(ON_DISK, skips=_skips(name, read, here=_HERE.issuperset(named)), program=name)


def _of_git(words: Sequence[str]) -> tuple[list[str], Shown]:
    """Of a command that is not known in full."""
    name = "".join(words[:1])
    if not _shows_contents(name, words):
        return [], ON_DISK
    named = [word for flag, word in _read(name, words[1:], _VALUED.get(name, ())) if not flag]
    if "--no-index" in words:
        return named if name == "diff" else named[1:] or ["."], ON_DISK
    if name not in _LIMITED or "--full-diff" in words:
        return ["."], structs.replace(_TRACKED, program="")
    return _limited([word for word in named[1:] if name == "archive" and not word.startswith(":")], words)


def _shows_contents(name: str, words: Sequence[str]) -> bool:
    if name == "log":
        return any(map(_PATCH.fullmatch, words))
    return name in _OF_GIT and (name != "bundle" or "create" in words)


def _limited(behind: Sequence[str], words: Sequence[str]) -> tuple[list[str], Shown]:
    """`behind`: the paths behind a commit. Others limit a command only together with `--`."""
    paths = words[words.index("--") :] if "--" in words else ()
    skips = Skips(paths=tuple(found[1] for word in paths if (found := EXCLUDES.fullmatch(word))))
    return [*behind] or ["."], structs.replace(_TRACKED, skips=skips, whole=not behind)


def _read(program: str, words: Sequence[str], valued: Sequence[str]) -> list[tuple[str, str]]:
    """The words in order: each flag with its value, and the operands, whose flag is empty."""
    letters = ""
    if program.startswith("7z"):  # a letter, then operands; other flags have values of their own kind
        words = [*words[:1], *(word for word in words[1:] if not word.startswith("-"))]
    if (program in _TARS or program.startswith("7z")) and not "".join(words[:1]).startswith("-"):
        letters, words = "".join(words[:1]), words[1:]
    read, ended = [(letter, "") for letter in letters if letter not in valued], False
    waiting = [letter for letter in letters if letter in valued]
    for word in words:
        if waiting:
            read.append((waiting.pop(0), word))
        elif ended or word == "-" or not word.startswith("-"):
            read.append(("", word))
        elif word == "--":
            ended = True
        else:
            told = list(_flags(word, valued))
            waiting = [flag for flag, value in told if value is None]
            read += [(flag, value) for flag, value in told if value is not None]
    return read


def _flags(word: str, valued: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """The flags in one word; the value is None if the next word is."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        full = name if name in valued else next((one for one in valued if one.startswith(name)), "")
        yield full or name, value if equals or not full else None
        return
    for n, letter in enumerate(word[1:], 2):
        if letter in valued:
            yield letter, word[n:] or None
            return
        yield letter, ""


def _named(read: Sequence[tuple[str, str]]) -> list[str]:
    """The operands, from where tar's `-C` leads."""
    named, folder = list[str](), PurePosixPath()
    for flag, value in read:
        if flag in ("C", "--directory"):
            folder /= value
        elif not flag:
            named.append(str(folder / value))
    return named


def _skips(program: str, read: Sequence[tuple[str, str]], *, here: bool) -> Skips:
    """What it leaves out. `here`: its only tree is the working directory, where patterns with a beginning begin."""
    if program in _TARS:
        read = list(takewhile(itemgetter(0), read))  # GNU tar applies these to the operands behind them alone
    elif program not in ("rsync", "diff") or not {"f", "--filter", "--include-from"}.isdisjoint(dict(read)):
        return Skips()
    out = [value for flag, value in read if flag in ("x", "--exclude")]
    only = tuple(value for flag, value in read if flag == "--include") if out else ()  # the first that fits counts
    paths = _from_here(program, out) if here and not only else ()
    return _of_rsync(out, only, paths) if program == "rsync" else Skips(tuple(out), tuple(out), paths=paths)


def _from_here(program: str, out: Sequence[str]) -> tuple[str, ...]:
    pattern = _BEGINNING.get(program, _NOTHING)
    return tuple(found[1] for one in out if (found := pattern.fullmatch(one)))


def _of_rsync(out: Sequence[str], only: tuple[str, ...], paths: tuple[str, ...]) -> Skips:
    """With a slash at its end, a pattern fits directories alone."""
    names = [one for one in out if not one.startswith("/")]
    return Skips(
        tuple(one for one in names if not one.endswith("/")), tuple(one.rstrip("/") for one in names), only, paths
    )
