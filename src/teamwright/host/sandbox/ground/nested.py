"""Finds nested git repositories below a root; the result is kept until a directory changes."""

import os
import time

from msgspec import Struct

DEPTH = 3
MOST_DIRECTORIES = 2_000
MOST_SECONDS = 0.25
# Filled by package managers and builds: searched last, and left writable if there is too much of it.
_FILLED = frozenset({"node_modules", ".venv", "venv", "target", "build", "dist", "__pycache__", ".tox", ".cache"})
_OWN = frozenset({".git", ".claude", ".teamwright", ".vscode", ".idea"})


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
            stamps.append((path, _stamp(path)))
            if os.path.lexists(os.path.join(path, ".git")) and path != root:
                trees.append(path)
            if not lacking(path):
                bare.append(path)
            elif depth < DEPTH:
                folders = _folders(path)
                following += [one for one in folders if os.path.basename(one) not in _FILLED]
                later += [one for one in folders if os.path.basename(one) in _FILLED]
        level = following
    _look_last(later, stamps, trees, until)
    return Walk(tuple(stamps), tuple(trees), tuple(bare), tuple(unseen))


def lacking(directory: str) -> str:
    """What a directory lacks to be a git directory, whose configuration git would obey; empty if it is one."""
    for name in ("HEAD", "refs", "objects"):
        if not os.path.lexists(os.path.join(directory, name)):
            return name
    return ""


def _look_last(filled: list[str], stamps: list[tuple[str, int]], trees: list[str], until: float) -> None:
    """Searches program-filled directories, one level deep, as far as the limits allow."""
    for path in filled:
        for inner in (path, *_folders(path)):
            if len(stamps) >= MOST_DIRECTORIES or time.monotonic() > until:
                return
            stamps.append((inner, _stamp(inner)))
            if os.path.lexists(os.path.join(inner, ".git")):
                trees.append(inner)


def _folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(one.path for one in entries if one.name not in _OWN and one.is_dir(follow_symlinks=False))
    except OSError:
        return []
