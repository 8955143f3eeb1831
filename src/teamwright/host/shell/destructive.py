"""Commands that remove a home or the root directory, which is refused in every mode, and those that might."""

import os.path
import re
from collections.abc import Iterator, Sequence
from glob import iglob
from itertools import islice, pairwise

from msgspec import Struct

from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.host.shell.words import FOUND_PATH, Word

_HOMES = re.compile(r"/root|/home(/[^/]+)?|/Users(/[^/]+)?")
_ALL = re.compile(r"(?:\.?\*|\.\[!\.\]\*|\.\?\?\*|\*\.\*|\?\*)+")  # wildcards that stand for a whole directory
_SEGMENT = re.compile(r"[;&|\n()`]+")
_TOKEN = re.compile(r"[\s'\"<>\\,\[\]]+")
_QUOTES = re.compile(r"\\\n|['\"\\]")
_REMOVES = re.compile(r"(?<![\w.-])(?:rm|-delete)(?![\w.-])")
_RECURSIVE = re.compile(r"-[A-Za-z]*[rR][A-Za-z]*|--r[a-z]*")
_BY_NAME = frozenset({"-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex"})
_BY_KIND = frozenset(
    {
        "-newer",
        "-mtime",
        "-mmin",
        "-atime",
        "-ctime",
        "-amin",
        "-cmin",
        "-user",
        "-group",
        "-empty",
        "-size",
        "-perm",
        "-inum",
        "-samefile",
        "-links",
    }
)
_WIDENS = frozenset({"!", "-not", "-o", "-or", ","})
_MOST_MATCHES = 1_000


class Removal(Struct, frozen=True):
    """`ruin`: the home or root directory that is removed. `doubt`: why nobody can tell whether one is."""

    ruin: str = ""
    doubt: str = ""

    def or_else(self, other: "Removal") -> "Removal":
        return Removal(self.ruin or other.ruin, self.doubt or other.doubt)


SAFE = Removal()
_UNSURE = Removal(doubt="what it would remove is only known when it runs")


def removal_of(words: Sequence[Word], cwd: str | None, home: str) -> Removal:
    """What this one command comes to. `cwd` is None where nobody knows it."""
    name = words[0].text.rpartition("/")[2] if words else ""
    if name == "rm":
        return _by_rm(words[1:], cwd, home)
    if name == "find":
        return _by_find(words[1:], cwd, home)
    if UNKNOWN in name and any(_RECURSIVE.fullmatch(w.text) for w in words[1:]):
        removal = _by_rm(words[1:], cwd, home)  # it may turn out to be rm
        return _UNSURE if removal.ruin else SAFE
    return SAFE


def _by_rm(words: Sequence[Word], cwd: str | None, home: str) -> Removal:
    removal = SAFE
    for word in words:
        if word.text[:1] != "-":
            removal = removal.or_else(_of_path(word, cwd, home))
    if any(_RECURSIVE.fullmatch(w.text) for w in words):
        return removal
    if any(w.splits for w in words) or (removal.ruin and any(w.text.startswith(UNKNOWN) for w in words)):
        return _UNSURE  # there may be a flag in it
    return SAFE


def _of_path(word: Word, cwd: str | None, home: str) -> Removal:
    if word == FOUND_PATH:
        return SAFE  # below where `find` begins, which is looked at by itself
    path = word.glob or word.text
    if word.splits or (UNKNOWN in path) or (cwd is None and not path.startswith("/")):
        return _UNSURE
    found = next((r for one in _expanded(path, cwd or "/", glob=bool(word.glob)) if (r := _ruins(one, cwd, home))), "")
    return Removal(ruin=found)


def _expanded(path: str, cwd: str, *, glob: bool) -> Iterator[str]:
    """What it stands for, and every directory of which it stands for all."""
    yield path
    if not glob:
        return
    parts = path.rstrip("/").split("/")
    while len(parts) > 1 and _ALL.fullmatch(parts[-1]):
        parts.pop()
    try:
        for pattern in dict.fromkeys((path, "/".join(parts) + "/")):
            yield from islice(iglob(pattern, root_dir=cwd), _MOST_MATCHES)  # noqa: PTH207  # as a shell matches
    except (OSError, ValueError):
        return


def _by_find(words: Sequence[Word], cwd: str | None, home: str) -> Removal:
    texts = [w.text for w in words]
    removes = "-delete" in texts or any(
        a in ("-exec", "-execdir", "-ok", "-okdir") and b.rpartition("/")[2] == "rm" for a, b in pairwise(texts)
    )
    named = any(a in _BY_NAME and re.search(r"\w", b) for a, b in pairwise(texts)) and _WIDENS.isdisjoint(texts)
    if not removes or named:
        return SAFE
    starts: list[Word] = []
    for word in words:
        if word.text.startswith("-") and starts:
            break
        starts += [word] if not word.text.startswith("-") else []
    removal = SAFE
    for start in starts or [Word(".")]:
        removal = removal.or_else(_of_path(start, cwd, home))
    some = not _BY_KIND.isdisjoint(texts)
    return Removal(doubt=f"it would remove much of {removal.ruin}") if removal.ruin and some else removal


def _ruins(path: str, cwd: str | None, home: str) -> str:
    """The place that goes with this path, if a home is it or lies in it."""
    if not path:
        return ""
    parts = (path if path.startswith("/") else f"{cwd or '/'}/{path}").split("/")
    inside = parts[-1] in ("", ".", "..")  # then a link is followed
    while parts and (parts[-1] in ("", ".") or _ALL.fullmatch(parts[-1])):
        inside = inside or parts[-1] not in ("", ".")
        parts.pop()
    whole = "/".join(parts) or "/"
    above, _, name = whole.rpartition("/")
    try:
        real = os.path.realpath(whole) if inside else f"{os.path.realpath(above or '/').rstrip('/')}/{name}"
    except (OSError, ValueError):
        real = whole
    return next((p for p in (os.path.normpath(whole).replace("//", "/"), real) if _holds_home(p, home)), "")


def _holds_home(place: str, home: str) -> bool:
    return home == place or home.startswith(place.rstrip("/") + "/") or _HOMES.fullmatch(place) is not None


def removal_in_text(text: str, home: str, *, unread: bool) -> Removal:
    """The same for text that could not be understood, by its words alone."""
    feeds = "xargs" in text
    for segment in [text] if feeds else _SEGMENT.split(text):
        tokens = [_at_home(token, home) for token in _TOKEN.split(segment)]
        at = next((n for n, t in enumerate(tokens) if t.rpartition("/")[2] == "rm"), None)
        if at is None or not any(_RECURSIVE.fullmatch(t) for t in tokens[at:]):
            continue
        named = tokens if feeds else tokens[at + 1 :]
        if found := next((r for t in named if t.startswith("/") and (r := _ruins(t, "/", home))), ""):
            return Removal(ruin=found)
    bare = _QUOTES.sub("", text)
    if unread and _REMOVES.search(bare):
        return Removal(doubt="it cannot be read, and seems to remove something")
    return SAFE


def _at_home(token: str, home: str) -> str:
    for spelling in ("${HOME}", "$HOME", "~"):
        if token == spelling or token.startswith(spelling + "/"):
            return home + token[len(spelling) :]
    return token
