"""Programs other than rm that remove files, and which of their words name what is removed."""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.host.git.places import top_of
from teamwright.host.shell.cwd import normal
from teamwright.host.shell.programs.git import subcommand_at
from teamwright.host.shell.words import Word

_ENDS_FILES = re.compile(r"(?:.*/)?(?:rm|grm|mv|unlink|shred|trash|srm|wipe|rmdir)")
_RSYNC_REMOVES = ("--del", "--remove-s")
_FD_RUNS = ("-x", "-X", "--exec")
# Flags of `git clean`, which takes their beginnings too.
_PATTERN_FOLLOWS = re.compile(r"-[^-e]*e|--e[a-z]*")
_DRY = re.compile(r"-[^-e]*n")


def removed_words(words: Sequence[Word], cwd: str | None) -> list[Word]:
    """What this command empties or removes, as named; a trailing `/` marks a directory."""
    name = words[0].text.rpartition("/")[2] if words else ""
    if name == "git":
        return _by_git(words, cwd)
    return _BY_PROGRAM[name](words[1:]) if name in _BY_PROGRAM else []


def _operands(words: Sequence[Word]) -> list[Word]:
    return [word for word in words if not word.text.startswith("-")]


def _inside(word: Word) -> Word:
    return Word(f"{word.text}/", glob=f"{word.glob}/" if word.glob else "", splits=word.splits)


def _by_rsync(words: Sequence[Word]) -> list[Word]:
    """rsync deletes at the destination, or what it sent; a source without a trailing `/` gets its own directory
    there."""
    told = [word.text for word in words if word.text.startswith(_RSYNC_REMOVES)]
    *sources, target = _operands(words) or [Word("")]
    if not told or not sources:
        return []
    sent = sources if any(text.startswith("--remove-s") for text in told) else []
    spreads = [word for word in sources if word.splits or UNKNOWN in word.text or word.text.endswith(("/", "."))]
    gone = sent + ([target] if spreads else [])
    return [_inside(word) for word in gone if ":" not in word.text]


def _by_tar(words: Sequence[Word]) -> list[Word]:
    return _operands(words) if any(word.text.startswith("--remove") for word in words) else []


def _by_zip(words: Sequence[Word]) -> list[Word]:
    moves = any(re.fullmatch(r"-[A-Za-z]*m[A-Za-z]*|--move", word.text) for word in words)
    return _operands(words) if moves else []


def _by_7z(words: Sequence[Word]) -> list[Word]:
    return _operands(words) if any(word.text == "-sdel" for word in words) else []


def _by_gio(words: Sequence[Word]) -> list[Word]:
    return _operands(words[1:]) if words and words[0].text == "trash" else []


def _by_fd(words: Sequence[Word]) -> list[Word]:
    """Treats the pattern and the command as places too: they either are none, or are meant."""
    runs = any(word.text.startswith(_FD_RUNS) for word in words)
    if not runs or not any(_ENDS_FILES.fullmatch(word.text) for word in words):
        return []
    return [_inside(word) for word in (*_operands(words)[1:], Word("."))]


def _by_git(words: Sequence[Word], cwd: str | None) -> list[Word]:
    """`git clean`, whose paths begin at the directory of `-C`."""
    place, at = Word("."), subcommand_at([word.text for word in words])
    if not words[at:] or words[at].text != "clean":
        return []
    for flag, folder in pairwise(words[:at]):
        place = _below(place, folder) if flag.text == "-C" else place
    named, dry = _cleaned(words[at + 1 :])
    if dry:
        return []
    # `:/` and other magic: from the top of the tree, or everything else
    top = "/" if cwd is None else top_of(normal(cwd, place.text))
    special = [place, *([Word(top)] if top else [])] if any(w.text[:1] == ":" for w in named) else []
    return [_inside(word) for word in (*(_below(place, word) for word in named or [Word(".")]), *special)]


def _cleaned(words: Sequence[Word]) -> tuple[list[Word], bool]:
    """The paths that `git clean` with these words is limited to, and whether it only lists them."""
    named, dry, waiting = list[Word](), False, iter(words)
    for word in waiting:
        flag = word.text
        if flag == "--":
            return [*named, *waiting], dry
        unsure = word.splits or (UNKNOWN in flag and flag[0] in ("-", UNKNOWN))
        if not flag.startswith("-"):
            named.append(word)
        elif _PATTERN_FOLLOWS.fullmatch(flag):
            unsure = next(waiting, word).splits
        if unsure:  # it may be any flag
            return [*words, Word(".")], False
        if flag.startswith(("--d", "--no-d")):
            dry = flag.startswith("--d")
        elif _DRY.match(flag):
            dry = True
    return named, dry


def _below(place: Word, word: Word) -> Word:
    if word.text.startswith("/"):
        return word
    glob = f"{place.glob or place.text}/{word.glob or word.text}" if place.glob or word.glob else ""
    return Word(f"{place.text}/{word.text}", glob=glob, splits=place.splits or word.splits)


_BY_PROGRAM: dict[str, Callable[[Sequence[Word]], list[Word]]] = {
    "rsync": _by_rsync,
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _by_tar),
    "zip": _by_zip,
    **dict.fromkeys(("7z", "7za", "7zr", "7zz"), _by_7z),
    **dict.fromkeys(("trash", "trash-put", "rmtrash", "srm", "wipe", "gvfs-trash", "rimraf", "del-cli"), _operands),
    "gio": _by_gio,
    **dict.fromkeys(("fd", "fdfind"), _by_fd),
}
