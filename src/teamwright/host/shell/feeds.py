"""Paths that one command hands to another: what `find` runs something for, and what `xargs -0` reads from a pipe.

Which paths these are is only known when the command runs; known are what each begins with, and where all of them lie.
"""

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct, structs

from teamwright.core.permissions.facts import NOWHERE, Place
from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.host.git.config import index_paths, top_of
from teamwright.host.shell.cwd import leads_through_proc
from teamwright.host.shell.flags import Flags, split_words
from teamwright.host.shell.harmless import Setting
from teamwright.host.shell.special import FIND_VALUED
from teamwright.host.shell.words import ANY_WORDS, FOUND, Choices, Word

_MOST_ENTRIES = 20_000  # that are looked at for links
_MOST_TRACKED = 20_000
_WIDENS = frozenset({"-o", "-or", ",", "!", "-not", "(", ")"})
_PRINTS = frozenset({"-print", "-printf", "-ls", "-exec", "-execdir", "-ok", "-okdir"})
# A name that begins otherwise may be more than a path to some program: a flag, `@list`, `name=value`, `:(magic)`.
_PLAIN_NAME = re.compile(r"[\w.][^=:]*", re.DOTALL)
_PLAIN_PATTERN = re.compile(r"[\w.*-]+", re.ASCII)
_LS_FILES = Flags("cdmoiz", "x", "--cached --deleted --modified --others --ignored --exclude-standard", "--exclude")
_RG = Flags(
    "l0iwFsSxvPU.", "egtTmjd",
    "--files-with-matches --files-without-match --files --null --ignore-case --word-regexp --fixed-strings --hidden"
    " --smart-case --case-sensitive --line-regexp --invert-match --pcre2 --multiline --no-ignore --no-messages",
    "--regexp --glob --iglob --type --type-not --max-count --max-depth --threads",
)  # fmt: skip


class Feed(Struct, frozen=True):
    """What the words of a feed begin with, and the places that each of them may be."""

    found: dict[str, tuple[Place, ...]]

    def choices(self, *, many: bool) -> Choices:
        return Choices(tuple(self.found), "found", fleeting=True, many=many)


def feed_of(words: Sequence[Word], setting: Setting) -> Feed | None:
    """Of a command that only reads: the paths that it prints, a NUL behind each; None if it may print anything else."""
    texts = [w.text for w in words]
    if any(w.splits or w.glob or w.choices or UNKNOWN in w.text for w in words):
        return None
    if texts[0] == "find":
        once = texts.count("-print0") == 1 and texts[-1] == "-print0" and _PRINTS.isdisjoint(texts)
        return find_feed(texts, setting) if once else None
    if texts[:2] == ["git", "ls-files"]:
        return _tracked(texts[2:], setting)
    return _searched(texts[1:], setting) if texts[0] == "rg" else None


def find_feed(words: Sequence[str], setting: Setting) -> Feed | None:
    """What `find` with these words gives: the places where it begins, and all that lies below."""
    at = 1
    while at < len(words) and words[at] in ("-P", "-H"):
        at += 1
    first = at
    while at < len(words) and not words[at].startswith("-") and words[at] not in ("(", "!", ","):
        at += 1
    starts = list(words[first:at]) or ["."]
    if setting.cwds is None or any(UNKNOWN in start or not start for start in starts):
        return None
    tests = words[at:]
    narrow = _values(tests) if _WIDENS.isdisjoint(tests) else {}
    name = narrow.get("-name", "")
    pattern = name if _PLAIN_PATTERN.fullmatch(name) else "*"
    plain = narrow.get("-type") == "f"
    return Feed({_beginning(s): _below(s, setting, "" if plain else pattern) for s in starts})


def _values(tests: Sequence[str]) -> dict[str, str]:
    """The conditions that take a word, with it."""
    found, at = dict[str, str](), 0
    while at < len(tests):
        valued = tests[at] in FIND_VALUED and at + 1 < len(tests)
        if valued:
            found[tests[at]] = tests[at + 1]
        at += 2 if valued else 1
    return found


def _beginning(start: str) -> str:
    return f"{start.rstrip('/')}/{FOUND}"


def _below(start: str, setting: Setting, links: str) -> tuple[Place, ...]:
    """`links`: the pattern of names that a link may have to be among them."""
    places = setting.places(start, deep=True)
    return (*places, *(link for place in places if links for link in _links(place.path, links)))


