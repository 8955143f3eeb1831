"""What a tool call is about to do, read from its name and arguments: facts for the judge, and the paths to open."""

import os.path
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.core.permissions.facts import Edits, Facts, Fetches, Place, Reads, Uses
from teamwright.core.permissions.rules import SHELL
from teamwright.core.ports import Desk
from teamwright.core.text import shown
from teamwright.host.files.paths import is_linked, resolve

_PATH_ARGUMENT = {
    "Read": "file_path",
    "Write": "file_path",
    "Edit": "file_path",
    "NotebookEdit": "notebook_path",
    "Glob": "path",
    "Grep": "path",
}
_LONG = 4_096
_DETAIL = {"Agent": "subagent_type", "Skill": "skill"}


class Intent(Struct, frozen=True):
    """`facts` is None where the arguments make no sense: the tool itself will say so. `paths` as in Allow."""

    facts: Facts | None
    paths: dict[str, str] = {}


def touches_disk(tool: str) -> bool:
    """Does it take the disk to learn what the call would do?"""
    return tool in _PATH_ARGUMENT or tool in SHELL


def is_long(tool: str, args: Mapping[str, Any]) -> bool:
    """A command that may take so long to read that others should not wait for it: long, or with wildcards."""
    command = args.get("command")
    return tool in SHELL and isinstance(command, str) and (len(command) > _LONG or "*" in command)


def read_intent(tool: str, args: Mapping[str, Any], desk: Desk, home: Path) -> Intent:
    """Raises ToolError for a path that cannot be one, or that cannot be judged as it is now."""
    try:
        return _read(tool, args, desk, home)
    except OSError as error:
        why = f"{shown(str(error.filename))}: " if error.filename else ""
        raise ToolError(
            f"{tool} was not run: what it would touch could not be looked at ({why}{error.strerror or error}). "
            "Something on the way may have just been replaced: try again, or use another path."
        ) from None


def _read(tool: str, args: Mapping[str, Any], desk: Desk, home: Path) -> Intent:
    if tool in _PATH_ARGUMENT:
        return _on_path(tool, args, desk)
    if tool in SHELL:
        return _on_shell(tool, args, desk, home)
    if tool == "WebFetch":
        return Intent(_fetch(args.get("url")))
    if tool == "ExitWorktree":
        removes = args.get("action") == "remove"
        return Intent(Uses(tool, "keep" if not removes else "discard" if args.get("discard_changes") else "remove"))
    if tool == "SendMessage":  # within a session it needs nobody's yes
        to = args.get("to")
        return Intent(Uses(tool, to if isinstance(to, str) and to.startswith("uds:") else ""))
    detail = args.get(_DETAIL.get(tool, ""), "")
    default = "general-purpose" if tool == "Agent" else ""
    return Intent(Uses(tool, detail if isinstance(detail, str) and detail else default))


def _on_path(tool: str, args: Mapping[str, Any], desk: Desk) -> Intent:
    searches = tool in ("Glob", "Grep")
    path = args.get(_PATH_ARGUMENT[tool])
    if path is None and searches:
        path = str(desk.cwd)
    if not isinstance(path, str):
        return Intent(None)
    place = _place(path, desk.cwd)
    if not searches:
        return Intent((Reads if tool == "Read" else Edits)(tool, (place,)), {path: place.path})
    places = (place, *_beyond(args.get("pattern"), Path(place.path))) if tool == "Glob" else (place,)
    return Intent(Reads(tool, places), {path: place.path})


def _place(path: str, cwd: Path) -> Place:
    real = resolve(path, cwd)
    given = os.path.normpath(cwd / os.path.expanduser(path))  # noqa: PTH111  # as `resolve` does
    return Place(given, str(real), linked=is_linked(str(real)))


def _beyond(pattern: Any, folder: Path) -> tuple[Place, ...]:
    """A file pattern can itself lead out of the directory that it is for."""
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


def _on_shell(tool: str, args: Mapping[str, Any], desk: Desk, home: Path) -> Intent:
    from teamwright.host.shell.analysis import read_command  # noqa: PLC0415  # the parser costs 30 ms, once a command is run
    from teamwright.host.shell.cwd import ShellContext  # noqa: PLC0415

    command = args.get("command")
    if not isinstance(command, str):
        return Intent(None)
    around = ShellContext(str(desk.cwd), str(home), tuple(map(str, desk.roots)), desk.trusted)
    return Intent(read_command(command, tool, around))


def _fetch(url: Any) -> Fetches | None:
    """By the host that would be connected to. What cannot be fetched needs no judge: the tool reads it as we do."""
    from teamwright.host.web.address import host_named  # noqa: PLC0415  # yarl is heavy

    host = host_named(url) if isinstance(url, str) else ""
    return Fetches("WebFetch", host) if host else None
