"""Finds links that a program planted in a git directory: git would write through them when somebody else runs it.

If `logs/HEAD` is a link to `~/.bashrc`, the next commit outside adds a line to it, with text chosen by the program.
"""

import os
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager

from teamwright.host.sandbox.ground.nested import TooManyError
from teamwright.host.sandbox.guard.moves import is_unchanged, parent_of

MOST_NAMES = 400_000  # a second's work; creating so many takes a program longer
_GUARDED = frozenset({"hooks", "modules", "worktrees"})  # protected names have guards of their own
_LISTED = frozenset({"objects", "lfs"})  # filled by git with thousands of files: only these subdirectories are searched
_INNER = frozenset({"info", "pack"})
_MOST_KEPT = 64
_FRESH = 50_000_000  # nanoseconds by which file timestamps may lag


def planted_links(directory: str, since: int, *, deep: bool = True, most: int = MOST_NAMES) -> list[str]:
    """Links, pipes and the like that appeared in it since this time (ns); `deep`: also below it.

    Relies on ctime, which the kernel sets, also when a name is moved. Raises TooManyError.
    """
    if deep and is_unchanged(_harmless.get(directory, _UNKNOWN)):
        return []
    search = _Search(since - _FRESH, most)
    search.look(directory, (), moved=False, deep=deep)
    if deep and not search.found:
        _remember(directory, search.looks)
    return search.found


_Look = tuple[str, int, int]  # directory, inode, ctime
_UNKNOWN: tuple[_Look, ...] = (("", 0, 0),)
_harmless: dict[str, tuple[_Look, ...]] = {}  # all directories of a git directory in which nothing was found last


def _remember(directory: str, looks: list[_Look]) -> None:
    if len(_harmless) >= _MOST_KEPT:
        _harmless.clear()
    if time.time_ns() - max(changed for _, _, changed in looks) > _FRESH:  # else its time is not conclusive
        _harmless[directory] = tuple(looks)


class _Search:
    def __init__(self, since: int, most: int) -> None:
        self._since, self._left = since, most
        self.found: list[str] = []
        self.looks: list[_Look] = []

    def look(self, directory: str, above: tuple[str, ...], *, moved: bool, deep: bool) -> None:
        """`above`: names from the git directory down. `moved`: a directory on the way was changed meanwhile, so its
        content may have been moved in along with it, whatever its own times say."""
        self.looks.append(_look_at(directory))  # before listing, so that later changes do not count as seen
        with _entries(directory) as entries:
            for entry in entries:
                self._left -= 1
                if self._left < 0:
                    raise TooManyError
                if entry.is_dir(follow_symlinks=False):
                    if deep and _is_entered(entry.name, above):
                        inner = moved or self._is_new(entry)
                        self.look(entry.path, (*above, entry.name), moved=inner, deep=True)
                elif not entry.is_file(follow_symlinks=False) and (moved or self._is_new(entry)):
                    self.found += [] if not above and _names_branch(entry) else [entry.path]

    def _is_new(self, entry: "os.DirEntry[str]") -> bool:
        try:
            return entry.stat(follow_symlinks=False).st_ctime_ns >= self._since
        except FileNotFoundError:
            return False


def _look_at(directory: str) -> _Look:
    try:
        found = os.lstat(directory)
    except OSError:
        return directory, -1, time.time_ns()  # it is disappearing, so do not rely on it
    return directory, found.st_ino, found.st_ctime_ns


def _names_branch(entry: "os.DirEntry[str]") -> bool:
    """HEAD as git itself may write it (`core.preferSymlinkRefs`): a link to one of its own branches."""
    try:
        says = os.readlink(entry.path)
    except OSError:
        return False
    return says.startswith("refs/") and ".." not in says.split("/")


def _is_entered(name: str, above: tuple[str, ...]) -> bool:
    if not above:
        return name not in _GUARDED
    return above[0] not in _LISTED or (len(above) == 1 and name in _INNER)


@contextmanager
def _entries(directory: str) -> "Generator[Iterable[os.DirEntry[str]]]":
    """Lists a directory, opening it for the moment if a program closed it by its mode; empty if it is gone."""
    try:
        with os.scandir(directory) as entries:
            yield list(entries)
        return
    except FileNotFoundError:
        yield ()
        return
    except PermissionError:
        pass
    with parent_of(f"{directory}/."), os.scandir(directory) as entries:
        yield list(entries)
