"""Paths that one command passes to another: what `find` runs a command for, and what `xargs -0` reads from a pipe.

The exact paths are only known at run time, but their beginnings and their possible locations are known now.
"""

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct, structs

from teamwright.core.permissions.facts import NOWHERE, Place
from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.host.git.config import index_paths
from teamwright.host.git.places import top_of
from teamwright.host.shell.below import looked_below
from teamwright.host.shell.cwd import leads_through_proc
from teamwright.host.shell.harmless import Setting
from teamwright.host.shell.programs.flags import ON_DISK, Flags, Shown, Skips, split_words
from teamwright.host.shell.programs.searches import skips_of_rg
from teamwright.host.shell.programs.special import FIND_VALUED, find_starts
from teamwright.host.shell.words import ANY_WORDS, FOUND, Word, WordChoices

_MOST_ENTRIES = 20_000  # examined for links
_MOST_TRACKED = 20_000
_WIDENS = frozenset({"-o", "-or", ",", "!", "-not", "(", ")"})
_OPENS_TESTS = frozenset({"(", "!", ","})
_PARTS_AT_NUL = re.compile(r"-[rtx0]*0[rtx0]*|--null")  # options of xargs
_PRINTS = frozenset({"-print", "-printf", "-ls", "-exec", "-execdir", "-ok", "-okdir"})
# A name that starts otherwise may mean more than a path: a flag, `@list`, `name=value`, `:(magic)`.
_PLAIN_NAME = re.compile(r"[\w.][^=:]*", re.DOTALL)
_PLAIN_PATTERN = re.compile(r"[\w.*-]+", re.ASCII)
_LS_FILES = Flags("cdmoiz", "x", "--cached --deleted --modified --others --ignored --exclude-standard", "--exclude")
_RG = Flags(
    "l0iwFsSxvPU.",
    "egtTmjd",
    "--files-with-matches --files-without-match --files --null --ignore-case --word-regexp --fixed-strings --hidden"
    " --smart-case --case-sensitive --line-regexp --invert-match --pcre2 --multiline --no-ignore --no-messages",
    "--regexp --glob --iglob --type --type-not --max-count --max-depth --threads",
)


class FedWords(Struct, frozen=True):
    """The beginnings of a feed's words, and the places each may be."""

    found: dict[str, tuple[Place, ...]]

    def choices(self, *, many: bool) -> WordChoices:
        return WordChoices(tuple(self.found), "found", fleeting=True, many=many)


def feed_of(words: Sequence[Word], setting: Setting) -> FedWords | None:
    """For a command that only reads: the paths it prints, NUL-terminated; None if it may print anything else."""
    texts = [w.text for w in words]
    if not all(map(_is_certain, words)):
        return None
    if texts[0] == "find":
        return find_feed(texts, setting) if _prints_paths_alone(texts) else None
    if texts[:2] == ["git", "ls-files"]:
        return _tracked(texts[2:], setting)
    return _searched(texts[1:], setting) if texts[0] == "rg" else None


def _is_certain(word: Word) -> bool:
    return not (word.splits or word.glob or word.choices or UNKNOWN in word.text)


def _prints_paths_alone(words: Sequence[str]) -> bool:
    """For find: does it print only at its end?"""
    return words.count("-print0") == 1 and words[-1] == "-print0" and _PRINTS.isdisjoint(words)


def find_feed(words: Sequence[str], setting: Setting, end: int | None = None) -> FedWords | None:
    """The result of a `find` with these words: its starting points, and everything below.

    `end`: where it uses what it found; later tests narrow nothing.
    """
    starts, at = find_starts(words, 1, before=_OPENS_TESTS)
    if setting.cwds is None or any(UNKNOWN in start or not start for start in starts):
        return None
    narrow = _values(words[at:end]) if _WIDENS.isdisjoint(words[at:]) else {}
    name = narrow.get("-name", "")
    pattern = name if _PLAIN_PATTERN.fullmatch(name) else "*"
    plain = narrow.get("-type") == "f"
    links = "" if plain else pattern
    return FedWords({_beginning(s): _looked(_below(s, setting, links), _found(s, pattern), setting) for s in starts})


def _found(start: str, pattern: str) -> Shown:
    """What is below and has a matching name; everything if the start itself matches: `find . -name .`."""
    own = (start, start.rstrip("/").rpartition("/")[2])
    return ON_DISK if any(fnmatchcase(name, pattern) for name in own) else _named_like(pattern)


def _named_like(pattern: str) -> Shown:
    return structs.replace(ON_DISK, skips=Skips(only=(pattern,)))


def _looked(places: Sequence[Place], shown: Shown, setting: Setting) -> tuple[Place, ...]:
    return tuple(looked_below(places, shown, setting.cwds or (), setting.around))


def _values(tests: Sequence[str]) -> dict[str, str]:
    """Conditions that take a value, with the value."""
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
    """`links`: the name pattern that links must match to be included."""
    places = setting.places(start, deep=True)
    return (*places, *(link for place in places if links for link in _links(place.path, links)))


