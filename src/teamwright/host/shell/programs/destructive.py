"""Detects commands that remove a home or the root directory, which every mode refuses, and commands that might."""

import os.path
import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from glob import iglob
from itertools import islice, pairwise, takewhile

from msgspec import Struct, structs

from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.core.permissions.prefixes import INTERPRETERS, bare_name
from teamwright.host.shell.cwd import leads_through_proc, normal
from teamwright.host.shell.programs.removers import removed_words
from teamwright.host.shell.programs.wrappers import SHELLS
from teamwright.host.shell.words import FOUND_PATH, Word

_HOMES = re.compile(r"/root|/home(/[^/]+)?|/Users(/[^/]+)?")
_ALL = re.compile(r"\.?(?:\[!\.\])?[.?*]*\*[.?*]*")  # wildcards that match a whole directory
_SEGMENT = re.compile(r"[;&|\n()`]+")
_TOKEN = re.compile(r"[\s'\"<>\\,\[\]]+")
_QUOTES = re.compile(r"\\\n|['\"\\]")
_REMOVES = re.compile(r"(?<![\w.-])(?:rm|-delete)(?![\w.-])")
_IS_RM = re.compile(r"(?:.*[/=!])?rm")  # also as a value, and as git marks it in an alias
_RECURSIVE = re.compile(r"-[A-Za-z]*[rR][A-Za-z]*|--r[a-z]*")
_BY_NAME = frozenset({"-name", "-iname"})
_BY_PATH = frozenset({"-path", "-ipath", "-wholename", "-iwholename"})
_ENDS_FILES = re.compile(r"(?<![\w.-])(?:rm|mv|unlink|shred)(?![\w.-])")
_FOLLOWS = frozenset({"-L", "-H", "-follow"})
_ANY_NAMES = ("q7", ".q7", "Q7.q7")  # made-up names: a pattern that matches one of them matches most names
_ANY_PATHS = (*_ANY_NAMES, "q7/q7", "q7/.q7")
_BY_REGEX = frozenset({"-regex", "-iregex"})
_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
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
# In their words there may be code of another language.
_HOLD_CODE = frozenset({"awk", "gawk", "mawk", "sqlite3", "deno"})
_HOLD_CODE_BEHIND_FLAGS = INTERPRETERS - SHELLS | {"vi", "vim", "nvim", "ex", "emacs", "gdb", "psql", "mysql"}
_CODE_FOLLOWS = re.compile(r"-[A-Za-z]*[ceErR].*|--(?:e|p|r|c).*|\+.*", re.DOTALL)
_NAMES_HOME = re.compile(r"~|HOME|PWD|\bpwd\b|(?<![\w/.])\.\.(?![\w.])|/home|/root|/Users")


class Removal(Struct, frozen=True):
    """`ruin`: the home or root directory that is removed. `doubt`: why it is unclear whether one is.

    `deep`: removes everything below a place; `shifts`: changes which place a path means; `moves`: moves something away
    that is only named by a value; `cleans`: empties git's working tree.
    """

    ruin: str = ""
    doubt: str = ""
    deep: bool = False
    shifts: bool = False
    moves: bool = False
    cleans: bool = False

    def or_else(self, other: "Removal") -> "Removal":
        return Removal(
            self.ruin or other.ruin,
            self.doubt or other.doubt,
            self.deep or other.deep,
            self.shifts or other.shifts,
            self.moves or other.moves,
            self.cleans or other.cleans,
        )

    def settled(self, text: str, *, elsewhere: bool) -> "Removal":
        """Combines the parts with what only the whole line shows. `elsewhere`: git's working tree may be any place."""
        unsure = (self.deep and self.shifts) or (self.moves and _NAMES_HOME.search(text))
        unsure = unsure or (self.cleans and elsewhere)
        return structs.replace(self, doubt=self.doubt or (_UNSURE.doubt if unsure else ""))


SAFE = Removal()
SHIFTS = Removal(shifts=True)
_UNSURE = Removal(doubt="what it would remove is only known when it runs")


