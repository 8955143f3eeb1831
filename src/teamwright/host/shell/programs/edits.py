"""Commands that only change files: every place that each of them writes, moves or removes."""

import os
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from teamwright.core.permissions.facts import Place
from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.core.permissions.protected import names_protected
from teamwright.host.files.paths import is_linked
from teamwright.host.shell.cwd import leads_through_proc, normal
from teamwright.host.shell.harmless import Setting, chosen_words, expanded, git_runs_nothing
from teamwright.host.shell.programs.flags import Flags, split_words
from teamwright.host.shell.programs.git import makes_repository, split_options
from teamwright.host.shell.programs.sed import sed_use
from teamwright.host.shell.words import Word

_MOST_BELOW = 5_000  # entries of a directory that is moved or removed
_MOST_REPLACED = 500  # entries of a directory that is copied over another

_MKDIR = Flags("pv", "m", "--parents --verbose", "--mode")
_TOUCH = Flags("acm", "dtr", "--no-create", "--date --reference")
_RM = Flags("frRvdi", "", "--force --recursive --verbose --dir")
_RMDIR = Flags("v", "", "--verbose --ignore-fail-on-non-empty")
_MV = Flags("fnvuT", "t", "--force --no-clobber --verbose --update --no-target-directory", "--target-directory")
_CP = Flags("rRafnpvudPT", "t", f"{_MV.long} --recursive --archive --no-dereference", "--target-directory")
_LN = Flags("sfvnT", "", "--symbolic --force --verbose --no-dereference --no-target-directory")
_GIT_FLAGS = {
    "mv": Flags("fkvn", "", "--force --verbose --dry-run"),
    "rm": Flags("rfqn", "", "--force --quiet --dry-run --cached --ignore-unmatch"),
}


class Changes(Struct):
    """`links`: it creates a link, through which later commands may reach other places. `goals`: the words that name the
    destinations of moves, copies and links."""

    reads: list[Place] = field(default_factory=list[Place])
    edits: list[Place] = field(default_factory=list[Place])
    links: bool = False
    goals: list[str] = field(default_factory=list[str])


_TO_LAST = frozenset({"mv", "cp", "ln", "git"})


class _Refused(Exception):  # control flow: it may do more than is known
    pass


def _changed(words: Sequence[str], cwds: Sequence[str]) -> Changes | None:
    """What this command changes, from any of these directories; None if that is unknown or not everything it does."""
    make = _COMMANDS.get(words[0])
    if make is None or any(UNKNOWN in word for word in words):
        return None
    found = Changes()
    try:
        for cwd in cwds:
            make(words[1:], cwd, found)
    except (_Refused, OSError, ValueError):
        return None
    return found if found.edits else None


def changes_of(words: Sequence[Word], setting: Setting) -> Changes | None:
    """The changes of a command that does nothing else, whatever its words expand to."""
    every = chosen_words(words)
    if setting.cwds is None or every is None or (words[0].text == "git" and not git_runs_nothing(setting)):
        return None
    whole = Changes()
    for chosen in every:
        changes = _in_one_round(chosen, setting)
        if changes is None:
            return None
        whole.reads += changes.reads
        whole.edits += changes.edits
        whole.goals += changes.goals
        whole.links = whole.links or changes.links
    return None if len(every) > 1 and _repeats_differ(whole, setting.cwds) else whole


def _in_one_round(words: Sequence[Word], setting: Setting) -> Changes | None:
    """The changes with these words, in which only wildcards are left open."""
    texts, cwds = expanded(words, setting), setting.cwds or ()
    if texts is None or any(word.splits for word in words):
        return None
    to_last = texts[0] in _TO_LAST
    if to_last and words[-1].glob:
        return None  # the last word is the destination; which match comes last depends on the locale
    changes = _changed(texts, cwds)
    if changes is None or not _names_all(_matched(words, setting), changes, cwds):
        return None
    changes.goals += texts[-1:] if to_last else []
    return changes


def _matched(words: Sequence[Word], setting: Setting) -> list[str]:
    return [text for word in words if word.glob for text in expanded([word], setting) or ()]


def _repeats_differ(changes: Changes, cwds: Sequence[str]) -> bool:
    """Could one round of a loop affect the next: by a link, or by a destination that has become a directory?"""
    again = {goal for goal in changes.goals if changes.goals.count(goal) > 1}
    return changes.links or not all(os.path.isdir(os.path.join(cwd, goal)) for cwd in cwds for goal in again)


def _names_all(matched: Sequence[str], changes: Changes, cwds: Sequence[str]) -> bool:
    """Was every match treated as a path, and would every version of the program do so?"""
    if any(path[:1] == "-" for path in matched):
        return False
    named = {place.given for place in (*changes.edits, *changes.reads)}
    return all(normal(cwd, path) in named for cwd in cwds for path in matched)


