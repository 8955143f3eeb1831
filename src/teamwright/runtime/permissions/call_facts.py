"""Reads from a call's traits and arguments the facts for the judge, and the paths to open."""

import os.path
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.content.patch import Hunk
from teamwright.core.errors import ToolError
from teamwright.core.permissions.facts import Edits, Facts, Fetches, Place, Reads, Uses
from teamwright.core.permissions.patterns import PathPattern
from teamwright.core.permissions.rules import BASH, Rules, guarded_patterns
from teamwright.core.ports import Desk
from teamwright.core.text import shown
from teamwright.host.files.hard_links import guarded_name
from teamwright.host.files.paths import is_linked, resolve
from teamwright.runtime.tool_traits import Catalog, PathArgument, ToolTraits, find_traits

_BACKGROUND = "run_in_background"
LEAVES = "dangerouslyDisableSandbox"
_TMP = "/tmp/"  # noqa: S108  # as commands in the sandbox see it
_LONG = 4_096
_LOOKS_FAR = r"\*|\b(?:rm|mv|cp|find|xargs)\b"
_LOOKS_BELOW = rf"{_LOOKS_FAR}|grep\b|\b(?:rg|git|scp|rsync|tar|zip|7z|diff)\b|[$`\[{{]"  # if rules guard something
Patch = tuple[Hunk, ...]


class Intent(Struct, frozen=True):
    """What a call would do. `facts` is None if the arguments make no sense: the tool itself will say so.

    `paths` are as in Allow. `leaves`: a command asks to run outside of the sandbox.
    """

    facts: Facts | None
    paths: dict[str, str] = {}
    leaves: bool = False


class OwnTmp(Struct, frozen=True):
    """What /tmp is for commands in the sandbox. `kept`: directories below it that are still the machine's."""

    place: str
    kept: tuple[str, ...] = ()


class _Around(Struct, frozen=True):
    """What a call is read against, besides its own arguments."""

    desk: Desk
    home: Path
    guarded: tuple[PathPattern, ...]
    tmp: OwnTmp | None = None  # None: the machine's


class FactReader(Struct, frozen=True):
    """Reads calls by the traits of their tools. `home` is the person's."""

    catalog: Catalog
    home: Path
    tmp_of: Callable[[Desk], OwnTmp | None] | None = None  # what /tmp is for an agent's commands; None: the machine's

    async def read(self, tool: str, args: Mapping[str, Any], desk: Desk, rules: Rules) -> Intent:
        """Raises ToolError for an impossible path, or one that cannot be judged as it is now.

        `rules` are those that will judge the call: if a command reads a whole tree, it is searched for files that they
        guard.
        """
        traits = find_traits(self.catalog, tool)
        tmp = self.tmp_of(desk) if self.tmp_of is not None and traits.path is not None else None
        around = _Around(desk, self.home, guarded_patterns(rules), tmp)
        if (desk.near and not _is_long(traits, args, around)) or not _touches_disk(traits):
            return _read_now(traits, args, around)
        return await to_thread.run_sync(_read_now, traits, args, around, abandon_on_cancel=True)

    async def preview(self, tool: str, args: Mapping[str, Any], desk: Desk, paths: Mapping[str, str]) -> Patch:
        """What the call would change in a file. Raises ToolError if it could change nothing."""
        traits = find_traits(self.catalog, tool)
        if traits.preview is None:
            return ()
        return await to_thread.run_sync(traits.preview, args, desk, paths, abandon_on_cancel=True)


def _touches_disk(tool: ToolTraits) -> bool:
    """Whether it takes the disk to learn what the call would do."""
    return tool.path is not None or tool.runs


def _is_long(tool: ToolTraits, args: Mapping[str, Any], around: _Around) -> bool:
    """Whether a command may take so long to read that others should not wait for it: one that is long, has wildcards,
    or changes or walks whole directories."""
    command = args.get("command")
    if not tool.runs or not isinstance(command, str):
        return False
    walks = _LOOKS_BELOW if around.guarded else _LOOKS_FAR
    return len(command) > _LONG or re.search(walks, command) is not None


