"""Commands that remove a home or the root directory, which is refused in every mode, and those that might."""

import os.path
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from glob import iglob
from itertools import islice, pairwise

from msgspec import Struct, structs

from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.host.shell.cwd import leads_through_proc, normal
from teamwright.host.shell.words import FOUND_PATH, Word

_HOMES = re.compile(r"/root|/home(/[^/]+)?|/Users(/[^/]+)?")
_ALL = re.compile(r"\.?(?:\[!\.\])?[.?*]*\*[.?*]*")  # wildcards that stand for a whole directory
_SEGMENT = re.compile(r"[;&|\n()`]+")
_TOKEN = re.compile(r"[\s'\"<>\\,\[\]]+")
_QUOTES = re.compile(r"\\\n|['\"\\]")
_REMOVES = re.compile(r"(?<![\w.-])(?:rm|-delete)(?![\w.-])")
_RECURSIVE = re.compile(r"-[A-Za-z]*[rR][A-Za-z]*|--r[a-z]*")
_BY_NAME = frozenset({"-name", "-iname"})
_BY_PATH = frozenset({"-path", "-ipath", "-wholename", "-iwholename"})
_ENDS_FILES = re.compile(r"(?<![\w.-])(?:rm|mv|unlink|shred)(?![\w.-])")
_FOLLOWS = frozenset({"-L", "-H", "-follow"})
_ANY_NAMES = ("q7", ".q7", "Q7.q7")  # that nobody has in mind: what matches one of them matches most
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
_MOST_PATTERN = 200
_OPENS = re.compile(f"[{UNKNOWN}*?{{[]")
_NAMES_HOME = re.compile(r"~|HOME|PWD|\bpwd\b|(?<![\w/.])\.\.(?![\w.])|/home|/root|/Users")


class Removal(Struct, frozen=True):
    """`ruin`: the home or root directory that is removed. `doubt`: why nobody can tell whether one is.

    `deep`: it removes what lies below a place; `shifts`: it changes which place that is; `moves`: it moves away what
    only a value names.
    """

    ruin: str = ""
    doubt: str = ""
    deep: bool = False
    shifts: bool = False
    moves: bool = False

    def or_else(self, other: "Removal") -> "Removal":
        return Removal(
            self.ruin or other.ruin,
            self.doubt or other.doubt,
            self.deep or other.deep,
            self.shifts or other.shifts,
            self.moves or other.moves,
        )

    def settled(self, text: str) -> "Removal":
        """With what only the whole line tells."""
        unsure = (self.deep and self.shifts) or (self.moves and _NAMES_HOME.search(text))
        return structs.replace(self, doubt=self.doubt or (_UNSURE.doubt if unsure else ""))


SAFE = Removal()
SHIFTS = Removal(shifts=True)
_UNSURE = Removal(doubt="what it would remove is only known when it runs")


def removal_of(words: Sequence[Word], cwd: str | None, home: str) -> Removal:
    """What this one command comes to. `cwd` is None where nobody knows it."""
    name = words[0].text.rpartition("/")[2] if words else ""
    if name == "rm":
        return _by_rm(words[1:], cwd, home)
    if name == "find":
        return _by_find(words[1:], cwd, home)
    if name == "mv":
        return _by_mv(words[1:], cwd, home)
    if name == "ln":
        leads = any(UNKNOWN in w.text or _ruins(w.text, cwd, home) for w in words[1:] if w.text[:1] != "-")
        return SHIFTS if leads else SAFE
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
        return structs.replace(removal, deep=True)
    if any(w.splits for w in words) or (removal.ruin and any(w.text.startswith(UNKNOWN) for w in words)):
        return _UNSURE  # there may be a flag in it
    return SAFE


def _by_mv(words: Sequence[Word], cwd: str | None, home: str) -> Removal:
    """Moved away is gone, too. What is not known may well be anything else."""
    named = [w for w in words if w.text[:1] != "-"]
    last = len(named) if any(w.text.startswith(("-t", "--t")) for w in words) else -1
    found = [_of_path(word, cwd, home) for word in named[:last]]
    if cwd is None:
        unsure = any(_ALL.fullmatch(w.glob.rpartition("/")[2]) for w in named[:last] if w.glob[:1] != "/")
    else:
        unsure = _holds_home(cwd, home) and any(w.splits for w in named)
        unsure = unsure or leads_through_proc(cwd)
    unsure = unsure or any(leads_through_proc(w.text) for w in named if w.text[:1] == "/" and UNKNOWN not in w.text)
    ruin = next((r.ruin for r in found if r.ruin), "")
    unsure = unsure or any(w.splits and _may_become_home(w, cwd, home) for w in named)
    moves = any(UNKNOWN in w.text and not w.glob for w in named[:last]) or any(w.splits for w in named)
    return Removal(ruin, _UNSURE.doubt if unsure else "", moves=moves)


