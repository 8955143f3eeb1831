"""Finds what git would obey in repositories that a program can write, because it made them or mounts do not reach them.

Looks where git does: at every depth below a root, and wherever an index names a repository of its own.
"""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct

from teamwright.core.sandbox.policy import Access, longest
from teamwright.host.git.config import obeyed_files, submodules
from teamwright.host.git.config_file import UnreadableError
from teamwright.host.git.places import common_of, git_of, text_of, top_of
from teamwright.host.sandbox.ground.expand import is_inside
from teamwright.host.sandbox.ground.nested import MOST_SEARCHED, TooManyError, all_below


class Obeyed(Struct, frozen=True):
    """Names that git obeys, with inode and ctime. `linked`: does an index name a repository that can be written?"""

    names: Mapping[str, tuple[int, int]]
    linked: bool = False


def obeyed(roots: tuple[str, ...], access: Mapping[str, Access], *, deep: bool = True) -> Obeyed:
    """`deep`: everywhere, not only where an index leads. Raises TooManyError."""
    search = _Search(roots, access)
    for root in roots:
        if top := top_of(root):
            search.add(f"{top}/.git", top)
        for path, folder in all_below(root) if deep else ():
            if folder.tree:
                search.add(f"{path}/.git", path)
            if folder.bare:
                search.add(path, path)
    return search.run()


class _Search:
    def __init__(self, roots: tuple[str, ...], access: Mapping[str, Access]) -> None:
        self._roots, self._access = roots, access
        self._waiting: dict[str, str] = {}
        self._found: dict[str, tuple[int, int]] = {}
        self._linked = False

    def add(self, mark: str, tree: str) -> None:
        if len(self._waiting) >= MOST_SEARCHED:
            raise TooManyError
        self._waiting.setdefault(mark, tree)

    def run(self) -> Obeyed:
        done = 0
        while done < len(self._waiting):
            for mark, tree in list(self._waiting.items())[done:]:
                done += 1
                self._look(mark, tree)
        return Obeyed(self._found, self._linked)

    def _look(self, mark: str, tree: str) -> None:
        git = os.path.realpath(git_of(mark))
        if not self._is_ours(git) and not _leads_back(git, mark, tree):
            self._note(mark)
            return
        if self._is_open(f"{git}/config"):
            common = common_of(git)
            if common and not self._is_ours(os.path.realpath(common)):
                self._note(f"{git}/commondir")
            for path in obeyed_files(tree, git):
                self._note(path)
        with suppress(UnreadableError):
            for path in submodules(git):
                self._follow(os.path.normpath(os.path.join(tree, path)), tree)

    def _follow(self, inner: str, tree: str) -> None:
        mark = f"{inner}/.git"
        if is_inside(inner, tree) and os.path.lexists(mark) and os.path.realpath(inner) == inner:
            self._linked = self._linked or self._is_open(f"{mark}/config")
            self.add(mark, inner)

    def _note(self, path: str) -> None:
        with suppress(OSError):
            if self._is_open(path):
                found = os.lstat(path)
                self._found[path] = (found.st_ino, found.st_ctime_ns)

    def _is_open(self, path: str) -> bool:
        return longest(self._access, path) == "write"

    def _is_ours(self, path: str) -> bool:
        return any(is_inside(path, root) for root in self._roots)


def _leads_back(git: str, mark: str, tree: str) -> bool:
    """Is it the git directory of this very tree, as git makes it for linked worktrees?"""
    with suppress(OSError):
        if stat.S_ISDIR(os.lstat(mark).st_mode):
            return True
    told = text_of(os.path.join(git, "gitdir"), follow=False)
    return bool(told) and os.path.realpath(os.path.join(git, told)) == os.path.realpath(mark)
