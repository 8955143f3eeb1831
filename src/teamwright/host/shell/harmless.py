"""Tells whether a command is harmless, that is, only reads whatever its words expand to, and which places."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from glob import iglob
from itertools import islice
from pathlib import Path

from msgspec import Struct, structs

from teamwright.core.permissions.facts import NOWHERE, Place
from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.host.git.config import programs, read_elsewhere
from teamwright.host.shell.below import looked_below
from teamwright.host.shell.cwd import CwdTracker, ShellContext
from teamwright.host.shell.programs.flags import ON_DISK
from teamwright.host.shell.programs.git import git_use, is_own_repository, shows_settings, split_options
from teamwright.host.shell.programs.readonly import Use, is_harmed_by_no_word, known_use, rests_on_files
from teamwright.host.shell.words import Word

_MOST_LEVELS = 3  # directory levels with wildcards
MOST_MATCHES = 200  # per wildcard; more count as unknown
_CHANGE_NOTHING = frozenset({"command", "builtin"})  # wrappers through which `cd` still affects this shell
_COPIES = (1, 2, 3)  # of a word that may repeat: with two, many commands interpret flags differently


class Setting(Struct, frozen=True):
    """Where the command would run, as far as known, and how paths become places. `found`: places for words that only
    another command knows, by their known part."""

    cwds: tuple[str, ...] | None
    around: ShellContext
    places: Callable[..., list[Place]]
    found: Mapping[str, tuple[Place, ...]] = {}


class Harmless(Struct, frozen=True):
    """What it reads and writes. `fleeting`: it is harmless only because of the files that exist now."""

    reads: tuple[Place, ...] = ()
    writes: tuple[Place, ...] = ()
    cd: str | None = None
    fleeting: bool = False


def harmless_use(words: Sequence[Word], wrappers: Sequence[str], setting: Setting) -> Harmless | None:
    """None if it may do more than read and write these places."""
    uses = list[Harmless]()
    for chosen in chosen_words(words) or ():
        use = _one(chosen, wrappers, setting)
        if use is None:
            return None
        uses.append(use)
    uses += _without_input(words, wrappers, setting)
    return _together(uses, fleeting=any(map(is_fleeting, words))) if uses else None


def _without_input(words: Sequence[Word], wrappers: Sequence[str], setting: Setting) -> list[Harmless]:
    """With empty input, xargs still runs its command once, without a path; many commands then search the current
    directory."""
    own = [word for word in words if not (word.splits and word.choices)]
    use = _one(own, wrappers, setting) if len(own) < len(words) else None
    return [use] if use else []


def is_fleeting(word: Word) -> bool:
    """Does the word depend on the names of existing files?"""
    return bool(word.glob) or (word.choices is not None and word.choices.fleeting)


def _together(uses: Sequence[Harmless], *, fleeting: bool) -> Harmless:
    return Harmless(
        tuple(dict.fromkeys(place for one in uses for place in one.reads)),
        tuple(dict.fromkeys(place for one in uses for place in one.writes)),
        uses[0].cd if len({one.cd for one in uses}) == 1 else UNKNOWN,
        fleeting or any(one.fleeting for one in uses),
    )


def chosen_words(words: Sequence[Word]) -> list[list[Word]] | None:
    """The command for every choice of its words; None if two words are chosen from different sources."""
    choices = [word.choices for word in words if word.choices]
    if not choices:
        return [list(words)]
    if len({(one.source, len(one.values)) for one in choices}) != 1:
        return None
    copies = _COPIES if any(one.many for one in choices) else (1,)
    return [_round(words, n, many) for n in range(len(choices[0].values)) for many in copies]


def _round(words: Sequence[Word], n: int, many: int) -> list[Word]:
    return [chosen for word in words for chosen in _chosen(word, n, many)]


def _chosen(word: Word, n: int, many: int) -> list[Word]:
    if word.choices is None:
        return [word]
    return [Word(word.choices.values[n])] * (many if word.choices.many else 1)


def _one(words: Sequence[Word], wrappers: Sequence[str], setting: Setting) -> Harmless | None:
    if _may_gain_words(words):
        return None  # an extra word may be a flag, or an unchecked path
    if words[0].text == "[[":
        return _double_test(words, setting)
    texts = expanded(words, setting)
    if texts is None:
        return None
    moved = moved_by_git(texts, setting)
    if moved is None:
        return None
    use = _use_of(texts, wrappers, moved)
    if use is None or not _reads_all_matches(words, use, setting):
        return None
    return Harmless(
        (*_all_places(use, moved), *_by_git(texts, moved), *_entered(moved, setting), *listed(words, setting)),
        tuple(place for path in use.writes for place in places_of(path, moved)),
        use.reads[0] if texts[0] == "cd" else None,
        rests_on_files(texts),
    )


def _by_git(words: Sequence[str], setting: Setting) -> Iterator[Place]:
    """What git reads besides the repository here: elsewhere by its settings and links, and a person's own settings."""
    if words[0] != "git":
        return
    home = setting.around.home
    own = (f"{home}/.gitconfig", f"{home}/.config/git/config") if shows_settings(words[1:]) else ()
    paths = [path for cwd in setting.cwds or () for path in read_elsewhere(cwd)]
    for path in (*paths, *filter(os.path.lexists, own)):
        yield from setting.places(path)


def _entered(moved: Setting, setting: Setting) -> Iterable[Place]:
    return () if moved is setting else map(Place, moved.cwds or (), moved.cwds or ())