def removal_of(words: Sequence[Word], cwd: str | None, home: str) -> Removal:
    """The effect of this one command. `cwd` is None if unknown."""
    name = words[0].text.rpartition("/")[2] if words else ""
    if name in _BY_PROGRAM:
        return _BY_PROGRAM[name](words[1:], cwd, home)
    if gone := removed_words(words, cwd):
        return structs.replace(_in_part(_taken(gone, gone, cwd, home)), cleans=name == "git")
    if found := _removal_in_code(name, words[1:], home):
        return found
    if words and _may_become_rm(words[0]) and any(_RECURSIVE.fullmatch(w.text) for w in words[1:]):
        removal = _by_rm(words[1:], cwd, home)
        return _UNSURE if removal.ruin or removal.doubt else SAFE
    return SAFE


def _removal_in_code(program: str, words: Sequence[Word], home: str) -> Removal | None:
    """A plain `rm -rf ~` in code of another language, which is not read further: `perl -e 'system(q(rm -rf ~))'`."""
    flags = words if bare_name(program) in _HOLD_CODE_BEHIND_FLAGS else ()
    if program not in _HOLD_CODE and not any(_CODE_FOLLOWS.fullmatch(word.text) for word in flags):
        return None
    found = (removal_in_text(word.text, home, seen=None) for word in words)
    return next((removal for removal in found if removal.ruin), None)


def _may_become_rm(word: Word) -> bool:
    """Could a name with a value, brackets or braces become rm, judging by its known beginning?"""
    head, *rest = _OPENS.split(word.glob or word.text, maxsplit=1)
    return bool(rest) and ("/" in rest[0] or "rm".startswith(head.rpartition("/")[2]))


def _by_rm(words: Sequence[Word], cwd: str | None, home: str) -> Removal:
    removal = SAFE
    for word in words:
        if word.text[:1] != "-":
            removal = removal.or_else(_of_path(word, cwd, home))
    if any(_RECURSIVE.fullmatch(w.text) for w in words):
        return structs.replace(removal, deep=True)
    if any(w.splits for w in words) or (removal.ruin and any(w.text.startswith(UNKNOWN) for w in words)):
        return _UNSURE  # it may contain a flag
    return SAFE


def _by_mv(words: Sequence[Word], cwd: str | None, home: str) -> Removal:
    """What is moved away is gone too. An unknown word may be anything."""
    named = list(filter(_is_operand, words))
    moved = named if any(w.text.startswith(("-t", "--t")) for w in words) else named[:-1]
    return _taken(named, moved, cwd, home)


def _taken(named: Sequence[Word], moved: Sequence[Word], cwd: str | None, home: str) -> Removal:
    ruins = [_of_path(word, cwd, home).ruin for word in moved]
    unsure = _may_name_home(named, moved, cwd, home) or _may_lie_anywhere(named, cwd)
    by_value = any(w.splits for w in named) or any(UNKNOWN in w.text and not w.glob for w in moved)
    return Removal(next(filter(None, ruins), ""), _UNSURE.doubt if unsure else "", moves=by_value)


def _may_lie_anywhere(named: Sequence[Word], cwd: str | None) -> bool:
    """Does one of these paths lead through a place that differs per process?"""
    known = [w.text for w in named if w.text[:1] == "/" and UNKNOWN not in w.text]
    return any(map(leads_through_proc, known if cwd is None else (cwd, *known)))


def _may_name_home(named: Sequence[Word], moved: Sequence[Word], cwd: str | None, home: str) -> bool:
    if any(w.splits and _may_become_home(w, cwd, home) for w in named):
        return True
    if (
        cwd is None
    ):  # everything in the unknown directory, or it itself, or what is called like a home or lies above one
        near = [(w.glob or w.text).rstrip("/").rpartition("/")[2] for w in moved if (w.glob or w.text)[:1] != "/"]
        return any(name in (".", "..", *home.split("/")) or _ALL.fullmatch(name) for name in near)
    return _holds_home(cwd, home) and any(w.splits for w in named)


def _by_ln(words: Sequence[Word], cwd: str | None, home: str) -> Removal:
    """A link to a home makes another path lead there."""
    targets = [w.text for w in words if w.text[:1] != "-"]
    return SHIFTS if any(UNKNOWN in target or _ruins(target, cwd, home) for target in targets) else SAFE


