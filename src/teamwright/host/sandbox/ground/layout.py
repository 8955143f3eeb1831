"""Finds the git directories that belong to a root: its own, also of a linked worktree, and those nested below it."""

import os
import stat
import time
from collections.abc import Iterator

from msgspec import Struct

from teamwright.core.sandbox.policy import MOST_NESTED, Name, Repository
from teamwright.host.git.config_file import UnreadableError, read_config
from teamwright.host.sandbox.ground.expand import is_inside, name_in, name_of

DEPTH = 3
MOST_DIRECTORIES = 2_000
MOST_SECONDS = 0.25
_PROTECTED = ("hooks", "config", "config.worktree", "commondir", "modules", "worktrees")
_SHARED = (*_PROTECTED, "HEAD", "index")  # of what a linked worktree shares with the main one
_MOST_INCLUDES = 50
# What package managers and builds fill: looked into last, and left writable where there is too much of it.
_FILLED = frozenset({"node_modules", ".venv", "venv", "target", "build", "dist", "__pycache__", ".tox", ".cache"})
_OWN = frozenset({".git", ".claude", ".teamwright", ".vscode", ".idea"})


class Layout(Struct, frozen=True):
    repositories: tuple[Repository, ...] = ()
    marks: tuple[Name, ...] = ()  # `.git` that is a file or a link
    unseen: tuple[str, ...] = ()


def layout_of(root: str, project: str, home: str, roots: tuple[str, ...]) -> Layout:
    """All of one root. `project` is how far up its own repository is looked for."""
    top = _top(root, project)
    own = _repository(top, home, roots, nested=False) if top else Layout()
    nested, unseen = _nested(root)
    others = [tree for tree in nested if tree != top]
    if len(others) > MOST_NESTED:  # each is guarded as a whole, so that nobody must look into it
        parts = [own, Layout(tuple(_whole(tree) for tree in others))]
    else:
        parts = [own, *(_repository(tree, home, roots, nested=True) for tree in others)]
    return Layout(
        tuple(one for part in parts for one in part.repositories),
        tuple(one for part in parts for one in part.marks),
        unseen,
    )


def _top(root: str, project: str) -> str:
    here = root
    while True:
        if os.path.lexists(os.path.join(here, ".git")):
            return here
        if here == project or not is_inside(here, project):
            return ""
        here = os.path.dirname(here)


def _repository(tree: str, home: str, roots: tuple[str, ...], *, nested: bool) -> Layout:
    mark = os.path.join(tree, ".git")
    name = name_in(tree, ".git")
    try:
        mode = os.lstat(mark).st_mode
    except OSError:
        return Layout()
    if stat.S_ISDIR(mode):
        return Layout((_plain(mark, tree, home, roots, nested=nested),))
    if name.state == "link":
        inside = any(is_inside(name.target, root) for root in roots) and os.path.isdir(name.target)
        found = (_plain(name.target, tree, home, roots, nested=nested),) if inside else ()
        return Layout(found, (name,))
    linked = _linked(mark, tree, home, roots)
    return Layout((linked,) if linked and not nested else (), (name,))


def _plain(directory: str, tree: str, home: str, roots: tuple[str, ...], *, nested: bool) -> Repository:
    names = (*(name_in(directory, name) for name in _PROTECTED), *_named(directory, tree, home, roots))
    return Repository(directory, names, nested=nested)


def _whole(tree: str) -> Repository:
    git = os.path.realpath(os.path.join(tree, ".git"))
    names = (os.path.join(git, name) for name in ("config", "hooks"))
    return Repository(git, tuple(Name(path, "there") for path in names if os.path.lexists(path)), nested=True)