def _read_now(tool: ToolTraits, args: Mapping[str, Any], around: _Around) -> Intent:
    try:
        return _read(tool, args, around)
    except OSError as error:
        why = f"{shown(str(error.filename))}: " if error.filename else ""
        raise ToolError(
            f"{tool.name} was not run: what it would touch could not be looked at ({why}{error.strerror or error}). "
            "Something on the way may have just been replaced: try again, or use another path."
        ) from None


def _read(tool: ToolTraits, args: Mapping[str, Any], around: _Around) -> Intent:
    if tool.path is not None:
        return _on_path(tool.name, tool.path, args, around)
    if tool.runs:
        return _on_shell(tool.name, args, around)
    if tool.fetches:
        return Intent(_fetch(tool.name, args.get("url")))
    detail = tool.detail(args)
    return Intent(Uses(tool.name, detail, own=tool.own, weighty=tool.weighty(detail), reading=tool.effects == "none"))


def _on_path(tool: str, named: PathArgument, args: Mapping[str, Any], around: _Around) -> Intent:
    desk, tmp, searches = around.desk, around.tmp, named.access == "search"
    path = args.get(named.name)
    if path is None and searches:
        path = str(desk.cwd)
    if not isinstance(path, str):
        return Intent(None)
    place = _guarded(_place(_in_own_tmp(path, tmp, named) if tmp else path, desk.cwd), around.guarded)
    if not searches:
        return Intent((Reads if named.access == "read" else Edits)(tool, (place,)), {path: place.path})
    beyond = _beyond(args.get(named.pattern), Path(place.path)) if named.pattern else ()
    return Intent(Reads(tool, (place, *beyond)), {path: place.path})


def _in_own_tmp(path: str, tmp: OwnTmp, named: PathArgument) -> str:
    """The file that commands mean by /tmp/…; one that is only in the machine's /tmp is read from there."""
    flat = os.path.normpath(path)
    if not flat.startswith(_TMP) or any(flat == one or flat.startswith(f"{one}/") for one in tmp.kept):
        return path
    own = f"{tmp.place}/{flat.removeprefix(_TMP)}"
    return own if named.access not in ("read", "search") or os.path.lexists(own) else path


def _place(path: str, cwd: Path) -> Place:
    real = resolve(path, cwd)
    given = os.path.normpath(cwd / os.path.expanduser(path))  # noqa: PTH111  # as `resolve` does
    return Place(given, str(real), linked=is_linked(str(real)))


def _guarded(place: Place, guarded: tuple[PathPattern, ...]) -> Place:
    """By its guarded name, if it is a hard link that has one."""
    twin = guarded_name(place.path, guarded) if place.linked and guarded else ""
    return replace(place, given=twin) if twin else place


def _beyond(pattern: Any, folder: Path) -> tuple[Place, ...]:
    """Where a file pattern leads, if it leads out of its own directory."""
    if not isinstance(pattern, str) or not (pattern.startswith(("/", "~")) or ".." in pattern.split("/")):
        return ()
    literal: list[str] = []
    for part in pattern.split("/"):
        if any(c in part for c in "*?[{"):
            break
        literal.append(part)
    rest = pattern.split("/")[len(literal) :]
    up = [".."] * rest.count("..")
    return (_place("/".join([*literal, *up]) or "/", folder),)


def _on_shell(tool: str, args: Mapping[str, Any], where: _Around) -> Intent:
    from teamwright.host.shell.analysis import read_command  # noqa: PLC0415  # the parser costs 30 ms, once a command is run
    from teamwright.host.shell.cwd import ShellContext  # noqa: PLC0415

    command = args.get("command")
    if not isinstance(command, str):
        return Intent(None)
    desk = where.desk
    roots, later = tuple(map(str, desk.roots)), tool != BASH or bool(args.get(_BACKGROUND))
    around = ShellContext(str(desk.cwd), str(where.home), roots, desk.trusted, where.guarded, later)
    return Intent(read_command(command, tool, around), leaves=args.get(LEAVES) is True)


def _fetch(tool: str, url: Any) -> Fetches | None:
    """Judged by the host that it connects to. A bad address needs no judge: the tool reads it the same way and refuses
    it."""
    from teamwright.host.web.address import host_named  # noqa: PLC0415  # yarl is heavy

    host = host_named(url) if isinstance(url, str) else ""
    return Fetches(tool, host) if host else None
