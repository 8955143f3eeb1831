"""Reads the machine's state before a program starts in the sandbox: what is secret, protected, shared or missing.

It runs before every command, so it only checks some fifty names; slower results are kept until a directory changes.
"""

import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.permissions.patterns import copied_from, copied_to
from teamwright.core.permissions.protected import AT_HOME
from teamwright.core.sandbox.policy import Name, Repository, Terrain
from teamwright.core.sandbox.rules import SandboxRules
from teamwright.host.git.copies import copies_of
from teamwright.host.sandbox.ground.expand import existing, expanded, is_inside, name_in, opening, protected, real_path
from teamwright.host.sandbox.ground.layout import git_directory_of, layout_of
from teamwright.host.sandbox.ground.looks import Looks, look_at
from teamwright.host.sandbox.ground.secrets import find_at_home
from teamwright.host.sandbox.ground.sockets import Veil, find_sockets

_SHARED = ("/tmp", "/var/tmp")
_MOST_SECRETS = 500  # paths of denied reads; above that, a directory with many of them is hidden as a whole
_CROWD = 20
# Our interpreter and our code, which hooks and servers may start too.
_OURS = (os.path.dirname(sys.executable), f"{sys.base_prefix}/bin", __file__.partition("/teamwright/host/")[0])
_WALKS = re.compile(r"[*?\[].*/")
_MOST_COPIES = 20_000  # looked for, per pattern


class Ground(Struct, frozen=True):
    """Whose programs these are. Paths are absolute; they need not be resolved."""

    roots: tuple[str, ...]
    project: str
    home: str
    state: str  # TEAMWRIGHT_HOME
    tmp: str
    cache: str = ""  # empty: no cache of its own
    path: str = ""  # PATH of the program
    runtime: str = ""  # XDG_RUNTIME_DIR
    outputs: tuple[str, ...] = ()  # where this session keeps output of commands
    programs: tuple[str, ...] = ()  # what a server's command names: its program, and files and directories for it
    busy: tuple[str, ...] = ()  # trees in which other agents work
    masked: bool = True  # the tier can hide single sockets


def read_terrain(ground: Ground, rules: SandboxRules) -> Terrain:
    found = _standing(ground)
    covered = (*found.hidden, found.state, *found.shared, *found.runtime)
    roots = tuple(real_path(root) for root in ground.roots) if ground.busy or rules.deny_read else ()
    allow_write, allow_read = opening(rules.allow_write), opening(rules.allow_read)
    places = (found.home, found.project, *ground.roots)
    veil = Veil(covered, (*places, *found.shown, *allow_write, *allow_read))
    moving: dict[str, tuple[object, ...]] = {
        "busy": tuple(_busy(ground.busy, roots)),
        "sockets": () if rules.all_sockets or not ground.masked else tuple(find_sockets(veil, places)),
        "opened": existing(expanded(rules.sockets)),
        "allow_write": allow_write,
        "deny_write": _outside(protected(_with_copies(rules.deny_write, ground.roots))),
        "deny_read": _gathered(
            existing(_with_copies(rules.deny_read, ground.roots)), (*roots, found.home, found.project)
        ),
        "allow_read": allow_read,
    }
    return replace(found, **moving) if any(moving.values()) else found


def _with_copies(patterns: Sequence[str], roots: Sequence[str]) -> Iterator[str]:
    """What the patterns name, and what worktrees have in its place.

    A wildcard for directories is looked up in the main tree and the roots alone: walking every worktree before every
    command would take too long. In the others, files of the names found there count.
    """
    for pattern in patterns:
        if not _WALKS.search(pattern):
            yield from expanded((pattern, *copies_of(pattern)))
            continue
        found = tuple(expanded({pattern, *(copied_to(pattern, root) for root in roots)}))
        copies = (copy for name in dict.fromkeys(map(copied_from, found)) for copy in copies_of(name))
        yield from (*found, *filter(os.path.lexists, islice(copies, _MOST_COPIES)))


# --- what rarely changes between commands


class _Kept(Struct, frozen=True):
    terrain: Terrain
    looks: Looks


_kept: dict[Ground, _Kept] = {}  # most recently used last
_MOST_KEPT = 64


def _standing(ground: Ground) -> Terrain:
    """Everything that settings do not affect, kept until something it is based on changes."""
    known = _kept.pop(ground, None)
    if known is None or not known.looks.hold():
        began = time.time_ns()
        terrain, made_of = _look_around(ground)
        looks = look_at(made_of, _passed(ground, terrain), began) if made_of else None
        if looks is None:
            return terrain
        known = _Kept(terrain, looks)
    _kept[ground] = known
    if len(_kept) > _MOST_KEPT:
        del _kept[next(iter(_kept))]
    return known.terrain


