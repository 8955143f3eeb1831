"""Expands wildcards in paths from settings, against existing files."""

import os
import re
from collections.abc import Iterable, Iterator
from errno import EINVAL
from fnmatch import translate
from itertools import chain

from teamwright.core.sandbox.path_entry import PathEntry
from teamwright.core.sandbox.policy import Name

DEPTH = 3  # levels that `**` matches
_MOST = 20_000  # names examined per pattern
_PLACE = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
_WILD = re.compile(r"[*?\[]")


def real_path(path: str) -> str:
    """Like `os.path.realpath`, but faster: it lets the kernel resolve the path instead of checking each component."""
    try:
        handle = os.open(path, _PLACE | os.O_CLOEXEC)
    except OSError:
        return os.path.realpath(path)
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    except OSError:
        return os.path.realpath(path)
    finally:
        os.close(handle)


def name_of(path: str) -> Name:
    """The name as it is: directories above it are resolved, the name itself is not."""
    above, last = os.path.split(path)
    return name_in(os.path.realpath(above), last) if last else Name(above, "there")


def name_in(directory: str, name: str) -> Name:
    """A name in a resolved directory."""
    path = f"{directory.rstrip('/')}/{name}"
    try:
        says = os.readlink(path)
    except OSError as error:
        return Name(path, "there" if error.errno == EINVAL else "missing")  # EINVAL: it exists and is not a link
    target = os.path.realpath(path)
    return Name(path, "link", target if os.path.exists(target) else "", says)


def existing(paths: Iterable[str]) -> tuple[str, ...]:
    """Real paths of existing files."""
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths if os.path.exists(path)))


def opening(entries: tuple[PathEntry, ...]) -> tuple[str, ...]:
    """Like `existing`, without confined paths that lead elsewhere."""
    found: dict[str, None] = {}
    for entry in entries:
        within = os.path.realpath(entry.within) if entry.within else ""
        for path in existing(expand(entry.path)):
            if not within or is_inside(path, within):
                found[path] = None
    return tuple(found)


def protected(paths: Iterable[str]) -> tuple[Name, ...]:
    """Names to be protected from changes; those without wildcards count even if they do not exist yet."""
    return tuple(dict.fromkeys(map(name_of, paths)))


def is_inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def expanded(patterns: Iterable[str]) -> Iterator[str]:
    return chain.from_iterable(map(expand, patterns))


def expand(pattern: str) -> Iterator[str]:
    """`*`, `?` and `[…]` match within a name, `**` up to three directories; a final `/**` means the directory
    itself."""
    parts = [part for part in pattern.split("/") if part]
    while parts and parts[-1] == "**":
        parts.pop()
    room = [_MOST]
    yield from _below("/", parts, room)


def _below(base: str, parts: list[str], room: list[int]) -> Iterator[str]:
    if not parts:
        yield base
        return
    first, rest = parts[0], parts[1:]
    if first == "**":
        yield from dict.fromkeys(_anywhere(base, rest, DEPTH, room))
    elif not _WILD.search(first):
        yield from _below(os.path.join(base, first), rest, room)
    else:
        fits = re.compile(translate(first)).match
        for name in _names(base, room):
            if fits(name):
                yield from _below(os.path.join(base, name), rest, room)


def _anywhere(base: str, rest: list[str], depth: int, room: list[int]) -> Iterator[str]:
    yield from (path for path in _below(base, rest, room) if os.path.lexists(path))
    if depth:
        for name in _names(base, room, folders=True):
            yield from _anywhere(os.path.join(base, name), rest, depth - 1, room)


def _names(base: str, room: list[int], *, folders: bool = False) -> list[str]:
    found: list[str] = []
    try:
        with os.scandir(base) as entries:
            for entry in entries:
                if room[0] <= 0:
                    break
                room[0] -= 1
                if not folders or entry.is_dir(follow_symlinks=False):
                    found.append(entry.name)
    except OSError:
        return found
    return found
