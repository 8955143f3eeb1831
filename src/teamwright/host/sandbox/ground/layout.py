"""Finds the git directories that belong to a root: its own, including a linked worktree's, and nested ones."""

import os
import stat
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.permissions.protected import OPENED
from teamwright.core.sandbox.policy import MOST_NESTED, Name, Repository
from teamwright.host.git.config_file import UnreadableError, read_config
from teamwright.host.git.places import text_of
from teamwright.host.sandbox.ground.expand import is_inside, name_in, name_of
from teamwright.host.sandbox.ground.nested import lacking, walk_below

_PROTECTED = ("hooks", "config", "config.worktree", "commondir", "modules", "worktrees", "remotes", "branches")
_SHARED = (*_PROTECTED, "HEAD", "index")  # for the directory that a linked worktree shares with the main one
_MOST_INCLUDES = 50


class Layout(Struct, frozen=True):
    names: tuple[Name, ...] = ()  # protected ones of the root itself
    repositories: tuple[Repository, ...] = ()
    marks: tuple[Name, ...] = ()  # each `.git` that is a file or a link
    unseen: tuple[str, ...] = ()
    made_of: tuple[str, ...] = ()  # everything holds while none of these changes; empty if that cannot be guaranteed


def layout_of(root: str, project: str, home: str, roots: tuple[str, ...]) -> Layout:
    """The layout of one root. Its own repository is searched for upwards as far as `project`."""
    top = _top(root, project)
    own = _repository(top, home, roots, nested=False) if top else Layout()
    walk = walk_below(root)
    others = [tree for tree in walk.trees if tree != top]
    bare = [path for path in walk.bare if path != root]
    if len(others) + len(bare) > MOST_NESTED:  # guard each as a whole, so that none has to be examined
        directories = [*(os.path.realpath(os.path.join(tree, ".git")) for tree in others), *bare]
        parts = [own, Layout(repositories=tuple(map(_whole, directories)))]
    else:
        found = tuple(_plain(path, path, home, roots, nested=True) for path in bare)
        parts = [own, *(_repository(tree, home, roots, nested=True) for tree in others), Layout(repositories=found)]
    layout = Layout(
        (*(name_in(root, name) for name in OPENED), *_disguise(root, home, roots)),
        tuple(one for part in parts for one in part.repositories),
        tuple(one for part in parts for one in part.marks),
        walk.unseen,
    )
    files = [file for one in layout.repositories for file in _own_files(one.directory)] + _personal(home)
    if top not in ("", root) or not _is_plain(layout) or any(map(_leads_elsewhere, files)):
        return layout
    folders = [path for path, _ in walk.stamps] + [one.directory for one in layout.repositories]
    folders += [hg] if os.path.isdir(hg := f"{root}/.hg") else []
    above = [] if top else _way_up(root, project)
    return replace(layout, made_of=(root, *above, *folders, *files))


def _disguise(root: str, home: str, roots: tuple[str, ...]) -> Iterator[Name]:
    """Keeps a root from becoming a git directory: git would take it for one if its `.git` is broken."""
    if missing := lacking(root):
        yield name_in(root, missing)
        return
    yield from (name_in(root, name) for name in _PROTECTED)
    yield from _named(root, root, home, roots)


def _is_plain(layout: Layout) -> bool:
    """Do only these directories and files determine the layout, with nothing leading elsewhere?"""
    names = [*layout.names, *(name for one in layout.repositories for name in one.names)]
    if layout.marks or len(layout.names) > len(OPENED) + 1 or any(one.common for one in layout.repositories):
        return False
    own = {f"{one.directory}/{name}" for one in layout.repositories for name in _PROTECTED}
    own.update(name.path for name in layout.names)
    return all(name.path in own and name.state != "link" for name in names)


def _own_files(directory: str) -> list[str]:
    files = (f"{directory}/config", f"{directory}/config.worktree")
    return [file for file in files if os.path.lexists(file)]


def _leads_elsewhere(file: str) -> bool:
    """Is the configuration a link, or does it include other files or name a place for hooks?"""
    told = ("include.", "includeif.", "core.hookspath")
    return os.path.islink(file) or any(name.startswith(told) for name, _ in _settings(file))


def _way_up(root: str, project: str) -> list[str]:
    """Directories above a root without a repository, in which one may appear."""
    found: list[str] = []
    while root != project and is_inside(root, project):
        root = os.path.dirname(root)
        found.append(root)
    return found


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
        return Layout(repositories=(_plain(mark, tree, home, roots, nested=nested),))
    if name.state == "link":
        inside = any(is_inside(name.target, root) for root in roots) and os.path.isdir(name.target)
        found = (_plain(name.target, tree, home, roots, nested=nested),) if inside else ()
        return Layout(repositories=found, marks=(name,))
    linked = _linked(mark, tree, home, roots)
    return Layout(repositories=(linked,) if linked and not nested else (), marks=(name,))


def _plain(directory: str, tree: str, home: str, roots: tuple[str, ...], *, nested: bool) -> Repository:
    names = (*(name_in(directory, name) for name in _PROTECTED), *_named(directory, tree, home, roots))
    return Repository(directory, names, nested=nested)


def _whole(git: str) -> Repository:
    names = (os.path.join(git, name) for name in ("config", "hooks"))
    return Repository(git, tuple(Name(path, "there") for path in names if os.path.lexists(path)), nested=True)


def _linked(mark: str, tree: str, home: str, roots: tuple[str, ...]) -> Repository | None:
    """The repository a `.git` file names, if that points back, because the file alone could name any directory."""
    told = text_of(mark, follow=False)
    if not told.startswith("gitdir: "):
        return None
    own = os.path.realpath(os.path.join(tree, told[8:]))
    common = os.path.realpath(os.path.join(own, text_of(os.path.join(own, "commondir"), follow=False) or "."))
    back = text_of(os.path.join(own, "gitdir"), follow=False)
    if os.path.dirname(own) != os.path.join(common, "worktrees") or not back:
        return None
    if os.path.realpath(os.path.dirname(os.path.join(own, back))) != tree or not os.path.isdir(f"{common}/objects"):
        return None
    mine = (name_in(own, "config.worktree"), name_in(own, "hooks"))
    names = (*(name_in(common, name) for name in _SHARED), *mine, *_named(common, tree, home, roots))
    return Repository(own, tuple(one for one in names if one.path != own), common)


def git_directory_of(tree: str) -> str:
    """Where the `.git` file of a linked worktree leads; empty if it is not one."""
    told = text_of(os.path.join(tree, ".git"), follow=False)
    return os.path.realpath(os.path.join(tree, told[8:])) if told.startswith("gitdir: ") else ""


# --- what the configuration names: hooks and included files


def _named(directory: str, tree: str, home: str, roots: tuple[str, ...]) -> Iterator[Name]:
    files = [f"{directory}/config", f"{directory}/config.worktree"]
    files += _personal(home)
    seen = set(files)
    for file in files:  # grows during the loop
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


def _personal(home: str) -> list[str]:
    return [f"{home}/.gitconfig", f"{home}/.config/git/config", "/etc/gitconfig"]


def _settings(file: str) -> tuple[tuple[str, str | None], ...]:
    try:
        return read_config(file)
    except UnreadableError:
        return ()
