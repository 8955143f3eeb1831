"""Records which directories the person trusts, and which settings and programs an untrusted one would bring."""

import hashlib
import os
import time
from collections.abc import Collection, Generator, Iterable
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct

from teamwright.core.errors import SettingsError
from teamwright.core.text import few, shown
from teamwright.library.agents.places import HOMES, SKILL_HOMES
from teamwright.library.jsonfile import read_json

if TYPE_CHECKING:
    from teamwright.library.trust.snapshot import TrustChange

MOST_NAMES = 100
RECORDS = "trust.json"  # below our home
PLACES = (*SKILL_HOMES, ".mcp.json")  # a directory brings nothing outside these


class Part(Struct, frozen=True):
    """One kind of thing that a directory would set or start. `hidden` counts what could not be shown in full."""

    title: str
    lines: tuple[str, ...]
    hidden: int = 0


class TrustContents(Struct, frozen=True):
    """What a project directory contains besides text, by name."""

    project: Path
    settings: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()  # language servers
    parts: tuple[Part, ...] = ()  # everything line by line, for the question to the person
    changes: "tuple[TrustChange, ...]" = ()  # since the directory was trusted


def is_trusted(path: Path, *, state: Path, listed: Iterable[Path] = (), flag: bool = False) -> bool:
    """Is exactly this directory, by its real path, trusted? Trust in parents or children does not count.

    `listed` are the user's `trustedDirectories`; `flag` is `--trust`, for this run only.
    """
    return is_granted(path, listed=listed, flag=flag) or is_remembered(path, state=state)


def is_remembered(path: Path, *, state: Path) -> bool:
    """Has the person ever agreed to it?"""
    try:
        return os.path.realpath(path) in _records(state)
    except SettingsError:  # unreadable records mean no trust; `trust` reports what is wrong
        return False


def is_granted(path: Path, *, listed: Iterable[Path] = (), flag: bool = False) -> bool:
    """Is it trusted without a question, whatever it contains?

    A list entry means the directory at that path, not whatever a symlink there leads to by now.
    """
    real = os.path.realpath(path)
    return flag or any(_without_links(entry) == real for entry in listed)


def only_linked(path: Path, listed: Iterable[Path]) -> Path | None:
    """The list entry that would mean this directory if it contained no symlink."""
    real = os.path.realpath(path)
    return next((e for e in listed if os.path.realpath(e) == real and _without_links(e) != real), None)


def _without_links(path: Path) -> str:
    """The real path; empty if the path contains a symlink. Links in the root directory (`/tmp`) are the system's."""
    plain = os.path.abspath(path)  # noqa: PTH100  # without following anything
    first, _, rest = plain[1:].partition("/")
    top = os.path.realpath(f"/{first}")
    real = os.path.realpath(plain)
    return real if real == os.path.normpath(f"{top}/{rest}") else ""


def trust(path: Path, *, state: Path) -> None:
    """Records that the person trusts this directory. Its contents are recorded by `snapshot.agree`."""
    with _changing(state) as records:
        records["directories"].setdefault(os.path.realpath(path), {"at": _now()})
        records["declined"].pop(os.path.realpath(path), None)


def untrust(path: Path, *, state: Path) -> bool:
    """Forgets it; False if there was nothing to forget."""
    with _changing(state) as records:
        return records["directories"].pop(os.path.realpath(path), None) is not None


def decline(found: "TrustContents", *, state: Path) -> None:
    """Records that the person was asked and said no to the current contents."""
    with _changing(state) as records:
        records["declined"][os.path.realpath(found.project)] = {"at": _now(), "found": _digest(found)}


def is_declined(found: "TrustContents", *, state: Path) -> bool:
    """Was the person already asked about exactly this? New contents are asked about again."""
    try:
        said = _records(state, "declined").get(os.path.realpath(found.project))
    except SettingsError:
        return False
    return isinstance(said, dict) and cast("dict[str, Any]", said).get("found") == _digest(found)


def _digest(found: "TrustContents") -> str:
    return hashlib.sha256(msgspec.json.encode(msgspec.to_builtins(found, enc_hook=str))).hexdigest()[:32]


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _records(state: Path, name: str = "directories") -> dict[str, Any]:
    found = (read_json(state / RECORDS) or {}).get(name, {})
    if not isinstance(found, dict):
        raise SettingsError(f"{state / RECORDS}: `{name}` must be an object")
    return cast("dict[str, Any]", found)


