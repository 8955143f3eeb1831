"""Loads settings from every source, lowest first: user, project, local, command line, managed policy.

Lists are joined (a deny anywhere counts), objects are merged by key, and single values come from the highest source.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, cast, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.errors import SettingsError, UsageError
from teamwright.core.jsontext import decode_object
from teamwright.core.permissions.rules import BASH
from teamwright.core.text import shown
from teamwright.store.settings.file import fields_of, layer_of, read_layer
from teamwright.store.settings.sandbox import combine
from teamwright.store.settings.schema import (
    LOCAL,
    PARTS,
    HookSettings,
    Layer,
    Own,
    Permissions,
    Settings,
    SettingsFile,
    SettingsRule,
    Source,
)

MANAGED = Path("/etc/teamwright/managed-settings.json")
SOURCES = ("user", "project", "local")
MARKS = (".git", ".claude", ".teamwright")
_BELOW: Mapping[str, tuple[Source, ...]] = {
    "project": ("project", "local"),
    "local": ("project", "local"),
    "user": ("user", "project", "local"),
    "flag": ("user", "project", "local", "flag"),
    "managed": ("user", "project", "local", "flag", "managed"),
}
ReadFiles = dict[Path, tuple[Layer | None, list[str]]]  # each file's layer, and its faults


def project_root(cwd: Path, home: Path) -> Path:
    """The nearest directory from `cwd` up that is marked as a project; else `cwd`.

    The search ends at the home directory, which itself counts only as a git repository: everybody has a `~/.claude`.
    Above `cwd`, a mark that belongs to somebody else (in a shared `/tmp`) does not count.
    """
    cwd = cwd.resolve()
    if _marked(cwd / ".git", None):
        return cwd
    home = home.resolve()
    owners = {os.geteuid(), cwd.stat().st_uid}
    for place in (cwd, *cwd.parents):
        marks = (".git",) if place == home else MARKS
        if any(_marked(place / mark, None if place == cwd else owners) for mark in marks):
            return place
        if place == home:
            break
    return cwd


def _marked(mark: Path, owners: Collection[int] | None) -> bool:
    try:
        owner = mark.stat().st_uid
    except OSError:
        return False
    return owners is None or owner in owners


def load(
    project: Path,
    *,
    home: Path,
    state: Path,
    trusted: bool,
    flag: str | None = None,
    cwd: Path | None = None,
    sources: Collection[str] = SOURCES,
    managed: Path = MANAGED,
    read: ReadFiles | None = None,
    own_rules: bool = False,
) -> Settings:
    """Read and merge all sources. `state` is TEAMWRIGHT_HOME; `flag` is `--settings FILE_OR_JSON`, relative to `cwd`.

    Project and local files are opened only if the directory is `trusted`. Faults go into `problems`; only a `flag` or a
    managed policy that cannot be read at all raises. `read` caches files between calls. `own_rules`: the local file
    holds what the person said to keep, so its rules count even in an untrusted directory.
    """
    problems: list[str] = []
    layers: list[Layer] = []
    files = {} if read is None else read
    seen: set[str] = set()  # in the home directory, the project's file and the user's are the same
    for source, path in _files(project, home, state, sources, trusted=trusted):
        real = os.path.realpath(path)
        if real not in seen and (layer := _read(path, source, problems, files)):
            layers.append(layer)
        seen.add(real)
    if flag is not None:
        layers.append(_flag_layer(flag, _absolute(flag, cwd or project, home), problems))
    if _is_there(managed) and (layer := _read(managed, "managed", problems, files)):
        layers.append(layer)
    if own_rules and "local" in sources and (own := _own_rules(project, problems, files)):
        layers.append(own)
    return _merge(layers, project, home, problems)


def _own_rules(project: Path, problems: list[str], files: ReadFiles) -> Layer | None:
    layer = _read(project / LOCAL, "local", problems, files)
    said = cast("dict[str, Any]", {} if layer is None else layer.values.get("permissions", {}))
    rules = {kind: said[kind] for kind in ("allow", "ask", "deny") if kind in said}
    fence = cast("dict[str, Any]", {} if layer is None else layer.values.get("sandbox", {}))
    outside = {name: fence[name] for name in ("excludedCommands",) if name in fence}
    kept = {name: block for name, block in (("permissions", rules), ("sandbox", outside)) if block}
    return replace(layer, values=kept) if layer is not None and kept else None


def _read(path: Path, source: Source, problems: list[str], files: ReadFiles) -> Layer | None:
    if path not in files:
        faults: list[str] = []
        files[path] = read_layer(path, source, faults), faults
    layer, faults = files[path]
    problems.extend(faults)
    return layer


def _files(
    project: Path, home: Path, state: Path, sources: Collection[str], *, trusted: bool
) -> list[tuple[Source, Path]]:
    """The files that exist."""
    own, local = "settings.json", "settings.local.json"
    theirs = (project / ".claude", project / ".teamwright") if trusted else ()
    places: list[tuple[Source, Path]] = [("user", home / ".claude" / own), ("user", state / own)]
    places.extend(("project", folder / own) for folder in theirs)
    places.extend(("local", folder / local) for folder in theirs)
    return [(source, path) for source, path in places if source in sources and _is_there(path)]


def _is_there(path: Path) -> bool:
    """True also if it cannot be looked at: reading it then says why."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _flag_layer(flag: str, path: Path, problems: list[str]) -> Layer:
    """Settings typed for this run must be readable as a whole: rules that silently do not hold are worse."""
    faults: list[str] = []
    try:
        if flag.lstrip().startswith(("{", "[")):
            found = decode_object(flag.encode(errors="replace"), "--settings")
            layer = layer_of(found, "flag", "--settings", faults)
        else:
            layer = read_layer(path, "flag", faults)
    except SettingsError as error:
        raise UsageError(str(error)) from None
    if layer is None:
        why = faults[0].removesuffix("; the file is ignored") if faults else f"there is no file {path}"
        raise UsageError(f"--settings: {why}")
    for fault in faults:
        key, _, wrong = fault.removeprefix(f"{layer.file}: ").partition(": ")
        if key.startswith(("permissions", "sandbox")) and wrong.endswith("; ignored") and "unknown" not in wrong:
            raise UsageError(fault.removesuffix("; ignored"))
    problems.extend(faults)
    return layer