# --- places


def _written(path: str, cwd: str, *, deep: bool = False) -> Place:
    """A path that is written through: links are followed."""
    if not path or leads_through_proc(f"{cwd}/{path}" if path[:1] != "/" else path):
        raise _Refused
    real = os.path.realpath(os.path.join(cwd, path))
    if makes_repository(real):
        raise _Refused
    return Place(normal(cwd, path), real, deep, is_linked(real))


def _entry(path: str, cwd: str, *, deep: bool = False) -> Place:
    """A path that is itself moved or removed: if it is a link, its target stays."""
    bare = path.rstrip("/")
    above, _, name = bare.rpartition("/")
    whole = os.path.join(cwd, bare)
    if name in ("", ".", "..") or leads_through_proc(whole) or (bare != path and os.path.islink(whole)):
        raise _Refused
    real = os.path.realpath(os.path.join(cwd, above or ("/" if bare[:1] == "/" else ".")))
    return Place(normal(cwd, bare), f"{real.rstrip('/')}/{name}", deep)


def _below(place: Place, *, links: bool) -> list[str]:
    """Relative paths of everything below; refuses if any is protected. `links`: links are allowed."""
    if os.path.islink(place.path):
        if not links:
            raise _Refused
        return []
    found = list[str]()
    for folder, folders, files in os.walk(place.path, onerror=_refuse) if os.path.isdir(place.path) else ():
        names = [*folders, *files]
        found += [os.path.relpath(f"{folder}/{name}", place.path) for name in names]
        if len(found) > _MOST_BELOW or names_protected(names):
            raise _Refused
        if not links and _leads_elsewhere(folder, names):
            raise _Refused
    return found


def _leads_elsewhere(folder: str, names: Sequence[str]) -> bool:
    """If moved or copied, would one of these lead elsewhere, or turn its directory into a repository?"""
    return any(os.path.islink(f"{folder}/{name}") or makes_repository(name) for name in names)


def _refuse(_error: OSError) -> None:
    raise _Refused


