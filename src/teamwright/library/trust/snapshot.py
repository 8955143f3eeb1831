"""Snapshot of a directory when the person trusted it, and what is new or different since."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from teamwright.core.errors import SettingsError
from teamwright.library.agents.definition_file import DefinitionFolder
from teamwright.library.agents.places import HOMES, MOST_FILES, SKILL_HOMES, scan, way_down
from teamwright.library.jsonfile import MOST_JSON
from teamwright.library.trust.decision import is_own
from teamwright.osfiles.private import make_dirs, replace_file
from teamwright.osfiles.reading import read_plain

MOST_TEXT = 64_000  # characters kept per file for comparison
SETTINGS = tuple(f"{home}/{name}" for home in HOMES for name in ("settings.json", "settings.local.json"))
GIT = ".git/config"
MOST_SCRIPT = 64 << 20  # bytes that are hashed; for larger files only size and times are recorded
_TOO_MANY = "(files that its commands name)"

Read = Callable[[bytes], tuple[str, bytes, tuple[str, ...]]]  # -> (text to show, bytes to hash, what it starts)
Git = Callable[[Path], tuple[str, ...]]  # what the repository's own configuration would run


class TrustedFile(Struct, frozen=True):
    """One file: `stamp` shows quickly that nobody touched it, `digest` that its content is the same.

    `commands` are what it starts; None in old records that did not include them.
    """

    stamp: tuple[int, ...]
    digest: str
    text: str
    commands: tuple[str, ...] | None = None


class Agreed(Struct, frozen=True):
    directory: str
    files: dict[str, TrustedFile]


class TrustChange(Struct, frozen=True):
    """A file that is new (`before` is None) or differs from what was agreed to."""

    file: str
    before: str | None
    after: str


def look(
    project: Path,
    cwd: Path,
    known: Mapping[str, TrustedFile] | None = None,
    git: Git | None = None,
    own: Sequence[str] = (),
) -> dict[str, TrustedFile]:
    """Every file, except `own` ones, that can start programs or change what needs approval, by path below the project.

    Besides settings and definitions these are the files named by their hooks and servers, and what `git` reports.
    """
    project, known = Path(os.path.realpath(project)), known or {}
    found: dict[str, TrustedFile] = {}
    for name in (*SETTINGS, ".mcp.json"):
        if name not in own:
            _keep(found, project, str(project / name), known, _settings_text)
    for path in _definitions(project, cwd):
        if not own or not is_own(path.removeprefix(f"{project}/"), own):
            _keep(found, project, path, known, _definition_text)
    lines = git(project) if git is not None else ()
    if lines:
        text = "\n".join(lines)
        found[GIT] = TrustedFile((), _hash(text.encode(errors="surrogateescape")), _bounded(text + "\n"), lines)
    commands = [command for kept in found.values() for command in kept.commands or ()]
    _keep_scripts(found, project, cwd, commands, known)
    return found


def _keep_scripts(
    found: dict[str, TrustedFile], project: Path, cwd: Path, commands: Sequence[str], known: Mapping[str, TrustedFile]
) -> None:
    if not commands:
        return
    from teamwright.library.trust.scripts import named_files  # noqa: PLC0415  # only where something is started

    named = named_files(commands, project, [*way_down(cwd, project), project / ".git"])
    for name in named.files:
        if name not in found:
            _keep_script(found, project, name, known)
    if not named.whole:  # impossible to tell whether they are the same next time
        found[_TOO_MANY] = TrustedFile((), os.urandom(16).hex(), "(more than can be looked at)\n")


def changes(
    project: Path, cwd: Path, *, state: Path, git: Git | None = None, own: Sequence[str] = ()
) -> tuple[TrustChange, ...]:
    """Changes since the record; none if there is no record."""
    agreed = _load(project, state)
    if agreed is None:
        return ()
    now = look(project, cwd, agreed.files, git, own)
    changed = _compare(agreed.files, now)
    if not changed and any(agreed.files[name].stamp != kept.stamp for name, kept in now.items()):
        with suppress(SettingsError):  # touched but unchanged: saves reading it again at the next start
            agree(project, now, state=state)
    return changed


def compare(project: Path, now: Mapping[str, TrustedFile], *, state: Path) -> tuple[TrustChange, ...]:
    agreed = _load(project, state)
    return () if agreed is None else _compare(agreed.files, now)


def _compare(before: Mapping[str, TrustedFile], now: Mapping[str, TrustedFile]) -> tuple[TrustChange, ...]:
    """A file that is gone runs nothing, so it is no change."""
    return tuple(
        TrustChange(file, before[file].text if file in before else None, kept.text)
        for file, kept in now.items()
        if file not in before or before[file].digest != kept.digest
    )


def agree(project: Path, files: Mapping[str, TrustedFile], *, state: Path) -> None:
    """Records what the person has seen; agreement to other parts of the project remains."""
    agreed = _load(project, state)
    _save(project, {**(agreed.files if agreed else {}), **files}, state)


def _save(project: Path, files: dict[str, TrustedFile], state: Path) -> None:
    path = _path(project, state)
    try:
        make_dirs(path.parent)
        replace_file(path, msgspec.json.encode(Agreed(os.path.realpath(project), files)), synced=False)
    except OSError as error:
        raise SettingsError(f"{path}: trust cannot be recorded: {error.strerror or error}") from None


def is_recorded(project: Path, *, state: Path) -> bool:
    return _path(project, state).exists()


def agree_to_own(project: Path, path: Path, before: tuple[TrustChange, ...], *, state: Path) -> None:
    """Records a file that we wrote at the person's request, so that it does not count as changed, unless it had other
    changes before."""
    if not path.is_relative_to(project) or _load(project, state) is None:
        return
    name = str(path.relative_to(project))
    if any(change.file == name for change in before):
        return
    now = look(project, project)
    if name in now:
        agree(project, {name: now[name]}, state=state)


def is_agreed(project: Path, name: str, *, state: Path) -> bool:
    """Does this settings file exist exactly as the person agreed to it?"""
    agreed = _load(project, state)
    if agreed is None or name not in agreed.files:
        return False
    real, found = Path(os.path.realpath(project)), dict[str, TrustedFile]()
    _keep(found, real, str(real / name), agreed.files, _settings_text)
    return name in found and found[name].digest == agreed.files[name].digest


def agree_to_saved(project: Path, name: str, *, state: Path) -> None:
    """Records a file that was written at the person's request and is entirely theirs: its current content counts as
    agreed to, even if the rest of the directory is not trusted."""
    agreed = _load(project, state)
    real, found = Path(os.path.realpath(project)), dict[str, TrustedFile]()
    _keep(found, real, str(real / name), {}, _settings_text)
    others = {file: kept for file, kept in (agreed.files if agreed else {}).items() if file != name}
    _save(project, others | found, state)


def forget(project: Path, *, state: Path) -> None:
    """Forgets all agreement for this directory."""
    try:
        _path(project, state).unlink(missing_ok=True)
    except OSError as error:
        raise SettingsError(f"{_path(project, state)} cannot be removed: {error.strerror or error}") from None


def _path(project: Path, state: Path) -> Path:
    name = hashlib.sha256(os.fsencode(os.path.realpath(project))).hexdigest()[:32]
    return state / "trust" / f"{name}.json"


def _load(project: Path, state: Path) -> Agreed | None:
    """An unreadable record counts as empty, so that the person is asked about everything again."""
    path = _path(project, state)
    try:
        data = read_plain(path, 64_000_000)
        return None if data is None else msgspec.json.decode(data, type=Agreed)
    except (SettingsError, msgspec.DecodeError, UnicodeDecodeError):
        return Agreed(str(project), {})


def _definitions(project: Path, cwd: Path) -> Iterator[str]:
    for folder in way_down(cwd, project):
        for home in SKILL_HOMES:
            for kind in ("agents", "commands") if home in HOMES else ():
                yield from (path for path, _ in scan(DefinitionFolder("project", folder / home / kind))[0])
            yield from _skills(f"{folder}/{home}/skills")


def _skills(folder: str) -> list[str]:
    """Candidate paths; the caller checks whether they exist."""
    try:
        return [f"{folder}/{name}/SKILL.md" for name in sorted(os.listdir(folder))[:MOST_FILES]]  # noqa: PTH208
    except OSError:
        return []


def _keep(
    found: dict[str, TrustedFile], project: Path, path: str, known: Mapping[str, TrustedFile], read: Read
) -> None:
    name = path.removeprefix(f"{project}/")
    try:
        seen = os.stat(path)  # noqa: PTH116  # in a hot path, as text
    except OSError:
        return
    stamp = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
    if name in known and known[name].stamp == stamp and known[name].commands is not None:
        found[name] = known[name]
        return
    try:
        data = read_plain(path, MOST_JSON) or b""
    except SettingsError:  # nobody can load it either
        return
    text, whole, commands = read(data)
    if whole:
        found[name] = TrustedFile(stamp, _hash(whole), _bounded(text), commands)


def _keep_script(found: dict[str, TrustedFile], project: Path, name: str, known: Mapping[str, TrustedFile]) -> None:
    """Follows a link within the project; for one that leads out it records the target."""
    path = f"{project}/{name}"
    real = os.path.realpath(path)
    inside = Path(real).is_relative_to(project)
    try:
        seen = os.stat(path, follow_symlinks=inside)  # noqa: PTH116
    except OSError:
        return
    stamp = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
    if name in known and known[name].stamp == stamp and inside:
        found[name] = known[name]
    elif not inside:
        words = f"(a link to {real}, outside of the project)\n"
        found[name] = TrustedFile(stamp, _hash(words.encode(errors="surrogateescape")), words)
    elif stat.S_ISREG(seen.st_mode):
        digest, text = _script_text(real, stamp)
        found[name] = TrustedFile(stamp, digest, text)


def _script_text(path: str, stamp: tuple[int, ...]) -> tuple[str, str]:
    if stamp[2] > MOST_SCRIPT:
        return _hash(repr(stamp).encode()), f"({stamp[2]:,} bytes: too large to be compared, known by its times)\n"
    try:
        data = read_plain(path, MOST_SCRIPT, follow=False) or b""
    except SettingsError:
        return _hash(repr(stamp).encode()), "(it cannot be read)\n"
    if b"\0" in data[:8_000]:
        return _hash(data), f"({len(data):,} bytes that are not text: {_hash(data)[:16]})\n"
    return _hash(data), _bounded(data.decode(errors="replace"))


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _bounded(text: str) -> str:
    """The text kept for comparison; says so if it was cut."""
    more = len(text) - MOST_TEXT
    return text if more <= 0 else f"{text[:MOST_TEXT]}\n[… {more:,} characters more, which are not shown …]\n"


def _settings_text(data: bytes) -> tuple[str, bytes, tuple[str, ...]]:
    from teamwright.library.trust.settings_text import settings_text  # noqa: PLC0415  # only for what is new or different

    return settings_text(data)


def _definition_text(data: bytes) -> tuple[str, bytes, tuple[str, ...]]:
    from teamwright.library.trust.contents import commands_of_definition  # noqa: PLC0415  # only for what is new or different

    text = data.decode(errors="replace")
    return text, data, commands_of_definition(text)