def _merge(layers: list[Layer], project: Path, home: Path, problems: list[str]) -> Settings:
    if not layers:
        return Settings(problems=tuple(problems))
    values: dict[str, Any] = {}
    for layer in layers:
        values = merged(values, layer.values, SettingsFile)
    file = msgspec.convert(values, SettingsFile)
    return Settings(
        permissions=_permissions(file, layers, project, home, problems),
        env=file.env,
        model=file.model,
        effort=file.effort,
        editor_mode=file.editor_mode,
        hooks=_hooks(layers),
        mcp=file.mcp,
        lsp=file.lsp,
        enable_all_project_mcp_servers=file.enable_all_project_mcp_servers,
        disabled_servers=file.disabled_mcpjson_servers,
        symlink_directories=file.worktree.symlink_directories,
        sandbox=combine(file.sandbox, [(x.source, x.values) for x in layers], project, home),
        output_style=file.output_style,
        language=file.language,
        attribution=file.attribution,
        always_thinking=file.always_thinking_enabled,
        api_key_helper=file.api_key_helper,
        status_line=file.status_line,
        own=file.teamwright,
        trusted_directories=_trusted(file.teamwright, home, problems),
        problems=tuple(problems),
        layers=tuple(layers),
    )


def _permissions(
    file: SettingsFile, layers: list[Layer], project: Path, home: Path, problems: list[str]
) -> Permissions:
    mode_from: list[Source] = [x.source for x in layers if "defaultMode" in x.values.get("permissions", {})]
    permissions = Permissions(
        allow=_rules(layers, "allow", project),
        ask=_rules(layers, "ask", project),
        deny=_rules(layers, "deny", project),
        outside=_outside(layers, project),
        default_mode=file.permissions.default_mode,
        default_mode_source=mode_from[-1] if mode_from else None,
        additional_directories=tuple(_absolute(d, project, home) for d in file.permissions.additional_directories),
        bypass_off=_bypass_off(layers),
    )
    if permissions.bypass_off and permissions.default_mode == "bypassPermissions":
        problems.append(f"permissions.defaultMode: {permissions.bypass_off} turns bypassPermissions off; ignored")
        permissions = replace(permissions, default_mode=None, default_mode_source=None)
    return permissions


