"""Translates a policy into Landlock rules: rights on paths, as far as the kernel's version supports them."""

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from teamwright.core.sandbox.policy import Access, Policy, access_of
from teamwright.host.sandbox.ground.expand import is_inside

LEAST_ABI = 3  # earlier ones cannot restrict truncation
SCOPES_ABI = 6  # from here on, signals and abstract sockets can be confined

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_MAKE_CHAR, _MAKE_BLOCK, _TRUNCATE, _IOCTL_DEV = 1 << 6, 1 << 11, 1 << 14, 1 << 15
_KNOWN = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_ALL = (1 << 16) - 1  # from ABI 5 on
ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_WRITE = _ALL & ~(_MAKE_CHAR | _MAKE_BLOCK)
_DEVICE = _READ_FILE | _WRITE_FILE | _IOCTL_DEV
_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts"))
_SIZES = {1: 8, 2: 8, 3: 8, 4: 16, 5: 16}  # bytes of the attributes that describe a ruleset; 24 in later versions


def handled_rights(abi: int) -> int:
    """All rights that this version can deny."""
    return _KNOWN.get(abi, _ALL)


def attributes(abi: int) -> bytes:
    """What a ruleset covers, in the kernel's form: rights on files, both on TCP ports, both scopes."""
    return struct.pack("=QQQ", handled_rights(abi), 3, 3)[: _SIZES.get(abi, 24)]


# Rules can only allow, so something is hidden by allowing everything beside it.


class Allowed(NamedTuple):
    path: str
    rights: int


class Ruleset(NamedTuple):
    """`stamps`: listed directories and when they changed; new entries in them are not covered.

    `places`: writable places by inode, as the kernel identifies them; a recreated one is not covered either.
    """

    rules: tuple[Allowed, ...]
    stamps: tuple[tuple[str, int], ...]
    places: tuple[tuple[str, int], ...]


def ruleset_for(policy: Policy) -> Ruleset:
    stamps: dict[str, int] = {}
    top: Access = access_of(policy, "/")
    rules = list(_allow(policy, "/", top, stamps))
    if top != "write":
        rules += [Allowed("/dev", _READ_DIR), *(Allowed(path, _DEVICE) for path in _DEVICES)]
    written = [path for path, rights in rules if rights == _WRITE]
    return Ruleset(tuple(rules), tuple(stamps.items()), tuple((path, _inode(path)) for path in written))


def _allow(policy: Policy, path: str, access: Access, stamps: dict[str, int]) -> Iterator[Allowed]:
    below: list[tuple[str, Access]] = [
        (one, kind) for one, kind in policy.access if one != path and is_inside(one, path)
    ]
    shared = [one for one in policy.walked if is_inside(one, path)]
    if path == "/dev" and not any(kind == "write" for _, kind in below):
        return
    if access == "none":
        for one, kind in below:
            if kind != "none" and not any(inner != "none" and is_inside(one, up) for up, inner in below if up != one):
                yield from _allow(policy, one, kind, stamps)
        return
    if access == "write" and path not in policy.walked:
        yield Allowed(path, _WRITE)
        return
    parted = path in ("/", *policy.walked) or shared or any(kind == "none" for _, kind in below)
    if not parted:
        yield Allowed(path, _READ)
        for one, kind in below:
            if kind == "write":
                yield from _allow(policy, one, kind, stamps)
        return
    for name in _listed(path, stamps):
        inner = os.path.join(path, name)
        yield from _allow(policy, inner, access_of(policy, inner), stamps)


def _listed(path: str, stamps: dict[str, int]) -> list[str]:
    """Links are skipped, because their targets have their own rules."""
    try:
        stamps[path] = os.stat(path).st_mtime_ns
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if not entry.is_symlink()]
    except OSError:
        return []


def is_current(ruleset: Ruleset) -> bool:
    try:
        listed = all(os.stat(path).st_mtime_ns == stamp for path, stamp in ruleset.stamps)
    except OSError:
        return False
    return listed and all(_inode(path) == inode for path, inode in ruleset.places)


def _inode(path: str) -> int:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return -1
