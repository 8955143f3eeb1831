"""Tracks a command's working directory through every `cd`, and resolves its paths."""

import os.path
import re
from pathlib import Path

from msgspec import Struct

from teamwright.core.permissions.facts import NOWHERE, Place
from teamwright.core.permissions.patterns import UNKNOWN, PathPattern
from teamwright.host.files.hard_links import guarded_name
from teamwright.host.files.paths import is_linked

_PROC, _DESCRIPTORS = Path("/proc"), Path("/dev/fd")
_MOST_DIRECTORIES = 16  # possible directories; more count as unknown
_SAFE_FILES = re.compile(r"/dev/(?:null|stdout|stderr|stdin|tty|fd/\d{1,2})")  # `/dev/fd/..` could lead anywhere


class ShellContext(Struct, frozen=True):
    """Where the command would run; all paths absolute and resolved. `trusted`: a person agreed to what git is
    configured to run there. `guarded`: what rules restrict, to be looked for where a command reads a whole tree.
    `later`: it runs on while files change."""

    cwd: str
    home: str
    roots: tuple[str, ...]
    trusted: bool = False
    guarded: tuple[PathPattern, ...] = ()
    later: bool = False


class CwdTracker:
    """The working directory as a set of possibilities; None if unknown."""

    def __init__(self, around: ShellContext, cwds: tuple[str, ...] | None) -> None:
        self.around = around
        self.cwds = cwds

    def either(self, before: tuple[str, ...] | None) -> None:
        """The commands since `before` may or may not have run."""
        if before != self.cwds:
            both = None if before is None or self.cwds is None else tuple(dict.fromkeys(before + self.cwds))
            self.cwds = None if both is None or len(both) > _MOST_DIRECTORIES else both

    def change(self, target: str, *, certain: bool) -> None:
        """Applies a `cd`. If it would leave a link by `..`, bash and the system disagree about the parent."""
        if UNKNOWN in target or self.cwds is None or not certain:
            self.cwds = None
            return
        there = [normal(cwd, target) for cwd in self.cwds]
        known = all(
            _same(place, f"{cwd}/{target}" if target[:1] != "/" else target)
            for cwd, place in zip(self.cwds, there, strict=True)
        )
        self.cwds = tuple(dict.fromkeys(there)) if known else None

    def variable(self, name: str) -> str | None:
        """Variables whose values are known beforehand."""
        if name == "HOME":
            return self.around.home
        return self.cwds[0] if name == "PWD" and self.cwds and len(self.cwds) == 1 else None

    def places(self, path: str, *, deep: bool = False) -> list[Place]:
        """The path from every directory that the command may be in at that point."""
        if _SAFE_FILES.fullmatch(path):
            return []
        if path.startswith("/"):
            return [self._place(path, "/", deep=deep)]
        if self.cwds is None:
            return [NOWHERE]
        return [self._place(path, cwd, deep=deep) for cwd in self.cwds]

    def _place(self, path: str, cwd: str, *, deep: bool) -> Place:
        # A `~` here is an ordinary character: the shell's expansions were already applied.
        try:
            if leads_through_proc(f"{cwd}/{path}"):
                return NOWHERE
            real = os.path.realpath(f"{cwd}/{path}")
            linked = is_linked(real)
            twin = guarded_name(real, self.around.guarded) if linked and self.around.guarded else ""
            return Place(twin or normal(cwd, path), real, deep, linked)
        except (OSError, UnicodeEncodeError):
            return NOWHERE


def _same(one: str, other: str) -> bool:
    try:
        return os.path.realpath(one) == os.path.realpath(other)
    except (OSError, ValueError):
        return False


def leads_through_proc(path: str, links: int = 40) -> bool:
    """Does the path lead through /proc, whose files differ for every process that opens them?"""
    at = Path("/")
    for part in path.split("/"):
        at = at.parent if part == ".." else at / part
        if at == _PROC or at.parent == _DESCRIPTORS:
            return True
        if links and at.is_symlink():
            if leads_through_proc(str(at.parent / at.readlink()), links - 1):
                return True
            at = Path(os.path.realpath(at))
    return False


def normal(cwd: str, path: str) -> str:
    """Absolute and without dots, as bash itself would name it."""
    parts: list[str] = []
    for part in (path if path.startswith("/") else f"{cwd}/{path}").split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)