def _bypass_off(layers: list[Layer]) -> str:
    """The first file that turns bypassPermissions off: nothing can turn it on again."""
    key = "disableBypassPermissionsMode"
    return next((layer.file for layer in layers if layer.values.get("permissions", {}).get(key)), "")


def _hooks(layers: list[Layer]) -> tuple[HookSettings, ...]:
    """A source that turns hooks off silences its own and those below: a project cannot silence the person's guards."""
    silent = {source for layer in layers if layer.values.get("disableAllHooks") for source in _BELOW[layer.source]}
    loud = (layer for layer in layers if layer.values.get("hooks") and layer.source not in silent)
    return tuple(HookSettings(layer.source, layer.file, layer.values["hooks"]) for layer in loud)


def merged(low: Mapping[str, Any], high: Mapping[str, Any], kind: type[Struct]) -> dict[str, Any]:
    """`high` merged over `low`, field by field as `kind` says."""
    fields = fields_of(kind)
    out = dict(low)
    for name, value in high.items():
        part = fields[name]
        if name not in low:
            out[name] = value
        elif part in PARTS:
            out[name] = merged(low[name], value, part)
        elif get_origin(part) is dict:
            out[name] = low[name] | value
        elif get_origin(part) is tuple:
            out[name] = list(dict.fromkeys([*low[name], *value]))
        else:
            out[name] = value
    return out


def _rules(layers: list[Layer], kind: str, base: Path) -> tuple[SettingsRule, ...]:
    """The rules of all sources, lowest first. Relative patterns start at the project, whatever their source."""
    found = (
        SettingsRule(text, layer.source, base)
        for layer in layers
        for text in layer.values.get("permissions", {}).get(kind, ())
    )
    return tuple(dict.fromkeys(found))


def _outside(layers: list[Layer], base: Path) -> tuple[SettingsRule, ...]:
    found = (
        SettingsRule(f"{BASH}({pattern})", layer.source, base)
        for layer in layers
        for pattern in layer.values.get("sandbox", {}).get("excludedCommands", ())
    )
    return tuple(dict.fromkeys(found))


def _absolute(text: str, base: Path, home: Path) -> Path:
    if text == "~" or text.startswith("~/"):
        return home / text[2:]
    return base / text


def _trusted(own: Own, home: Path, problems: list[str]) -> tuple[Path, ...]:
    kept: list[Path] = []
    for text in own.trusted_directories:
        if text.startswith(("/", "~/")) or text == "~":
            kept.append(_absolute(text, home, home))
        else:
            problems.append(f"teamwright.trustedDirectories: `{shown(text)}` must begin with / or ~/; ignored")
    return tuple(kept)


def describe(settings: Settings, secrets: Sequence[str] = ()) -> list[tuple[str, Any, Source, str]]:
    """(key, value, source, file) of every setting in effect, including our defaults; for `teamwright config`.

    Passwords, headers, tokens and `secrets` are concealed.
    """
    from teamwright.core.policies.redaction import concealed, withheld  # noqa: PLC0415  # its patterns take a while

    secrets = (*secrets, *(text for layer in settings.layers for text in withheld(layer.values)))
    told: list[tuple[str, Any, Source, str]] = []
    winners: dict[str, tuple[str, Any, Source, str]] = {
        f"teamwright.{f.encode_name}": (f"teamwright.{f.encode_name}", msgspec.to_builtins(f.default), "default", "")
        for f in msgspec.structs.fields(Own)
        if isinstance(f.default, bool | int | float | str)
    }
    for layer in settings.layers:
        for key, value in _leaves(layer.values, ""):
            value = concealed(value, key, secrets)  # noqa: PLW2901
            if isinstance(value, list):
                told.extend((key, item, layer.source, layer.file) for item in cast("list[Any]", value))
            elif key.startswith("hooks."):
                told.append((key, value, layer.source, layer.file))
            else:
                winners[key] = (key, value, layer.source, layer.file)
    return sorted([*told, *winners.values()], key=itemgetter(0))


def _leaves(values: Mapping[str, Any], key: str) -> Iterable[tuple[str, Any]]:
    for name, value in values.items():
        where = f"{key}.{name}" if key else name
        if isinstance(value, dict):
            yield from _leaves(cast("dict[str, Any]", value), where)
        else:
            yield where, value
