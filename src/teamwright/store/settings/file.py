"""Reads one settings file, reporting and dropping the parts that do not fit."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct, UnsetType

from teamwright.core.data.extensions.unread import Unread
from teamwright.core.errors import SettingsError
from teamwright.core.jsontext import decode_object
from teamwright.core.text import shown
from teamwright.osfiles.reading import read_whole
from teamwright.store.settings.sandbox import narrow
from teamwright.store.settings.schema import (
    OURS,
    PARTS,
    Layer,
    PermissionsPart,
    SettingsFile,
    Source,
    WorktreePart,
)

MOST_BYTES = 1_000_000
Say = Callable[[str, str], None]  # key, what is wrong with it

_ALIASES = {"effortLevel": "effort"}
_MARKETPLACES = "extraKnownMarketplaces"
_INSTALL = "a project cannot add one; `teamwright plugins install DIR` shows what a marketplace on this disk has"
_SILENT = frozenset({"$schema", "theme"})  # for editors, and for another program's screen
_INSTEAD = {
    "cleanupPeriodDays": "`teamwright sessions delete --older-than DAYS` removes old sessions",
    "agent": "start with `--agent NAME`",
    "teammateMode": "write `teamwright.teammateMode`",
    "mcpServers": "servers are read from `.mcp.json`, `~/.claude.json` and `mcp` in settings",
    "forceLoginMethod": "keys come from variables or `apiKeyHelper`",
    "plansDirectory": "a plan is shown and kept in the conversation",
}
# A project may be trusted to run its tools, and still must not see the person's keys or traffic.
_PRIVATE_ENV = ("_BASE_URL", "_KEY", "_TOKEN", "_PROXY")
_PRIVATE_ENV_NAMES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "TEAMWRIGHT_HOME"),
    *("TEAMWRIGHT_ENGINE", "TEAMWRIGHT_ENGINE_CREDS", "TEAMWRIGHT_ENGINE_CA"),
)


def read_layer(path: Path, source: Source, problems: list[str]) -> Layer | None:
    """The file as a layer; None if there is none. Faults go into `problems`."""
    try:
        data = read_whole(path, MOST_BYTES)
        twice = None if source == "managed" else problems
        found = decode_object(data, str(path), twice) if data is not None else None
    except SettingsError as error:
        if source == "managed":  # a policy that cannot be read must not lapse silently
            raise SettingsError(f"{error}. The managed policy must be readable; nothing was started.") from None
        problems.append(shown(f"{error}; the file is ignored", most=1000))
        return None
    return None if found is None else layer_of(found, source, str(path), problems)


def layer_of(found: dict[str, Any], source: Source, file: str, problems: list[str]) -> Layer:
    def say(key: str, wrong: str) -> None:
        problems.append(shown(f"{file}: {key}: {wrong}", most=1000))

    named = {_ALIASES[key]: value for key, value in found.items() if key in _ALIASES}
    values = cast("dict[str, Any]", fit(named | found, SettingsFile, "", say))
    unread = list(unread_names(found, file))
    if source in ("project", "local"):
        _forbid(values, say)
        if values.pop(_MARKETPLACES, None):  # nothing would show what such a plugin starts
            unread.append(Unread("setting", _MARKETPLACES, file, why=_INSTALL))
    narrow(values, source, say)
    return Layer(source, file, values, tuple(unread))


def unread_names(found: dict[str, Any], file: str) -> Iterator[Unread]:
    """Settings that belong to other programs."""
    for kind, key in ((SettingsFile, ""), (PermissionsPart, "permissions"), (WorktreePart, "worktree")):
        part = found.get(key, {}) if key else found
        for name in cast("dict[str, Any]", part) if isinstance(part, dict) else ():
            full = f"{key}.{name}" if key else name
            if name not in fields_of(kind) and name not in _ALIASES and name not in _SILENT:
                yield Unread("setting", shown(full, 80), file, why=_INSTEAD.get(full, ""))


def fit(value: Any, kind: Any, key: str, say: Say) -> Any | UnsetType:
    """`value` without the parts that do not fit `kind`; UNSET if nothing fits."""
    if kind in PARTS:
        return _fit_struct(value, kind, key, say)
    if get_origin(kind) is tuple:
        return _fit_list(value, get_args(kind)[0], key, say)
    if get_origin(kind) is dict:
        return _fit_dict(value, get_args(kind)[1], key, say)
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        say(key, f"{str(error)[:1].lower()}{str(error)[1:]}; ignored")
        return UNSET
    return value


def _fit_list(value: Any, kind: Any, key: str, say: Say) -> list[Any] | UnsetType:
    if not isinstance(value, list):
        say(key, "must be a list; ignored")
        return UNSET
    items = (fit(item, kind, f"{key}[{n}]", say) for n, item in enumerate(cast("list[Any]", value)))
    return [item for item in items if item is not UNSET]


def _fit_dict(value: Any, kind: Any, key: str, say: Say) -> dict[str, Any] | UnsetType:
    if not isinstance(value, dict):
        say(key, "must be an object; ignored")
        return UNSET
    fitted = {name: fit(part, kind, f"{key}.{name}", say) for name, part in cast("dict[str, Any]", value).items()}
    return {name: part for name, part in fitted.items() if part is not UNSET}


def _fit_struct(value: Any, kind: type[Struct], key: str, say: Say) -> Any | UnsetType:
    if not isinstance(value, dict):
        say(key, "must be an object; ignored")
        return UNSET
    fields = fields_of(kind)
    kept: dict[str, Any] = {}
    for name, part in cast("dict[str, Any]", value).items():
        where = f"{key}.{name}" if key else name
        if name in fields:
            fitted = fit(part, fields[name], where, say)
            if fitted is not UNSET:
                kept[name] = fitted
        elif kind in OURS:
            say(where, "unknown setting; ignored")
    return kept


@cache
def fields_of(kind: type[Struct]) -> dict[str, Any]:
    """Names in the file, with their types."""
    return {f.encode_name: f.type for f in msgspec.structs.fields(kind)}


def _forbid(values: dict[str, Any], say: Say) -> None:
    """Remove what a project, trusted or not, may not decide for the person."""
    env = cast("dict[str, str]", values.get("env", {}))
    for name in [n for n in env if n.upper().endswith(_PRIVATE_ENV) or n.upper() in _PRIVATE_ENV_NAMES]:
        say(f"env.{name}", "a project cannot set this; put it in your own settings")
        del env[name]
    permissions = values.get("permissions", {})
    if permissions.get("defaultMode") == "bypassPermissions":
        say("permissions.defaultMode", "a project cannot choose bypassPermissions; ignored")
        del permissions["defaultMode"]
    own = values.get("teamwright", {})
    for name in ("providers", "trustedDirectories", "webSearch", "engine"):
        if name in own:
            say(f"teamwright.{name}", "a project cannot set this; put it in your own settings")
            del own[name]
    if "enableAllProjectMcpServers" in values:
        say("enableAllProjectMcpServers", "a project cannot set this; put it in your own settings")
        del values["enableAllProjectMcpServers"]
