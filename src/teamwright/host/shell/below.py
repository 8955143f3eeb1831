"""Finds guarded files below a directory that a command reads as a whole: on disk, in git's index, and in git's history.
Only a command that can show the content of such a file needs approval."""

import os
import re
import time
from collections.abc import Iterator, Sequence

from msgspec import structs

from teamwright.core.permissions.facts import Place
from teamwright.core.permissions.path_rules import within
from teamwright.core.permissions.patterns import UNKNOWN, PathPattern
from teamwright.host.git.config import has_submodules, index_paths
from teamwright.host.git.copies import copies_of
from teamwright.host.git.history import paths_ever
from teamwright.host.git.places import top_of
from teamwright.host.shell.cwd import ShellContext, normal
from teamwright.host.shell.programs.flags import NAMES_ALONE, Shown, Skips
from teamwright.host.shell.programs.ignore_files import may_be_asked_for
from teamwright.host.shell.programs.searches import leaves_out, way_out

_MOST_ENTRIES = 20_000  # on disk
_MOST_TRACKED = 100_000
_MOST_HELD = 200
_MOST_FOLDERS = 8
_SAYS_SOMETHING = re.compile(r"(?!.*\s).*[\w.]", re.DOTALL)
_SECONDS = 1.0  # for searching the disk


class _Unsure(Exception):  # control flow: there is more than we examine
    pass


def looked_below(places: Sequence[Place], shown: Shown, cwds: Sequence[str], around: ShellContext) -> list[Place]:
    """The places, each with the guarded paths in it that the command can show."""
    unknown = [place for place in places if place.deep and place.path and place.held is None]
    if not around.guarded or not unknown:
        return list(places)
    if shown == NAMES_ALONE:
        return [structs.replace(place, deep=False) for place in places]
    looked = dict(zip(unknown, _looked_at_all(unknown, shown, cwds, around), strict=True))
    return [looked.get(place, place) for place in places]


def perhaps_guarded(words: Sequence[str], cwds: Sequence[str], around: ShellContext) -> list[Place]:
    """The guarded files that a word may turn out to name, going by its known parts: `.[e]nv`, `$d/.env`."""
    shapes = dict[str, list[str]]()  # by the directory where to look
    for path in filter(_SAYS_SOMETHING.match, words):
        for cwd in cwds:
            shape = _shape(path, cwd)
            known = shape.partition(UNKNOWN)[0].rpartition("/")[0]
            shapes.setdefault(cwd if within(cwd, known or "/") else known, []).append(shape)
    if len(shapes) > _MOST_FOLDERS:
        shapes = {cwd: [shape for some in shapes.values() for shape in some] for cwd in cwds}
    return [place for folder, some in shapes.items() for place in _fitting(folder, some, around.guarded)]


def _shape(path: str, cwd: str) -> str:
    if not path.startswith(UNKNOWN):
        return normal(cwd, path)
    return UNKNOWN + normal("/", path[1:])[0 if path[1:2] == "/" else 1 :]


def _fitting(folder: str, shapes: Sequence[str], guarded: Sequence[PathPattern]) -> list[Place]:
    """What one of the shapes fits, as one place. If there is too much to look at, names alone decide."""
    here = Place(folder, folder, deep=True, guess=True)
    try:
        held = tuple(path for path in _on_disk(here, guarded) if _may_be_named(path, shapes))
    except _Unsure:
        near, names = [one for one in guarded if one.may_cover_below(folder)], [s.rpartition("/")[2] for s in shapes]
        return [here] if any(one.may_be(name) for one in near for name in names) else []
    return [structs.replace(here, held=held)] if held else []


def _may_be_named(path: str, shapes: Sequence[str]) -> bool:
    """This path, or an entry of this directory."""
    names = [path, *(f"{path}/{entry.name}" for entry in _entries(path))] if _is_folder(path) else [path]
    return any(shape.startswith(f"{path}/") or any(_fits(shape, name) for name in names) for shape in shapes)


def _fits(shape: str, path: str) -> bool:
    """Do the known parts occur in the path, in order? The leftmost place of each will do: nothing is tried twice."""
    if UNKNOWN not in shape:
        return shape == path
    first, *between, last = shape.split(UNKNOWN)
    at = len(first)
    for part in between:
        found = path.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return path.startswith(first) and path.endswith(last) and at + len(last) <= len(path)


def _looked_at_all(places: Sequence[Place], shown: Shown, cwds: Sequence[str], around: ShellContext) -> Sequence[Place]:
    vast = shown.unsure or not shown.sources <= {"disk"}
    places = [structs.replace(place, vast=vast) for place in places]
    try:
        tracked = [path for cwd in cwds for path in _in_repository(shown, cwd) if _is_guarded(path, around.guarded)]
    except _Unsure:
        return places
    return [_looked_at(place, tracked, shown, cwds, around) for place in places]


def _looked_at(place: Place, tracked: Sequence[str], shown: Shown, cwds: Sequence[str], around: ShellContext) -> Place:
    try:
        held = _held(place, tracked, shown, cwds, around)
    except _Unsure:
        return place
    spare = way_out(shown.program, held[0], cwds[0], is_folder=_is_folder(held[0])) if held else ""
    return structs.replace(place, held=held, spare=spare)