def _split(flags: Flags, words: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    read = split_words(flags, words)
    if read is None or not read[0] or "-" in read[0]:
        raise _Refused
    return read


# --- commands


def _mkdir(words: Sequence[str], cwd: str, found: Changes) -> None:
    operands, flags = _split(_MKDIR, words)
    if flags.keys() & {"p", "--parents"} and any(".." in path.split("/") for path in operands):
        raise _Refused  # it would create all directories on the way
    for path in operands:
        found.edits += [_written(path, cwd), *_parents(path, cwd)]


def _parents(path: str, cwd: str) -> list[Place]:
    """The missing directories on the way."""
    above = os.path.dirname(path.rstrip("/"))
    missing = list[Place]()
    while above and not os.path.lexists(os.path.join(cwd, above)):
        missing.append(_written(above, cwd))
        above = os.path.dirname(above)
    return missing


def _touch(words: Sequence[str], cwd: str, found: Changes) -> None:
    operands, flags = _split(_TOUCH, words)
    found.edits += [_written(path, cwd) for path in operands]
    found.reads += [_written(path, cwd) for name in ("r", "--reference") for path in flags.get(name, ())]


def _rm(words: Sequence[str], cwd: str, found: Changes) -> None:
    operands, flags = _split(_RM, words)
    _remove(operands, cwd, found, deep=bool(flags.keys() & {"r", "R", "--recursive"}))


def _remove(paths: Sequence[str], cwd: str, found: Changes, *, deep: bool) -> None:
    for path in paths:
        place = _entry(path, cwd, deep=deep)
        if deep:
            _below(place, links=True)
        found.edits.append(place)


def _rmdir(words: Sequence[str], cwd: str, found: Changes) -> None:
    _remove(_split(_RMDIR, words)[0], cwd, found, deep=False)


def _targets(operands: Sequence[str], flags: dict[str, list[str]], cwd: str) -> list[tuple[str, list[str]]]:
    """Each source with its possible destinations."""
    told = [*flags.get("t", ()), *flags.get("--target-directory", ())]
    if flags.keys() & {"T", "--no-target-directory"}:  # the destination is the path itself, not a directory
        if told or len(operands) != 2:
            raise _Refused
        return [(operands[0], [operands[1]])]
    if len(told) > 1 or len(operands) < 2 - len(told):
        raise _Refused
    sources, target = (operands, told[0]) if told else (operands[:-1], operands[-1])
    is_folder = bool(told) or os.path.isdir(os.path.join(cwd, target))
    # If it does not exist yet, an earlier command may make it a directory.
    itself = [] if is_folder else [target]
    return [(source, [*itself, _inside(target, source)]) for source in sources]


def _inside(folder: str, source: str) -> str:
    """The path of this source inside a directory."""
    return f"{folder.rstrip('/') or '/'}/{source.rstrip('/').rpartition('/')[2]}"


def _mv(words: Sequence[str], cwd: str, found: Changes) -> None:
    _move(*_split(_MV, words), cwd, found)


def _move(operands: list[str], flags: dict[str, list[str]], cwd: str, found: Changes) -> None:
    for source, targets in _targets(operands, flags, cwd):
        place = _entry(source, cwd, deep=True)
        _below(place, links=False)  # moved links would lead elsewhere
        found.edits.append(place)
        for target in targets:
            found.edits += [_written(target, cwd, deep=True), _entry(target, cwd, deep=True)]


def _cp(words: Sequence[str], cwd: str, found: Changes) -> None:
    operands, flags = _split(_CP, words)
    deep = bool(flags.keys() & {"r", "R", "a", "--recursive", "--archive"})
    keeps = deep or bool(flags.keys() & {"d", "P", "--no-dereference"})
    for source, targets in _targets(operands, flags, cwd):
        _entry(source, cwd)  # refuses `.` and the like
        if keeps and os.path.islink(os.path.join(cwd, source.rstrip("/"))):
            raise _Refused  # it would be copied as a link
        place = Place(normal(cwd, source), os.path.realpath(os.path.join(cwd, source)), deep)
        below = _below(place, links=False) if deep else []
        found.reads.append(place)
        for target in targets:
            found.edits += [_written(target, cwd, deep=deep), *_replaced(target, below, cwd)]


def _replaced(target: str, below: Sequence[str], cwd: str) -> list[Place]:
    """What is overwritten in an existing directory by a copy with these paths."""
    if not below or not os.path.lexists(os.path.join(cwd, target)):
        return []
    if len(below) > _MOST_REPLACED:
        raise _Refused
    return [_written(f"{target}/{path}", cwd) for path in below]


def _ln(words: Sequence[str], cwd: str, found: Changes) -> None:
    operands, flags = _split(_LN, words)
    if len(operands) != 2:
        raise _Refused
    target, link = operands
    if os.path.isdir(os.path.join(cwd, link)):
        if flags.keys() & {"n", "T", "--no-dereference", "--no-target-directory"}:
            raise _Refused
        link = f"{link.rstrip('/')}/{target.rstrip('/').rpartition('/')[2]}"
    place = _entry(link, cwd)
    symbolic = bool(flags.keys() & {"s", "--symbolic"})
    found.edits += [place, _written(target, os.path.dirname(place.path) if symbolic else cwd)]
    found.links = True


def _sed(words: Sequence[str], cwd: str, found: Changes) -> None:
    use = sed_use(words)
    if use is None or use.suffix is None or not use.files or any(name[:1] == "-" for name in use.files):
        raise _Refused
    for path in use.files:
        found.reads.append(_written(path, cwd))
        found.edits += [_entry(path, cwd), _written(path, cwd)]
        found.edits += [_entry(path + use.suffix, cwd)] if use.suffix else []


def _git(words: Sequence[str], cwd: str, found: Changes) -> None:
    """`git mv` and `git rm`. Refuses paths that git would treat as patterns."""
    folders, settings, at = split_options(words)
    name = "".join(words[at : at + 1])
    if folders or settings or name not in _GIT_FLAGS:
        raise _Refused
    read = split_words(_GIT_FLAGS[name], words[at + 1 :], permutes=True)
    if read is None or not read[0] or any(map(_is_pathspec, read[0])):
        raise _Refused
    operands, seen = read
    if name == "mv":
        _move(operands, {}, cwd, found)
        return
    _remove(operands, cwd, found, deep=True)
    for path in operands if "--cached" not in seen else ():  # directories that become empty are removed too
        found.edits += _emptied(path, cwd)


def _is_pathspec(path: str) -> bool:
    """Does git treat it as a pattern or as pathspec magic?"""
    return path[:1] == ":" or not set("*?[\\").isdisjoint(path)


def _emptied(path: str, cwd: str) -> list[Place]:
    above = os.path.dirname(path.rstrip("/"))
    places = list[Place]()
    while above and above.split("/")[-1] not in ("", ".", ".."):
        places.append(_entry(above, cwd))
        above = os.path.dirname(above)
    return places


_COMMANDS: dict[str, Callable[[Sequence[str], str, Changes], None]] = {
    "mkdir": _mkdir,
    "touch": _touch,
    "rm": _rm,
    "rmdir": _rmdir,
    "mv": _mv,
    "cp": _cp,
    "ln": _ln,
    "sed": _sed,
    "git": _git,
}