def _may_become_home(word: Word, cwd: str | None, home: str) -> bool:
    """Could a word with brackets or braces become a home, judging by its known beginning?"""
    head, slash, part = _OPENS.split(word.text, maxsplit=1)[0].rpartition("/")
    if not slash and not part:
        return False
    base = normal(cwd or "/", head + slash)
    return home.startswith(f"{base.rstrip('/')}/{part}") or (word.wild and base == home)


def _of_path(word: Word, cwd: str | None, home: str) -> Removal:
    if word.text == FOUND_PATH.text:
        return SAFE  # below the start of `find`, which is checked itself
    path = word.glob or word.text
    relative = not path.startswith("/")
    if word.splits or UNKNOWN in path or (cwd is None and relative):
        return _UNSURE
    if leads_through_proc(f"{cwd}/{path}" if relative else path):
        return _UNSURE  # a different place for each process
    ruins = (_ruins(one, cwd, home) for one in _expanded(path, cwd, glob=bool(word.glob)))
    return Removal(ruin=next(filter(None, ruins), ""))


def _expanded(path: str, cwd: str | None, *, glob: bool) -> Iterator[str]:
    """What the path expands to, and every directory of which it covers everything."""
    yield path
    if not glob:
        return
    parts = path.rstrip("/").split("/")
    while len(parts) > 1 and _ALL.fullmatch(parts[-1]):
        parts.pop()
    try:
        for pattern in dict.fromkeys((path, "/".join(parts) + "/")):
            yield from islice(iglob(pattern, root_dir=cwd or "/"), _MOST_MATCHES)  # noqa: PTH207  # as a shell matches
    except (OSError, ValueError):
        return


def _by_find(words: Sequence[Word], cwd: str | None, home: str) -> Removal:
    texts = [w.text for w in words]
    run = texts[next((n for n, t in enumerate(texts) if t in _RUNS), len(texts)) :]
    ends = "-delete" in texts or any(map(_may_end_files, run))
    if not ends and not any(UNKNOWN in t for t in run):
        return SAFE
    starts = _starts(words)
    if _WIDENS.isdisjoint(texts) and _finds_few(words, starts, home):
        return SAFE
    removal = _below_all(starts, cwd, home, follows=not _FOLLOWS.isdisjoint(texts))
    if not ends:  # the command it runs may turn out to remove
        return _UNSURE if removal.ruin else SAFE
    return removal if _BY_KIND.isdisjoint(texts) else _in_part(removal)


def _may_end_files(word: str) -> bool:
    return _ENDS_FILES.search(_QUOTES.sub("", word)) is not None


def _in_part(removal: Removal) -> Removal:
    """Not everything there is removed, but perhaps much of it."""
    if not removal.ruin:
        return removal
    return structs.replace(removal, ruin="", doubt=f"it would remove much of {removal.ruin}")


def _starts(words: Sequence[Word]) -> list[Word]:
    """The starting points of find, as named."""
    first = next((n for n, word in enumerate(words) if _is_operand(word)), len(words))
    return list(takewhile(_is_operand, words[first:])) or [Word(".")]


def _is_operand(word: Word) -> bool:
    return not word.text.startswith("-")


def _below_all(starts: Sequence[Word], cwd: str | None, home: str, *, follows: bool) -> Removal:
    removal = Removal(deep=True)
    for start in starts:
        removal = removal.or_else(_of_path(_entered(start) if follows else start, cwd, home))
    return removal.or_else(_UNSURE) if follows else removal  # any link below may lead to a home


def _entered(start: Word) -> Word:
    """The same start with its link followed."""
    return structs.replace(start, text=f"{start.text}/", glob=f"{start.glob}/" if start.glob else "")


def _finds_few(words: Sequence[Word], starts: Sequence[Word], home: str) -> bool:
    tests = [(flag.text, value.glob or value.text) for flag, value in pairwise(words)]
    return any(_is_narrow(flag, value, starts, home) for flag, value in tests)