def _may_become_home(word: Word, cwd: str | None, home: str) -> bool:
    """Does what is known of a word with brackets or braces, its beginning, lead to a home?"""
    head, slash, part = _OPENS.split(word.text, maxsplit=1)[0].rpartition("/")
    if not slash and not part:
        return False
    base = normal(cwd or "/", head + slash)
    return home.startswith(f"{base.rstrip('/')}/{part}") or (word.wild and base == home)


def _of_path(word: Word, cwd: str | None, home: str) -> Removal:
    if word.text == FOUND_PATH.text:
        return SAFE  # below where `find` begins, which is looked at by itself
    path = word.glob or word.text
    if word.splits or (UNKNOWN in path) or (cwd is None and not path.startswith("/")):
        return _UNSURE
    if leads_through_proc(f"{cwd or ''}/{path}" if path[:1] != "/" else path):
        return _UNSURE  # for each process another place
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
    runs = next((n for n, t in enumerate(texts) if t in ("-exec", "-execdir", "-ok", "-okdir")), len(texts))
    ends = "-delete" in texts or any(_ENDS_FILES.search(_QUOTES.sub("", t)) for t in texts[runs:])
    if not ends and not any(UNKNOWN in t for t in texts[runs:]):
        return SAFE
    starts: list[Word] = []
    for word in words:
        if word.text.startswith("-") and starts:
            break
        starts += [word] if not word.text.startswith("-") else []
    tests = [(a.text, b.glob or b.text) for a, b in pairwise(words)]
    if _WIDENS.isdisjoint(texts) and any(_is_narrow(flag, told, starts, home) for flag, told in tests):
        return SAFE
    removal = Removal(deep=True)
    follows = not _FOLLOWS.isdisjoint(texts)
    for start in starts or [Word(".")]:
        removal = removal.or_else(_of_path(_entered(start) if follows else start, cwd, home))
    if follows:  # any link below may lead to a home
        removal = removal.or_else(_UNSURE)
    if not ends:  # what it runs may turn out to remove
        return _UNSURE if removal.ruin else SAFE
    if removal.ruin and not _BY_KIND.isdisjoint(texts):
        return structs.replace(removal, ruin="", doubt=f"it would remove much of {removal.ruin}")
    return removal


def _entered(start: Word) -> Word:
    """A link is followed to what it leads to."""
    return structs.replace(start, text=f"{start.text}/", glob=f"{start.glob}/" if start.glob else "")


def _is_narrow(flag: str, pattern: str, starts: Sequence[Word], home: str) -> bool:
    """Does this test keep most files from being found?"""
    if UNKNOWN in pattern or not re.search(r"\w", pattern) or len(pattern) > _MOST_PATTERN:
        return False
    if flag in _BY_NAME:
        return not any(fnmatchcase(name, pattern) for name in _ANY_NAMES)
    if flag in _BY_PATH:
        tops = [home, *(start.text.rstrip("/") for start in starts or [Word(".")])]
        return not any(fnmatchcase(f"{top}/{n}", pattern) for top in tops for n in (*_ANY_NAMES, "q7/q7", "q7/.q7"))
    if flag not in ("-regex", "-iregex") or r"\|" in pattern:
        return False
    plain = re.sub(r"\[[^]]*\]", "", pattern)  # never run: such a pattern can take for ever
    return any(word not in home.split("/") for word in re.findall(r"\w{2,}", plain))


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


def removal_in_text(text: str, home: str, *, seen: int | None) -> Removal:
    """The same for text that could not be understood, by its words alone. `seen`: how often it removes something in
    commands that were understood; None where nothing else can run."""
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
    if seen is not None and len(_REMOVES.findall(bare)) > seen:
        return Removal(doubt="it cannot be read, and seems to remove something")
    return SAFE


def _at_home(token: str, home: str) -> str:
    for spelling in ("${HOME}", "$HOME", "~"):
        if token == spelling or token.startswith(spelling + "/"):
            return home + token[len(spelling) :]
    return token
