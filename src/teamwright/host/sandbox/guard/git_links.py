"""Finds what a program left in a git directory that leads elsewhere: git writes through it when somebody else runs it.

With `logs/HEAD` as a link to `~/.bashrc`, the next commit outside adds a line to it, in words of the program's choice.
"""

import os
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager

from teamwright.host.sandbox.guard.moves import is_unchanged, parent_of

MOST_NAMES = 400_000  # a second's work; a program needs longer to make them
_GUARDED = frozenset({"hooks", "modules", "worktrees"})  # protected names have guards of their own
_LISTED = frozenset({"objects", "lfs"})  # what git fills by the thousand: only these directories of it
_INNER = frozenset({"info", "pack"})
_MOST_KEPT = 64
_FRESH = 50_000_000  # nanoseconds that the clock of files may be behind


class TooManyError(Exception):
    """More names than anybody looks at: who can tell what is among them?"""


def planted_links(directory: str, since: int, *, deep: bool = True, most: int = MOST_NAMES) -> list[str]:
    """Links, pipes and the like that came to be in it since this time, in nanoseconds; `deep`: and below it.

    The kernel sets times of change, and a name that is moved gets a new one. Raises TooManyError.
    """
    if deep and is_unchanged(_harmless.get(directory, _UNKNOWN)):
        return []
    search = _Search(since - _FRESH, most)
    search.look(directory, (), moved=False, deep=deep)
    if deep and not search.found:
        _remember(directory, search.looks)
    return search.found


_Look = tuple[str, int, int]  # a directory, its inode, its time of change
_UNKNOWN: tuple[_Look, ...] = (("", 0, 0),)
_harmless: dict[str, tuple[_Look, ...]] = {}  # all directories of a git directory in which nothing was found last


def _remember(directory: str, looks: list[_Look]) -> None:
    if len(_harmless) >= _MOST_KEPT:
        _harmless.clear()
    if time.time_ns() - max(changed for _, _, changed in looks) > _FRESH:  # else it may change at the same time again
        _harmless[directory] = tuple(looks)


class _Search:
    def __init__(self, since: int, most: int) -> None:
        self._since, self._left = since, most
        self.found: list[str] = []
        self.looks: list[_Look] = []

    def look(self, directory: str, above: tuple[str, ...], *, moved: bool, deep: bool) -> None:
        """`above`: names from the git directory on. `moved`: a directory on the way changed meanwhile, so that what is
        below it may have come with it, whatever its own times are."""
        self.looks.append(_look_at(directory))  # before it is listed: what comes later is then not taken for seen
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
        return directory, -1, time.time_ns()  # it is going: nobody may rely on it
    return directory, found.st_ino, found.st_ctime_ns


def _names_branch(entry: "os.DirEntry[str]") -> bool:
    """As git itself may write HEAD (`core.preferSymlinkRefs`): it leads to a branch of its own."""
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
    """Also of one that a program shut by its mode, which is open meanwhile; none of what is gone."""
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