def _linked(mark: str, tree: str, home: str, roots: tuple[str, ...]) -> Repository | None:
    """What a `.git` file leads to, if that points back: a file alone could name any directory."""
    told = _text(mark)
    if not told.startswith("gitdir: "):
        return None
    own = os.path.realpath(os.path.join(tree, told[8:]))
    common = os.path.realpath(os.path.join(own, _text(os.path.join(own, "commondir")) or "."))
    back = _text(os.path.join(own, "gitdir"))
    if os.path.dirname(own) != os.path.join(common, "worktrees") or not back:
        return None
    if os.path.realpath(os.path.dirname(os.path.join(own, back))) != tree or not os.path.isdir(f"{common}/objects"):
        return None
    mine = (name_in(own, "config.worktree"), name_in(own, "hooks"))
    names = (*(name_in(common, name) for name in _SHARED), *mine, *_named(common, tree, home, roots))
    return Repository(own, tuple(one for one in names if one.path != own), common)


def git_directory_of(tree: str) -> str:
    """Where the `.git` file of a linked worktree leads; empty if it is none."""
    told = _text(os.path.join(tree, ".git"))
    return os.path.realpath(os.path.join(tree, told[8:])) if told.startswith("gitdir: ") else ""


def _text(path: str) -> str:
    """What a small file says; empty where there is none to read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        return os.fsdecode(os.read(handle, 8192)).rstrip("\r\n")
    except OSError:
        return ""
    finally:
        os.close(handle)


# --- what the configuration names: its hooks, and files that it includes


def _named(directory: str, tree: str, home: str, roots: tuple[str, ...]) -> Iterator[Name]:
    files = [os.path.join(directory, "config"), os.path.join(directory, "config.worktree")]
    files += [os.path.join(home, ".gitconfig"), os.path.join(home, ".config/git/config"), "/etc/gitconfig"]
    seen = set(files)
    for file in files:  # grows while it is read
        for name, value in _settings(file):
            told = os.path.expanduser(value or "") if (value or "").startswith("~") else value or ""
            if name == "core.hookspath" and told:
                path = os.path.join(tree, told)
            elif told and (name == "include.path" or (name.startswith("includeif.") and name.endswith(".path"))):
                path = os.path.join(os.path.dirname(file), told)
                if path not in seen and len(files) < _MOST_INCLUDES:
                    seen.add(path)
                    files.append(path)
            else:
                continue
            found = name_of(os.path.normpath(path))
            if any(is_inside(found.path, root) for root in roots):
                yield found


def _settings(file: str) -> tuple[tuple[str, str | None], ...]:
    try:
        return read_config(file)
    except UnreadableError:
        return ()


# --- nested ones


class _Walk(Struct, frozen=True):
    """One look at a root: when each directory had changed last, and what was found."""

    stamps: tuple[tuple[str, int], ...]
    trees: tuple[str, ...]
    unseen: tuple[str, ...]


_walks: dict[str, _Walk] = {}
_FRESH = 50_000_000  # nanoseconds: what changed just now may change once more without another time of change


def _nested(root: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Trees below the root that have a `.git`, and directories that were too many to look into."""
    known = _walks.get(root)
    if known is None or not all(_stamp(path) == stamp for path, stamp in known.stamps):
        known = _look(root)
        if len(_walks) >= 64:
            _walks.clear()
        _walks[root] = known
        newest = max((stamp for _, stamp in known.stamps), default=0)
        if time.time_ns() - newest < _FRESH:
            del _walks[root]
    return known.trees, known.unseen


def _stamp(path: str) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return -1


def _look(root: str) -> _Walk:
    stamps: list[tuple[str, int]] = []
    trees: list[str] = []
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
            if depth < DEPTH:
                folders = _folders(path)
                following += [one for one in folders if os.path.basename(one) not in _FILLED]
                later += [one for one in folders if os.path.basename(one) in _FILLED]
        level = following
    _look_last(later, stamps, trees, until)
    return _Walk(tuple(stamps), tuple(trees), tuple(unseen))


def _look_last(filled: list[str], stamps: list[tuple[str, int]], trees: list[str], until: float) -> None:
    """Into what is filled by programs, one level deep, as far as there is room."""
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