@contextmanager
def _changing(state: Path) -> Generator[dict[str, dict[str, Any]]]:
    """The records for changing; written as a whole if they changed."""
    from teamwright.osfiles.json_store import alone_with, replace  # noqa: PLC0415

    file = state / RECORDS
    with alone_with(file, state):
        records = {name: _records(state, name) for name in ("directories", "declined")}
        before = {name: dict(found) for name, found in records.items()}
        yield records
        if records != before:
            replace(file, {"version": 1, **records})


def own_places(project: Path, *, user: Path, state: Path) -> tuple[str, ...]:
    """In the home directory: places that apply everywhere because they are the person's own. Folders end with a
    slash."""
    if os.path.realpath(project) != os.path.realpath(user):
        return ()
    homes = [
        home
        for home in SKILL_HOMES
        if home != ".teamwright" or os.path.realpath(user / home) == os.path.realpath(state)
    ]
    return tuple(f"{home}/{name}" for home in homes for name in ("settings.json", "agents/", "commands/", "skills/"))


def is_own(file: str, own: Iterable[str]) -> bool:
    return any(file.startswith(place) if place.endswith("/") else file == place for place in own)


def what_would_run(project: Path, own: Iterable[str] = ()) -> TrustContents:
    """Collects names only: lists directories and reads JSON, but opens no definition. `own` are the person's files."""
    theirs = frozenset(own)
    settings = tuple(
        f"{home}/{name}"
        for home in HOMES
        for name in ("settings.json", "settings.local.json")
        if os.path.lexists(project / home / name) and f"{home}/{name}" not in theirs
    )
    servers = [*_part(project / ".mcp.json", "mcpServers"), *(n for f in settings for n in _part(project / f, "mcp"))]
    return TrustContents(
        project=project,
        settings=settings,
        agents=_stems(project, "agents", theirs),
        skills=_skills(project, theirs),
        commands=_stems(project, "commands", theirs),
        hooks=tuple(dict.fromkeys(name for file in settings for name in _part(project / file, "hooks"))),
        servers=tuple(dict.fromkeys(servers)),
        languages=tuple(dict.fromkeys(name for file in settings for name in _part(project / file, "lsp"))),
    )


def _stems(project: Path, kind: str, own: Collection[str]) -> tuple[str, ...]:
    """Definitions by file name; folders of definitions by their own name."""
    files = [f for home in HOMES if f"{home}/{kind}/" not in own for f in _listing(project / home / kind)]
    names = ((f.stem if f.suffix == ".md" else f"{f.name}/") for f in files if f.suffix == ".md" or f.is_dir())
    return tuple(dict.fromkeys(names))


def _skills(project: Path, own: Collection[str]) -> tuple[str, ...]:
    folders = (f for home in SKILL_HOMES if f"{home}/skills/" not in own for f in _listing(project / home / "skills"))
    return tuple(dict.fromkeys(f.name for f in folders if os.path.lexists(f / "SKILL.md")))


def _listing(folder: Path) -> list[Path]:
    """The first entries of a folder. A repository may hold a million files there."""
    try:
        with os.scandir(folder) as entries:
            return sorted(folder / entry.name for entry, _ in zip(entries, range(MOST_NAMES), strict=False))
    except OSError:
        return []


def _part(path: Path, name: str) -> dict[str, Any]:
    try:
        found = (read_json(path, []) or {}).get(name)
    except SettingsError:
        return {}
    return dict(islice(cast("dict[str, Any]", found).items(), MOST_NAMES)) if isinstance(found, dict) else {}


def untrusted_line(found: TrustContents) -> str | None:
    """One line for a person: what was skipped, and how to trust the directory. None if nothing was."""
    if found.changes:
        return (
            f"{shown(str(found.project))} has changed since you trusted it ({_few(_files(found))}), so its settings, "
            "agents, skills, hooks and MCP servers were not loaded. Start `teamwright` there to look at the changes, "
            "or run `teamwright trust`; --trust loads them for one run."
        )
    kinds = (
        ("settings", found.settings),
        ("agents", found.agents),
        ("skills", found.skills),
        ("commands", found.commands),
        ("hooks", found.hooks),
        ("MCP servers", found.servers),
        ("language servers", found.languages),
    )
    parts = [f"{kind} ({_few(names)})" for kind, names in kinds if names]
    if not parts:
        return None
    return (
        f"{shown(str(found.project))} is not trusted, so these of its files were not loaded: {', '.join(parts)}. "
        "If you trust it, run `teamwright trust` there, or use --trust for one run."
    )


def _files(found: TrustContents) -> tuple[str, ...]:
    return tuple(change.file for change in found.changes)


def _few(names: tuple[str, ...]) -> str:
    return few([shown(name, 40) for name in names], 3)
