"""What the sandbox refused to a program, as far as it can be known, in words for the model and as data."""

import os.path
import re
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct, to_builtins

from teamwright.core.permissions.consent import Mode
from teamwright.core.sandbox.hosts import with_port
from teamwright.core.sandbox.policy import Policy, access_of
from teamwright.core.text import few, shown

MOST = 10  # names that are listed
# How programs end their complaints: `sh: 1: cannot create /x: Read-only file system`, `[Errno 13] …: '/x'`.
_REFUSED = "Read-only file system|Permission denied|Operation not permitted|Input/output error|Device or resource busy"
_MISSING = "No such file or directory"
_BEFORE = re.compile(
    rf"(?P<path>(?:/|\./|\.\./|~/|[\w.-])[^\s:'\"`‘’]*)['\"`’]?(?: for \w+)?: (?P<why>{_REFUSED}|{_MISSING})"
)
_AFTER = re.compile(rf"(?P<why>{_REFUSED}|{_MISSING}):? ['\"](?P<path>[^'\"\n]+)['\"]")


class Refused(Struct, frozen=True, omit_defaults=True):
    """One thing that a program was refused."""

    kind: Literal["write", "read", "network"]
    path: str = ""
    host: str = ""
    port: int = 0


class Refusals(Struct, frozen=True):
    """`denied`: hosts are exact, paths come from what the program printed. `undone`: names that were restored."""

    tier: str
    denied: tuple[Refused, ...] = ()
    undone: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()  # names that could not be restored
    appeared: tuple[str, ...] = ()  # new names, left to the person
    leaves: bool = True  # may a command ask to leave the sandbox?

    def data(self) -> dict[str, Any]:
        return {
            "tier": self.tier,
            "denied": to_builtins(self.denied),
            "undone": [_as_text(name) for name in self.undone],
        }

    def words(self, mode: Mode) -> str:
        """One paragraph for the model; empty if nothing was refused."""
        hosts = [with_port(one.host, one.port) for one in self.denied if one.kind == "network"]
        writes = [one.path for one in self.denied if one.kind == "write"]
        reads = [one.path for one in self.denied if one.kind == "read"]
        said = [
            _listed("connections to", hosts),
            _listed("writing, by what it printed,", writes),
            _listed("reading, by what it printed,", reads),
        ]
        parts = [f"The sandbox refused {', '.join(found)}." if (found := [one for one in said if one]) else ""]
        if self.undone:
            parts.append(f"The sandbox removed or restored {_some(self.undone)}: commands may not change them.")
        if self.changed:
            parts.append(f"Changed, and could not be restored: {_some(self.changed)}. Tell the person.")
        if self.appeared:
            parts.append(f"New and not obeyed until the person agrees: {_some(self.appeared)}.")
        words = " ".join(part for part in parts if part)
        if not words:
            return ""
        leaves = self.leaves and mode not in ("plan", "dontAsk")
        way = " or, if it must be, ask to leave it with dangerouslyDisableSandbox" if leaves else ""
        where = "$TMPDIR" if mode == "plan" else "the working directories or $TMPDIR"
        return f"{words} Do it inside {where}{way}."


def _listed(verb: str, names: Sequence[str]) -> str:
    return f"{verb} {_some(names)}" if names else ""


def _some(names: Sequence[str]) -> str:
    return few([shown(name, 200) for name in names], MOST)


def refused_paths(printed: str, policy: Policy, cwd: str, home: str) -> tuple[Refused, ...]:
    """Paths that a program complained about and its policy does not open."""
    found: dict[Refused, None] = {}
    for match in (*_BEFORE.finditer(printed), *_AFTER.finditer(printed)):
        path = match["path"]
        path = home + path[1:] if path.startswith("~/") else path
        place = _resolved(path if path.startswith("/") else f"{cwd}/{path}")
        access, place = access_of(policy, place), _as_text(place)
        if match["why"] == _MISSING and access == "none":
            found[Refused("read", place)] = None
        elif match["why"] != _MISSING and access != "write":
            found[Refused("write" if access == "read" else "read", place)] = None
    return tuple(found)


def _resolved(path: str) -> str:
    """The path without links. Anything can be printed: names that cannot be, and links that nobody may follow, which
    raise below Python 3.12."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError, RecursionError):
        return os.path.normpath(path)


def _as_text(path: str) -> str:
    return path.encode(errors="replace").decode()  # JSON takes no surrogates, which stand for bytes that are not UTF-8
