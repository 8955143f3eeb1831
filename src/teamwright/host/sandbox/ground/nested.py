"""Finds nested git repositories below a root; the result is kept until a directory changes."""

import os
import time
from collections.abc import Iterator

from msgspec import Struct

DEPTH = 3
MOST_DIRECTORIES = 2_000
MOST_SEARCHED = 10_000  # at any depth
MOST_SECONDS = 0.25
# Filled by package managers and builds: searched last, and left writable if there is too much of it.
_FILLED = frozenset({"node_modules", ".venv", "venv", "target", "build", "dist", "__pycache__", ".tox", ".cache"})
_MADE_OF = ("HEAD", "refs", "objects")
_OWN = frozenset({".git", ".claude", ".teamwright", ".vscode", ".idea"})


class TooManyError(Exception):
    """More names than we examine, so nobody can tell what is among them."""


class Walk(Struct, frozen=True):
    """One walk below a root: when each directory last changed, and what was found.

    `trees` have a `.git`; `bare` ones are git directories themselves; `unseen` ones were too many to search.
    """

    stamps: tuple[tuple[str, int], ...]
    trees: tuple[str, ...]
    bare: tuple[str, ...]
    unseen: tuple[str, ...]


_walks: dict[str, Walk] = {}
_FRESH = 50_000_000  # nanoseconds; what changed this recently may change again without a new timestamp


class Folder(Struct, frozen=True):
    """A directory as it was listed. `tree`: it has a `.git`; `bare`: it is a git directory itself."""

    stamp: int
    folders: tuple[str, ...] = ()
    tree: bool = False
    bare: bool = False


_listed: dict[str, Folder] = {}


def walk_below(root: str) -> Walk:
    known = _walks.get(root)
    if known is None or not all(_stamp(path) == stamp for path, stamp in known.stamps):
        known = _look(root)
        if len(_walks) >= 64:
            _walks.clear()
        _walks[root] = known
        newest = max((stamp for _, stamp in known.stamps), default=0)
        if time.time_ns() - newest < _FRESH:
            del _walks[root]
    return known


def _stamp(path: str) -> int:
    try:
        return os.lstat(path).st_ctime_ns  # programs can set the mtime
    except OSError:
        return -1


def _look(root: str) -> Walk:
    stamps: list[tuple[str, int]] = []
    trees: list[str] = []
    bare: list[str] = []
    unseen: list[str] = []
    until = time.monotonic() + MOST_SECONDS
    level, later = [root], list[str]()
    for depth in range(DEPTH + 1):
        following: list[str] = []
        for path in level:
            if len(stamps) >= MOST_DIRECTORIES or time.monotonic() > until:
                unseen.append(path)
                continue
            found = _list(path)
            stamps.append((path, found.stamp))
            if found.tree and path != root:
                trees.append(path)
            if found.bare:
                bare.append(path)
            elif depth < DEPTH:
                following += [one for one in found.folders if os.path.basename(one) not in _FILLED]
                later += [one for one in found.folders if os.path.basename(one) in _FILLED]
        level = following
    _look_last(later, stamps, trees, until)
    return Walk(tuple(stamps), tuple(trees), tuple(bare), tuple(unseen))


def lacking(directory: str) -> str:
    """What a directory lacks to be a git directory, whose configuration git would obey; empty if it is one."""
    for name in _MADE_OF:
        if not os.path.lexists(os.path.join(directory, name)):
            return name
    return ""


def _look_last(filled: list[str], stamps: list[tuple[str, int]], trees: list[str], until: float) -> None:
    """Searches program-filled directories, one level deep, as far as the limits allow."""
    for path in filled:
        for inner in (path, *_list(path).folders):
            if len(stamps) >= MOST_DIRECTORIES or time.monotonic() > until:
                return
            found = _list(inner)
            stamps.append((inner, found.stamp))
            if found.tree:
                trees.append(inner)


def all_below(root: str) -> Iterator[tuple[str, Folder]]:
    """Git directories and trees that have one, at any depth; of directories that programs fill only the first level."""
    level, left = [root], MOST_SEARCHED
    while level:
        following: list[str] = []
        if (left := left - len(level)) < 0:
            raise TooManyError
        for path in level:
            found = _list(path)
            if found.tree or found.bare:
                yield path, found
            if found.folders and not found.bare and os.path.basename(os.path.dirname(path)) not in _FILLED:
                following += found.folders
        level = following


def _list(path: str) -> Folder:
    stamp = _stamp(path)
    known = _listed.get(path)
    if known is not None and known.stamp == stamp:
        return known
    names, folders = set[str](), list[str]()
    try:
        with os.scandir(path) as entries:
            for one in entries:
                names.add(one.name)
                if one.name not in _OWN and one.is_dir(follow_symlinks=False):
                    folders.append(one.path)
    except OSError:
        return Folder(stamp)
    known = Folder(stamp, tuple(sorted(folders)), ".git" in names, names.issuperset(_MADE_OF))
    if time.time_ns() - stamp > _FRESH:
        if len(_listed) >= 2 * MOST_SEARCHED:
            _listed.clear()
        _listed[path] = known
    return known
