"""Finds sockets of the machine that programs could reach by path, whatever name they were bound by."""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress

from teamwright.host.sandbox.ground.expand import is_inside

# reference count, protocol, flags, type and state come first, then inode and name
_LINE = re.compile(rb"\S+ \S+ \S+ \S+ \S+ \S+ +(\d+) ([^@\s].*)")
_MOST_TEXT = 4 << 20
_MOST_KNOWN = 1_000

_owners: dict[str, tuple[str, ...]] = {}  # inode -> working directories of the programs that hold the socket


class Veil:
    """Paths hidden from programs: those in `covered`, except for parts shown `again`."""

    def __init__(self, covered: Iterable[str], again: Iterable[str]) -> None:
        self._covered, self._again = tuple(covered), tuple(again)
        self._folders: dict[str, str] = {}

    def hides(self, path: str) -> bool:
        hidden = max((len(one) for one in self._covered if is_inside(path, one)), default=0)
        return hidden > max((len(one) for one in self._again if is_inside(path, one)), default=0)

    def real(self, path: str) -> str:
        """Resolves a path; caches directories, because most sockets are in few of them."""
        folder, name = os.path.split(path)
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        return os.path.join(self._folders[folder], name)


def find_sockets(veil: Veil, places: tuple[str, ...]) -> Iterator[str]:
    """Resolved paths of visible sockets. `places`: where sockets bound by a relative name may be.

    Sockets of other mount namespaces are listed too, but do not exist for us.
    """
    found: set[str] = set()
    for path in _paths(places):
        with suppress(OSError, ValueError):
            if veil.hides(real := veil.real(path)):
                continue
            real = os.path.realpath(real)
            if not veil.hides(real) and stat.S_ISSOCK(os.stat(real).st_mode):
                found.add(real)
    yield from sorted(found)  # all of them: if bubblewrap cannot hide them all, nothing runs


def _paths(places: tuple[str, ...]) -> Iterator[str]:
    try:
        with open("/proc/net/unix", "rb") as file:
            lines = file.read(_MOST_TEXT).split(b"\n")[1:]
    except OSError:
        return
    named = [(line[1].decode(), os.fsdecode(line[2])) for line in map(_LINE.fullmatch, lines) if line]
    relative = [(inode, name) for inode, name in named if not name.startswith("/")]
    yield from (name for _, name in named if name.startswith("/"))
    if relative:
        _look_for_owners({inode for inode, _ in relative} - _owners.keys())
    for inode, name in relative:
        yield from (os.path.join(place, name) for place in dict.fromkeys((*_owners.get(inode, ()), *places)))


def _look_for_owners(inodes: set[str]) -> None:
    """Finds the working directory of each socket's owner, from which a relative name counts. Most programs stay in
    theirs. Only processes of our own user are readable."""
    if not inodes:
        return
    if len(_owners) > _MOST_KNOWN:
        _owners.clear()
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    _owners.update(dict.fromkeys(inodes, ()))
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            for handle in os.listdir(f"/proc/{pid}/fd"):
                if inode := wanted.get(_says(f"/proc/{pid}/fd/{handle}")):
                    _owners[inode] = (*_owners[inode], os.readlink(f"/proc/{pid}/cwd"))


def _says(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""
