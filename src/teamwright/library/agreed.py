"""What a directory held when the person trusted it, and what of that is new or different now."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from teamwright.core.errors import SettingsError
from teamwright.library.agent_places import MOST_FILES, scan, way_down
from teamwright.library.definition_file import Place
from teamwright.library.jsonfile import MOST_JSON, read_plain

MOST_TEXT = 64_000  # characters of one file that are kept to compare with
_HOMES = (".claude", ".teamwright")
_SETTINGS = tuple(f"{home}/{name}" for home in _HOMES for name in ("settings.json", "settings.local.json"))
_PARTS = ("hooks", "mcp", "mcpServers", "env", "permissions")  # of a settings file: what runs, and what is not asked
_HIDDEN = ("env", "headers")  # their values may be keys


class Kept(Struct, frozen=True):
    """One file: `stamp` tells at a glance that nobody touched it, `digest` that it is the same."""

    stamp: tuple[int, ...]
    digest: str
    text: str


class Agreed(Struct, frozen=True):
    directory: str
    files: dict[str, Kept]


class Change(Struct, frozen=True):
    """A file that is new (`before` is None) or different from what was agreed to."""

    file: str
    before: str | None
    after: str


def look(project: Path, cwd: Path, known: Mapping[str, Kept] | None = None) -> dict[str, Kept]:
    """Every file that can start programs or decide what is asked, by its path below the project."""
    project = Path(os.path.realpath(project))
    found: dict[str, Kept] = {}
    for name in (*_SETTINGS, ".mcp.json"):
        _keep(found, project, str(project / name), known or {}, _settings_text)
    for path in _definitions(project, cwd):
        _keep(found, project, path, known or {}, _plain_text)
    return found


def changes(project: Path, cwd: Path, *, state: Path) -> tuple[Change, ...]:
    """Against the record; nothing where there is none."""
    agreed = _load(project, state)
    return () if agreed is None else _compare(agreed.files, look(project, cwd, agreed.files))


def compare(project: Path, now: Mapping[str, Kept], *, state: Path) -> tuple[Change, ...]:
    agreed = _load(project, state)
    return () if agreed is None else _compare(agreed.files, now)


def _compare(before: Mapping[str, Kept], now: Mapping[str, Kept]) -> tuple[Change, ...]:
    """What is gone runs nothing, and is no change."""
    return tuple(
        Change(file, before[file].text if file in before else None, kept.text)
        for file, kept in now.items()
        if file not in before or before[file].digest != kept.digest
    )


def agree(project: Path, files: Mapping[str, Kept], *, state: Path) -> None:
    """Remember what the person has seen; what was agreed to in other corners of the project stays so."""
    agreed = _load(project, state)
    whole = {**(agreed.files if agreed else {}), **files}
    path = _path(project, state)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}.new")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(Agreed(os.path.realpath(project), whole)))
        fresh.replace(path)
    except OSError as error:
        raise SettingsError(f"{path}: trust cannot be recorded: {error.strerror or error}") from None


def is_recorded(project: Path, *, state: Path) -> bool:
    return _path(project, state).exists()


def agree_to_own(project: Path, path: Path, before: tuple[Change, ...], *, state: Path) -> None:
    """We wrote this file ourselves, as the person asked: no news, unless it had other changes already."""
    if not path.is_relative_to(project) or _load(project, state) is None:
        return
    name = str(path.relative_to(project))
    if any(change.file == name for change in before):
        return
    now = look(project, project)
    if name in now:
        agree(project, {name: now[name]}, state=state)


def _path(project: Path, state: Path) -> Path:
    name = hashlib.sha256(os.fsencode(os.path.realpath(project))).hexdigest()[:32]
    return state / "trust" / f"{name}.json"


def _load(project: Path, state: Path) -> Agreed | None:
    """A record that cannot be read counts as an empty one: then everything is asked about again."""
    path = _path(project, state)
    try:
        data = read_plain(path, 64_000_000)
        return None if data is None else msgspec.json.decode(data, type=Agreed)
    except (SettingsError, msgspec.DecodeError, UnicodeDecodeError):
        return Agreed(str(project), {})


def _definitions(project: Path, cwd: Path) -> Iterator[str]:
    for folder in way_down(cwd, project):
        for home in _HOMES:
            for kind in ("agents", "commands"):
                yield from (path for path, _ in scan(Place("project", folder / home / kind))[0])
            yield from _skills(f"{folder}/{home}/skills")


def _skills(folder: str) -> list[str]:
    """Whether they are there is seen when they are looked at."""
    try:
        return [f"{folder}/{name}/SKILL.md" for name in sorted(os.listdir(folder))[:MOST_FILES]]  # noqa: PTH208
    except OSError:
        return []


def _keep(found: dict[str, Kept], project: Path, path: str, known: Mapping[str, Kept], read: Any) -> None:
    name = path.removeprefix(f"{project}/")
    try:
        seen = os.stat(path)  # noqa: PTH116  # in a hot path, as text
    except OSError:
        return
    stamp = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
    if name in known and known[name].stamp == stamp:
        found[name] = known[name]
        return
    try:
        data = read_plain(path, MOST_JSON) or b""
    except SettingsError:  # nobody can load it either
        return
    text, whole = read(data)
    if whole:
        found[name] = Kept(stamp, hashlib.sha256(whole).hexdigest(), text[:MOST_TEXT])


def _plain_text(data: bytes) -> tuple[str, bytes]:
    return data.decode(errors="replace"), data


def _settings_text(data: bytes) -> tuple[str, bytes]:
    """The parts that matter, in one order: another theme, or other spaces, are no change."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "(it cannot be read)", data
    if not isinstance(found, dict):
        return "", b""
    whole = cast("dict[str, Any]", found)
    parts = {name: whole[name] for name in _PARTS if whole.get(name)}
    if not parts:
        return "", b""
    shown = msgspec.json.format(msgspec.json.encode(_without_values(parts), order="sorted"), indent=2)
    return shown.decode() + "\n", msgspec.json.encode(parts, order="sorted")


def _without_values(value: Any, name: str = "") -> Any:
    """Values that may be keys become marks: the same mark as long as the value is the same."""
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        if name in _HIDDEN:
            return {key: f"(hidden, {hashlib.sha256(str(one).encode()).hexdigest()[:8]})" for key, one in pairs}
        return {key: _without_values(one, key) for key, one in pairs}
    if isinstance(value, list):
        return [_without_values(one) for one in cast("list[Any]", value)]
    return value