def _links(directory: str, pattern: str) -> Iterator[Place]:
    """Targets of the links below, because a program that is given a link follows it."""
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


def _tracked(words: Sequence[str], setting: Setting) -> FedWords | None:
    """`git ls-files -z`, if no name in the index or on disk could be taken for anything but a path."""
    read = split_words(_LS_FILES, words, permutes=True)
    if read is None or "z" not in read[1] or setting.cwds is None or not all(map(_stays_below, read[0])):
        return None
    places = setting.places(".", deep=True)
    for cwd in setting.cwds:
        names = _plain_names_below(cwd)
        if names is None:
            return None
        places += _links_on_the_way(cwd, names)
    if read[1].keys() & {"o", "--others"}:
        return FedWords({_beginning("."): (*places, *_below(".", setting, "*"))})
    return FedWords({_beginning("."): _looked(places, Shown(frozenset({"index"})), setting)})


def _plain_names_below(cwd: str) -> Sequence[str] | None:
    """None if a name could be taken for anything but a path."""
    names = _tracked_below(cwd) if _has_plain_names(cwd) else None
    if names is None or not all(_PLAIN_NAME.fullmatch(name.partition("/")[0]) for name in names):
        return None
    return names


def _links_on_the_way(directory: str, names: Sequence[str]) -> list[Place]:
    """Link targets among these names and among all directories in them."""
    parts = {name[: found.start()] for name in names for found in re.finditer(r"/|$", name)}
    paths = [f"{directory}/{part}" for part in sorted(parts)]
    return [_followed(path) for path in paths if os.path.islink(path)]


def _searched(words: Sequence[str], setting: Setting) -> FedWords | None:
    """`rg -l -0`, which neither follows nor prints links below its starting points."""
    read = split_words(_RG, words, permutes=True)
    if read is None or setting.cwds is None or not read[1].keys() & {"0", "--null"}:
        return None
    operands, flags = read
    if not flags.keys() & {"l", "--files-with-matches", "--files-without-match", "--files"}:
        return None
    starts = operands if flags.keys() & {"e", "--regexp", "--files"} else operands[1:]
    plain = all(map(_begins_plainly, starts)) if starts else all(map(_has_plain_names, setting.cwds))
    shown = structs.replace(ON_DISK, skips=skips_of_rg(flags))
    found = {_beginning(s): _looked(_below(s, setting, ""), shown, setting) for s in starts or ["."]}
    return FedWords(found) if plain else None


def _begins_plainly(start: str) -> bool:
    return start[:1] == "/" or _PLAIN_NAME.match(start) is not None


def _stays_below(pathspec: str) -> bool:
    return pathspec[:1] not in ("/", ":") and ".." not in pathspec.split("/")


def _has_plain_names(directory: str) -> bool:
    try:
        return all(_PLAIN_NAME.fullmatch(name) for name in os.listdir(directory))
    except OSError:
        return False


def _tracked_below(directory: str) -> list[str] | None:
    """The names in the index below the directory, relative to it as git prints them."""
    prefix = os.path.relpath(directory, top_of(directory) or directory)
    below = "" if prefix == "." else f"{prefix}/"
    names = index_paths(directory, _MOST_TRACKED)
    return None if names is None else [name[len(below) :] for name in names if name.startswith(below)]


# --- xargs


def fed_words(words: Sequence[Word], step: int, feed: FedWords | None) -> list[Word]:
    """The command that xargs runs: its input becomes further words, or replaces a mark."""
    options = [w.text for w in words[1:step]]
    if feed and any(map(_PARTS_AT_NUL.fullmatch, options)) and not _parts_otherwise(options):
        return _fed_with(words, step, feed)
    marks = _marks(words, step)
    marked = [Word(UNKNOWN) if any(m in w.text for m in marks) else w for w in words[step:]]
    return [*marked, ANY_WORDS]


def _marks(words: Sequence[Word], step: int) -> set[str]:
    """The texts that may stand for xargs' input."""
    marks = {"{}"}
    for n, word in enumerate(words[:step]):
        if found := re.match(r"-[a-z0]*I", word.text):
            marks.add(word.text[found.end() :] or words[n + 1].text)
    return marks


def _parts_otherwise(options: Sequence[str]) -> bool:
    return any(re.match(r"-[a-z0]*[dELs]|-[a-z0]+I|--(?:delimiter|max-chars)", option) for option in options)


def _fed_with(words: Sequence[Word], step: int, feed: FedWords) -> list[Word]:
    """Each path becomes one word, appended or in place of the mark."""
    options = [w.text for w in words[1:step]]
    at = [n for n, option in enumerate(options) if option.startswith("-I")]
    if not at:
        return [*words[step:], structs.replace(ANY_WORDS, choices=feed.choices(many=True))]
    mark = options[at[-1]][2:] or options[at[-1] + 1]
    path = Word(UNKNOWN, choices=feed.choices(many=False))
    return [path if w.text == mark else Word(UNKNOWN) if mark in w.text else w for w in words[step:]]