def _links(directory: str, pattern: str) -> Iterator[Place]:
    """Where the links below lead to: a program that is given one follows it."""
    seen = 0
    for folder, folders, files in os.walk(directory):
        seen += len(folders) + len(files)
        if seen > _MOST_ENTRIES:
            yield NOWHERE
            return
        for name in (*folders, *files):
            path = f"{folder}/{name}"
            if os.path.islink(path) and fnmatchcase(name, pattern):
                yield _followed(path)


def _followed(path: str) -> Place:
    try:
        return NOWHERE if leads_through_proc(path) else Place(path, os.path.realpath(path), deep=True)
    except (OSError, ValueError):
        return NOWHERE


def _tracked(words: Sequence[str], setting: Setting) -> Feed | None:
    """`git ls-files -z`, where no name in the index or on the disk may be taken for anything but a path."""
    read = split_words(_LS_FILES, words, permutes=True)
    if read is None or "z" not in read[1] or setting.cwds is None or not all(map(_stays_below, read[0])):
        return None
    if not all(map(_has_plain_names, setting.cwds)):
        return None
    places = setting.places(".", deep=True)
    for cwd in setting.cwds:
        names = _tracked_below(cwd)
        if names is None or not all(_PLAIN_NAME.fullmatch(name.partition("/")[0]) for name in names):
            return None
        parts = {name[: found.start()] for name in names for found in re.finditer(r"/|$", name)}
        places += [_followed(path) for part in sorted(parts) if os.path.islink(path := f"{cwd}/{part}")]
    if read[1].keys() & {"o", "--others"}:
        places += _below(".", setting, "*")
    return Feed({_beginning("."): tuple(places)})


def _searched(words: Sequence[str], setting: Setting) -> Feed | None:
    """`rg -l -0`, which neither follows nor names links below where it begins."""
    read = split_words(_RG, words, permutes=True)
    if read is None or setting.cwds is None or not read[1].keys() & {"0", "--null"}:
        return None
    operands, flags = read
    if not flags.keys() & {"l", "--files-with-matches", "--files-without-match", "--files"}:
        return None
    starts = operands if flags.keys() & {"e", "--regexp", "--files"} else operands[1:]
    if starts:
        known = all(_PLAIN_NAME.match(start) or start[:1] == "/" for start in starts)
        return Feed({_beginning(s): _below(s, setting, "") for s in starts}) if known else None
    if not all(map(_has_plain_names, setting.cwds)):
        return None
    return Feed({_beginning("."): _below(".", setting, "")})


def _stays_below(pathspec: str) -> bool:
    return pathspec[:1] not in ("/", ":") and ".." not in pathspec.split("/")


def _has_plain_names(directory: str) -> bool:
    try:
        return all(_PLAIN_NAME.fullmatch(name) for name in os.listdir(directory))
    except OSError:
        return False


def _tracked_below(directory: str) -> list[str] | None:
    """What the index names below, as git names it from here."""
    prefix = os.path.relpath(directory, top_of(directory) or directory)
    below = "" if prefix == "." else f"{prefix}/"
    names = index_paths(directory, _MOST_TRACKED)
    return None if names is None else [name[len(below) :] for name in names if name.startswith(below)]


# --- xargs


def fed_words(words: Sequence[Word], step: int, feed: Feed | None) -> list[Word]:
    """What xargs runs: its input becomes further words, or takes the place of a mark."""
    options = [w.text for w in words[1:step]]
    if feed and any(re.fullmatch(r"-[rtx0]*0[rtx0]*|--null", o) for o in options) and not _parts_otherwise(options):
        return _fed_with(words, step, feed)
    marks = {"{}"}
    for n, word in enumerate(words[:step]):
        if found := re.match(r"-[a-z0]*I", word.text):
            marks.add(word.text[found.end() :] or words[n + 1].text)
    marked = [Word(UNKNOWN) if any(m in w.text for m in marks) else w for w in words[step:]]
    return [*marked, ANY_WORDS]


def _parts_otherwise(options: Sequence[str]) -> bool:
    return any(re.match(r"-[a-z0]*[dELs]|-[a-z0]+I|--(?:delimiter|max-chars)", option) for option in options)


def _fed_with(words: Sequence[Word], step: int, feed: Feed) -> list[Word]:
    """Each path is one word, behind the others or in the place of the mark."""
    options = [w.text for w in words[1:step]]
    at = [n for n, option in enumerate(options) if option.startswith("-I")]
    if not at:
        return [*words[step:], structs.replace(ANY_WORDS, choices=feed.choices(many=True))]
    mark = options[at[-1]][2:] or options[at[-1] + 1]
    path = Word(UNKNOWN, choices=feed.choices(many=False))
    return [path if w.text == mark else Word(UNKNOWN) if mark in w.text else w for w in words[step:]]