def _may_gain_words(words: Sequence[Word]) -> bool:
    return any(word.splits for word in words) and not is_harmed_by_no_word(words)


def _double_test(words: Sequence[Word], setting: Setting) -> Harmless | None:
    """`[[`, in which bash expands no wildcards."""
    use = known_use([word.text for word in words])
    return None if use is None else Harmless(_all_places(use, setting))


def _reads_all_matches(words: Sequence[Word], use: Use, setting: Setting) -> bool:
    """Wildcards may only expand to paths that are read, and all of them, because their order depends on the locale."""
    if is_harmed_by_no_word(words):
        return True
    matched = [text for word in words if word.glob for text in expanded([word], setting) or ()]
    return all(text[:1] != "-" and text in use.reads for text in matched)


def _all_places(use: Use, setting: Setting) -> tuple[Place, ...]:
    """What it reads, with guarded files below. Paths from another command are checked on disk."""
    places = [place for path in use.reads for place in places_of(path, setting, deep=use.deep)]
    shown = use.shown if use.deep else ON_DISK
    if shown is None or setting.cwds is None:
        return tuple(places)
    return tuple(looked_below(places, shown, setting.cwds, setting.around))


def _use_of(words: list[str], wrappers: Sequence[str], setting: Setting) -> Use | None:
    match words[0]:
        case "cd" if not _CHANGE_NOTHING.issuperset(wrappers):
            return None
        case "cd":
            targets = [w for w in words[1:] if w not in ("--", "-L")]
            return known_use(["cd", *(targets or [setting.around.home])], setting.cwds)
        case "git" if not git_runs_nothing(setting):
            return None
        case "git":
            return git_use(words[1:], setting.cwds or ()) or known_use(words)
        case "diff":
            return _diff_use(words, setting)
        case _:
            return known_use(words, setting.cwds)


def _diff_use(words: list[str], setting: Setting) -> Use | None:
    """A diff of files only: of directories, it would follow the links inside."""
    use = known_use(words, setting.cwds)
    read = [place for path in use.reads for place in places_of(path, setting)] if use else []
    return None if any(Path(place.path).is_dir() for place in read) else use


def moved_by_git(words: Sequence[str], setting: Setting) -> Setting | None:
    """The setting after git's `-C` options; None if unknown."""
    folders = split_options(words[1:])[0] if words[0] == "git" else []
    if not folders:
        return setting
    if setting.cwds is None or any(UNKNOWN in word for word in words):
        return None
    cwds = list(setting.cwds)
    for folder in folders:
        tracker = CwdTracker(setting.around, tuple(cwds))
        cwds = [place.path for place in tracker.places(folder)]
    if not cwds or not all(cwds):
        return None
    tracker = CwdTracker(setting.around, tuple(dict.fromkeys(cwds)))
    return structs.replace(setting, cwds=tracker.cwds, places=tracker.places, found={})


def git_runs_nothing(setting: Setting) -> bool:
    """Is it the project's own repository, with a configuration that was agreed to or that makes git run nothing?"""
    if setting.cwds is None or not all(is_own_repository(cwd, setting.around.roots) for cwd in setting.cwds):
        return False
    return setting.around.trusted or not any(programs(cwd) for cwd in setting.cwds)


# --- wildcards


def expanded(words: Sequence[Word], setting: Setting) -> list[str] | None:
    """The words with wildcards expanded as bash would now; None if unknown."""
    out: list[str] = []
    for word in words:
        if not word.glob:
            out.append(word.text)
            continue
        if setting.cwds is None or len(setting.cwds) != 1:
            return None
        (cwd,) = setting.cwds
        if len(re.findall(r"(?:^|/)[^/]*[*?]", word.glob)) > _MOST_LEVELS:
            return None
        found = _matches(word.glob, cwd)
        if len(found) > MOST_MATCHES or ("?" in word.glob and not _are_plain(word.glob, cwd)):
            return None
        out += found or [word.glob]
    return out


def _matches(pattern: str, cwd: str) -> list[str]:
    try:
        # Unlike a shell, Path.glob also matches hidden files.
        return list(islice(iglob(pattern, root_dir=cwd), MOST_MATCHES + 1))  # noqa: PTH207
    except (OSError, ValueError):
        return []


def listed(words: Sequence[Word], setting: Setting) -> Iterator[Place]:
    """The directories that wildcards search: a command that only prints its words shows their content."""
    for word in words:
        if word.wild:
            yield NOWHERE
        if word.glob:
            head, slash, _ = re.split(r"[*?]", word.glob, maxsplit=1)[0].rpartition("/")
            yield from setting.places(head + slash or ".")
            parts = word.glob.rstrip("/").split("/")
            for n in range(1, len(parts)):  # on the way down, the shell reads every directory that matches so far
                if re.search(r"[*?]", "/".join(parts[:n])):
                    for folder in expanded([Word(UNKNOWN, "/".join(parts[:n]) + "/")], setting) or [UNKNOWN]:
                        yield from places_of(folder, setting)


def _are_plain(pattern: str, cwd: str) -> bool:
    """How many characters a `?` matches depends on the locale, unless all names are ASCII."""
    wide = _matches(re.sub(r"[?*]+", "*", pattern), cwd)
    return len(wide) <= MOST_MATCHES and all(name.isascii() for name in wide)


def places_of(path: str, setting: Setting, *, deep: bool = False) -> list[Place]:
    if path in setting.found:
        return list(setting.found[path])
    return [NOWHERE] if UNKNOWN in path else setting.places(path, deep=deep)