def _is_narrow(flag: str, pattern: str, starts: Sequence[Word], home: str) -> bool:
    """Does this test exclude most files?"""
    if UNKNOWN in pattern or not re.search(r"\w", pattern) or len(pattern) > _MOST_PATTERN:
        return False
    if flag in _BY_REGEX:
        return _names_more_than(home, pattern)
    if flag in _BY_NAME:
        return not any(fnmatchcase(name, pattern) for name in _ANY_NAMES)
    tops = [home, *(start.text.rstrip("/") for start in starts)]
    return flag in _BY_PATH and not any(fnmatchcase(path, pattern) for path in _any_paths(tops))


def _any_paths(tops: Sequence[str]) -> Iterator[str]:
    return (f"{top}/{name}" for top in tops for name in _ANY_PATHS)


def _names_more_than(home: str, regex: str) -> bool:
    """Must every match contain a name that is not part of the home's path?"""
    plain = re.sub(r"\[[^]]*\]", "", regex)  # never run the pattern itself: it could take forever
    return r"\|" not in regex and any(word not in home.split("/") for word in re.findall(r"\w{2,}", plain))


_BY_PROGRAM: dict[str, Callable[[Sequence[Word], str | None, str], Removal]] = {
    "rm": _by_rm,
    "grm": _by_rm,  # GNU's program on systems where it has a prefix
    "find": _by_find,
    "mv": _by_mv,
    "ln": _by_ln,
}


def _ruins(path: str, cwd: str | None, home: str) -> str:
    """The place removed along with this path, if it is or contains a home."""
    if not path:
        return ""
    parts = (path if path.startswith("/") else f"{cwd or '/'}/{path}").split("/")
    inside = parts[-1] in ("", ".", "..")  # then a link is followed
    while parts and (parts[-1] in ("", ".") or _ALL.fullmatch(parts[-1])):
        inside = inside or parts[-1] not in ("", ".")
        parts.pop()
    whole = "/".join(parts) or "/"
    places = os.path.normpath(whole).replace("//", "/"), _real(whole, inside=inside)
    return next((place for place in places if _holds_home(place, home)), "")


def _real(path: str, *, inside: bool) -> str:
    """Resolves links; `inside`: also in the last component."""
    above, _, name = path.rpartition("/")
    try:
        return os.path.realpath(path) if inside else f"{os.path.realpath(above or '/').rstrip('/')}/{name}"
    except (OSError, ValueError):
        return path


def _holds_home(place: str, home: str) -> bool:
    return home == place or home.startswith(place.rstrip("/") + "/") or _HOMES.fullmatch(place) is not None


def removal_in_text(text: str, home: str, *, seen: int | None) -> Removal:
    """Judges text that could not be understood by its words alone. `seen`: the number of removals in commands that were
    understood; None if nothing else can run."""
    feeds = "xargs" in text
    for segment in [text] if feeds else _SEGMENT.split(text):
        if ruin := _ruined_by_words(segment, home, feeds=feeds):
            return Removal(ruin=ruin)
    bare = _QUOTES.sub("", text)
    if seen is not None and len(_REMOVES.findall(bare)) > seen:
        return Removal(doubt="it cannot be read, and seems to remove something")
    return SAFE


def _ruined_by_words(text: str, home: str, *, feeds: bool) -> str:
    """What a recursive rm among these words would destroy; `feeds`: words before it may be its arguments."""
    tokens = [_at_home(token, home) for token in _TOKEN.split(text)]
    at = next((n for n, token in enumerate(tokens) if _IS_RM.fullmatch(token)), len(tokens))
    if not any(_RECURSIVE.fullmatch(token) for token in tokens[at:]):
        return ""
    named = tokens if feeds else tokens[at + 1 :]
    ruins = (_ruins(token, "/", home) for token in named if token.startswith("/"))
    return next(filter(None, ruins), "")


def _at_home(token: str, home: str) -> str:
    for spelling in ("${HOME}", "$HOME", "$ENV{HOME}", "~"):
        if token == spelling or token.startswith(spelling + "/"):
            return home + token[len(spelling) :]
    return token