def _held(
    place: Place, tracked: Sequence[str], shown: Shown, cwds: Sequence[str], around: ShellContext
) -> tuple[str, ...]:
    found = [path for path in tracked if shown.whole or within(path, place.path) or within(path, place.given)]
    found += [path for cwd in cwds for path in _named_from_top(shown, cwd) if _is_guarded(path, around.guarded)]
    if "disk" in shown.sources or not all(map(top_of, cwds)):  # outside a repository, git may search the disk
        lying = _on_disk(place, around.guarded)
        out = _paths_left_out(shown.skips, cwds)
        lying = [path for path in lying if not any(within(path, one) for one in out)]
        found += [path for path in lying if not _is_left_out(path, place, shown.skips, around.home)]
    return tuple(dict.fromkeys(found))


def _paths_left_out(skips: Skips, cwds: Sequence[str]) -> list[str]:
    """With a slash at its end, a path only counts if it is a directory."""
    named = [(one, normal(cwds[0], one)) for one in skips.paths] if len(cwds) == 1 else []
    return [path for one, path in named if not one.endswith("/") or _is_folder(path)]


def _is_left_out(path: str, place: Place, skips: Skips, home: str) -> bool:
    """Is it certainly not opened? A directory may be excluded itself, or by excluding all its files."""
    is_folder, names = _is_folder(path), _names_below(path, place)
    if leaves_out(skips, names, is_folder=is_folder):
        return True
    if skips.hidden and any(name.startswith(".") for name in names):
        return not may_be_asked_for(path, home)
    if not is_folder or not skips.only:
        return False
    return all(leaves_out(skips, _names_below(file, place), is_folder=False) for file in _files_below(path))


def _files_below(directory: str) -> Iterator[str]:
    seen = 0
    for folder, folders, files in os.walk(directory):
        seen += len(folders) + len(files)
        if seen > _MOST_ENTRIES:
            raise _Unsure
        yield from (f"{folder}/{name}" for name in files)


def _is_guarded(path: str, guarded: Sequence[PathPattern]) -> bool:
    return any(pattern.covers(path, wide=True) for pattern in guarded)


def _names_below(path: str, place: Place) -> list[str]:
    start = next((start for start in (place.path, place.given) if within(path, start)), "")
    return path[len(start.rstrip("/")) + 1 :].split("/")


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


# --- the disk


def _on_disk(place: Place, guarded: Sequence[PathPattern]) -> list[str]:
    """What exists below, by either name of the place. Does not follow links, as tree searches do not either."""
    near = [one for one in guarded if one.may_cover_below(place.path) or one.may_cover_below(place.given)]
    starts = [name for one in near if one.literal for name in (one.start, *copies_of(one.start))]
    found = [start for start in starts if _meet(start, place) and os.path.lexists(start)]
    wild = [one for one in near if not one.literal]
    if wild and _is_folder(place.path):
        found += _walked(place, wild)
    return found


def _meet(path: str, place: Place) -> bool:
    """Does one of them lie in the other?"""
    return any(within(path, name) or within(name, path) for name in (place.path, place.given))


def _walked(place: Place, patterns: Sequence[PathPattern]) -> list[str]:
    found, seen, until = list[str](), 0, time.monotonic() + _SECONDS
    starts = tuple(dict.fromkeys((place.path.rstrip("/"), place.given.rstrip("/"))))
    waiting = [""]  # paths below, each with a leading slash
    while waiting:
        below = waiting.pop()
        for entry in _entries(f"{starts[0]}{below}/"):
            seen += 1
            path = f"{below}/{entry.name}"
            spelt = next((start + path for start in starts if _is_guarded(start + path, patterns)), "")
            if spelt:
                found.append(spelt)
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(path)
        if seen > _MOST_ENTRIES or len(found) > _MOST_HELD or time.monotonic() > until:
            raise _Unsure
    return found


def _entries(directory: str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(directory) as found:
            return list(found)
    except OSError:
        return []  # a directory that we cannot list cannot be searched by the command either


# --- git


def _in_repository(shown: Shown, cwd: str) -> list[str]:
    """Paths whose content it may show, tracked now or in any commit."""
    if shown.unsure:
        raise _Unsure
    top = top_of(cwd)
    if not top or shown.sources <= {"disk"}:
        return []
    paths = [f"{top}/{name}" for name in dict.fromkeys((*_tracked(cwd), *_ever(shown, cwd)))]
    skipped = [normal(cwd, path) for path in shown.skips.paths]
    return [path for path in paths if not any(within(path, one) for one in skipped)]


def _named_from_top(shown: Shown, cwd: str) -> list[str]:
    return [normal(top_of(cwd) or "/", path) for path in shown.from_top]


def _tracked(cwd: str) -> list[str]:
    names = index_paths(cwd, _MOST_TRACKED)
    if names is None or has_submodules(cwd) or any(name.endswith("/") for name in names):
        raise _Unsure  # part of the index is in another file, or is a nested repository
    return names


def _ever(shown: Shown, cwd: str) -> Sequence[str]:
    if "history" not in shown.sources:
        return ()
    names = paths_ever(cwd, shown.revisions)
    if names is None:
        raise _Unsure
    return names
