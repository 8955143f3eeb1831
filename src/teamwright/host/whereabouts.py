"""Where a command would run, followed through every `cd`, and what its paths come to from there."""

import os.path

from msgspec import Struct

from teamwright.core.facts import NOWHERE, Place
from teamwright.core.patterns import UNKNOWN
from teamwright.host.paths import is_linked

_SAFE_FILES = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty")


class Surroundings(Struct, frozen=True):
    """Where the command would run; all of them absolute and resolved."""

    cwd: str
    home: str
    roots: tuple[str, ...]


class Whereabouts:
    """The working directory as a set of possibilities; None: nobody knows."""

    def __init__(self, around: Surroundings, cwds: tuple[str, ...] | None) -> None:
        self.around = around
        self.cwds = cwds

    def either(self, before: tuple[str, ...] | None) -> None:
        """What came between may or may not have happened."""
        if before != self.cwds:
            self.cwds = None if before is None or self.cwds is None else tuple(dict.fromkeys(before + self.cwds))

    def change(self, target: str, *, certain: bool) -> None:
        if UNKNOWN in target or self.cwds is None or not certain:
            self.cwds = None
        else:
            self.cwds = tuple(dict.fromkeys(normal(cwd, target) for cwd in self.cwds))

    def variable(self, name: str) -> str | None:
        """The variables that are known before it runs."""
        if name == "HOME":
            return self.around.home
        return self.cwds[0] if name == "PWD" and self.cwds and len(self.cwds) == 1 else None

    def places(self, path: str, *, deep: bool = False) -> list[Place]:
        """The path from every directory that the command may be in by then."""
        if path in _SAFE_FILES or path.startswith("/dev/fd/"):
            return []
        if path.startswith("/"):
            return [self._place(path, "/", deep=deep)]
        if self.cwds is None:
            return [NOWHERE]
        return [self._place(path, cwd, deep=deep) for cwd in self.cwds]

    def _place(self, path: str, cwd: str, *, deep: bool) -> Place:
        # A `~` here is a name like any other: what the shell expands was expanded before.
        try:
            real = os.path.realpath(f"{cwd}/{path}")
            return Place(normal(cwd, path), real, deep, is_linked(real))
        except (OSError, UnicodeEncodeError):
            return NOWHERE


def normal(cwd: str, path: str) -> str:
    """Absolute and without dots, as bash itself would name it."""
    parts: list[str] = []
    for part in (path if path.startswith("/") else f"{cwd}/{path}").split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)