def _look_around(ground: Ground) -> tuple[Terrain, tuple[str, ...]]:
    """The terrain, and the paths it is based on; no paths if that cannot be guaranteed."""
    home, state, project = real_path(ground.home), real_path(ground.state), real_path(ground.project)
    roots = tuple(project if root == ground.project else real_path(root) for root in ground.roots)
    tmp, cache = (real_path(path) if path else "" for path in (ground.tmp, ground.cache))
    there = find_at_home(home)
    shared = _directories(_SHARED)
    runtime = _directories(("/run", "/var/run", ground.runtime))
    layouts = [layout_of(root, project, home, roots) for root in roots]
    repositories: dict[str, Repository] = {}
    for layout in layouts:  # a nested repository of one root may be another root's own
        for one in layout.repositories:
            if one.directory not in repositories or repositories[one.directory].nested:
                repositories[one.directory] = one
    names = [name for layout in layouts for name in layout.names]
    at_home = any(is_inside(home, root) for root in roots)
    names += [name_in(home, name) for name in (*AT_HOME, *_dotted(home))] if at_home else []
    covered = (*there.hidden, state, *shared, *runtime)
    terrain = Terrain(
        project=project,
        home=home,
        state=state,
        hidden=there.hidden,
        shared=shared,
        runtime=runtime,
        shown=tuple(dict.fromkeys(_shown(ground, there.shown, covered, shared))),
        names=tuple(dict.fromkeys((*names, *(mark for layout in layouts for mark in layout.marks)))),
        repositories=tuple(repositories.values()),
        unseen=tuple(path for layout in layouts for path in layout.unseen if path not in roots),
        tmp=tmp,
        cache=cache,
    )
    given = (ground.home, ground.state, ground.project, *ground.roots, ground.tmp, ground.cache)
    parts = (there.made_of, *(layout.made_of for layout in layouts))
    plain = given == (home, state, project, *roots, tmp, cache) and (
        tuple(map(real_path, ground.outputs)) == ground.outputs
    )
    if at_home or ground.programs or not plain or not all(parts):
        return terrain, ()
    return terrain, tuple(path for part in parts for path in part)


def _dotted(home: str) -> list[str]:
    """Files and directories of programs; git's own data is guarded name by name."""
    try:
        return [name for name in os.listdir(home) if name.startswith(".") and name != ".git"]
    except OSError:
        return []


def _passed(ground: Ground, found: Terrain) -> Iterator[str]:
    """Places whose existence matters, but not their content."""
    covered = (*found.hidden, found.state, *found.shared, *found.runtime)
    places = (ground.state, ground.tmp, ground.cache, *ground.outputs, *_hidden_places(_path(ground), covered))
    return (path for path in places if path)


@lru_cache(maxsize=8)
def _directories(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Directories of the machine itself, which do not move."""
    found = (os.path.realpath(path) for path in paths if path)
    return tuple(dict.fromkeys(path for path in found if path != "/" and os.path.isdir(path)))


def _outside(names: tuple[Name, ...]) -> tuple[Name, ...]:
    """Drops `/`, which cannot be protected as a name: then nothing could be written, not even temporary files."""
    return tuple(name for name in names if name.path != "/")


def _gathered(paths: tuple[str, ...], kept: tuple[str, ...]) -> tuple[str, ...]:
    """Each hidden path costs a mount. If thousands are named, hides their directories instead."""
    if len(paths) <= _MOST_SECRETS:
        return paths
    above: dict[str, list[str]] = {}
    for path in paths:
        above.setdefault(os.path.dirname(path), []).append(path)
    found: list[str] = []
    for directory, inner in above.items():
        crowded = len(inner) >= _CROWD and not any(is_inside(one, directory) for one in kept)
        found += [directory] if crowded else inner
    return tuple(found)


# --- what is shown again, masked or left alone


def _shown(ground: Ground, ours: tuple[str, ...], covered: tuple[str, ...], shared: tuple[str, ...]) -> Iterator[str]:
    yield from map(os.path.realpath, ours)
    yield from existing(ground.outputs)
    named = tuple(one for path in ground.programs for one in (path, os.path.realpath(path)) if os.path.exists(one))
    folders = tuple(os.path.dirname(one) for one in named if os.path.isfile(one))
    # A repository may have written that command, so it opens parts of shared places only, no secret and none of ours.
    kept = [one for one in covered if one not in shared]
    folders, named = (
        tuple(one for one in _hidden_places(paths, shared) if not any(is_inside(one, other) for other in kept))
        for paths in (folders, named)
    )
    for place in (*_hidden_places(_path(ground), covered), *folders):
        if place in covered or not os.path.isdir(place):
            continue
        prefix = os.path.dirname(place)
        wide = any(is_inside(one, prefix) for one in covered)  # the prefix would show more than the program's own files
        yield place if wide else prefix
    yield from (one for one in named if one not in covered)


def _path(ground: Ground) -> tuple[str, ...]:
    return (*ground.path.split(":"), *_OURS)


@lru_cache(maxsize=16)
def _hidden_places(paths: tuple[str, ...], covered: tuple[str, ...]) -> tuple[str, ...]:
    """Those that are hidden. Cached, because programs do not move during a session."""
    found = dict.fromkeys(os.path.realpath(one) for one in paths if one.startswith("/"))
    return tuple(place for place in found if any(is_inside(place, one) for one in covered))


def _busy(trees: tuple[str, ...], roots: tuple[str, ...]) -> Iterator[str]:
    for tree in map(os.path.realpath, trees):
        if tree not in roots:
            yield tree
            if git := git_directory_of(tree):
                yield git
