"""MCP servers as people configure them: `.mcp.json`, settings, `--mcp-config` and agent definitions."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from teamwright.core.data.extensions.server import Http, Reach, Sdk, ServerConfig, Sse, Stdio
from teamwright.core.errors import SettingsError, UsageError
from teamwright.core.jsontext import decode_object
from teamwright.core.text import shown, whole_number
from teamwright.library.jsonfile import read_json

SHARED = ".mcp.json"
CONNECT_SECONDS = 30.0
CALL_SECONDS = 600.0
MOST_SERVERS = 200
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_HTTP_TYPES = {"http": Http, "streamable-http": Http, "streamableHttp": Http, "sse": Sse}


class Written(Struct, frozen=True):
    """The servers configured in one place, not parsed yet: name -> value."""

    source: str
    file: str
    servers: Mapping[str, Any]


class Servers(Struct, frozen=True):
    """The servers in effect, those turned off, and problems."""

    configs: dict[str, ServerConfig] = {}
    problems: tuple[str, ...] = ()
    off: tuple[ServerConfig, ...] = ()


class SwitchedOff(Struct, frozen=True):
    """Names of unwanted servers: from any source, and from `.mcp.json` alone."""

    anywhere: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()

    def hides(self, config: ServerConfig) -> bool:
        shared = config.source == "project" and Path(config.file).name == SHARED
        return config.name in self.anywhere or (shared and config.name in self.shared)


class _Wrong(Exception):
    """What is wrong with one server; never leaves this file."""


class _Missing(_Wrong):
    """A required variable is missing."""


def find_servers(
    project: Path,
    *,
    trusted: bool,
    env: Mapping[str, str],
    settings: Iterable[Written] = (),
    flags: Sequence[str] = (),
    strict: bool = False,
    cwd: Path | None = None,
    off: SwitchedOff | None = None,
) -> Servers:
    """All servers in effect. For one name the last of user, project, `.mcp.json`, local, flag and managed wins.

    `settings` are the `mcp` blocks, lowest source first. `flags` are `--mcp-config FILE_OR_JSON`; with `strict` only
    these and managed servers count. An untrusted project has no say. Unreadable parts of a file go to `problems`; an
    unreadable flag raises UsageError.
    """
    problems: list[str] = []
    shared = _project_file(project, problems) if trusted else []
    written = list(settings)
    places = [] if strict else _ranked(written, shared)
    places += [_flag(text, cwd or project) for text in flags]
    places += [block for block in written if block.source == "managed"]
    found, unwanted = _read_all(places, env), off or SwitchedOff()
    configs = {name: config for name, config in found.items() if not unwanted.hides(config)}
    problems += [
        f"{shown(config.file)}: MCP server {shown(name, 80)}: {config.fault}"
        for name, config in configs.items()
        if config.fault
    ]
    return Servers(configs, tuple(problems), tuple(config for config in found.values() if unwanted.hides(config)))


def _ranked(written: Sequence[Written], shared: Iterable[Written]) -> list[Written]:
    """Puts local settings after the project's `.mcp.json`, all others before it."""
    low = [block for block in written if block.source not in ("local", "managed")]
    return [*low, *shared, *(block for block in written if block.source == "local")]


def _read_all(places: Iterable[Written], env: Mapping[str, str]) -> dict[str, ServerConfig]:
    configs: dict[str, ServerConfig] = {}
    for place in places:
        for name, value in list(_block(place.servers).items())[:MOST_SERVERS]:
            configs.pop(name, None)
            configs[name] = read_server(name, value, env, source=place.source, file=place.file)
    return configs


def _block(servers: Mapping[str, Any]) -> Mapping[str, Any]:
    """The servers, even if nested one level down as in `.mcp.json`."""
    inner = servers.get("mcpServers")
    if isinstance(inner, dict) and not {"command", "url"} & inner.keys():
        return cast("dict[str, Any]", inner)
    return servers


def _project_file(project: Path, problems: list[str]) -> list[Written]:
    path = project / SHARED
    try:
        found = read_json(path, problems)
    except SettingsError as error:
        problems.append(shown(f"{error}; the file is ignored", 1000))
        return []
    if found is None:
        return []
    servers = found.get("mcpServers", {})
    if not isinstance(servers, dict):
        problems.append(f"{shown(str(path))}: `mcpServers` must be an object; the file is ignored")
        return []
    return [Written("project", str(path), cast("dict[str, Any]", servers))]


def _flag(text: str, cwd: Path) -> Written:
    try:
        if text.lstrip().startswith(("{", "[")):
            name, found = "--mcp-config", decode_object(text.encode(errors="replace"), "--mcp-config")
        else:
            name = str(cwd / Path(text).expanduser())
            found = read_json(Path(name))
    except SettingsError as error:
        raise UsageError(f"--mcp-config: {str(error).removeprefix('--mcp-config:').lstrip()}") from None
    if found is None:
        raise UsageError(f"--mcp-config: there is no file {name}")
    servers = found.get("mcpServers")
    if not isinstance(servers, dict):
        raise UsageError(
            f'{name}: must have an object `mcpServers`: `{{"mcpServers": {{"NAME": {{"command": ...}}}}}}`'
        )
    return Written("flag", name, cast("dict[str, Any]", servers))


# --- one server


def read_server(name: str, value: Any, env: Mapping[str, str], *, source: str = "code", file: str = "") -> ServerConfig:
    """Reads one server. Whatever makes it unusable goes to `fault`, so that a list can show it."""
    fields: dict[str, Any] = {}
    try:
        if not name.strip() or len(name) > 100 or not name.isprintable():
            raise _Wrong("a name must be 1 to 100 printable characters")
        if not isinstance(value, dict):
            raise _Wrong('must be an object such as {"command": "...", "args": []} or {"type": "http", "url": "..."}')
        fields = cast("dict[str, Any]", value)
        reach = _reach(fields, env)
        return ServerConfig(name, reach, source, file, _seconds(fields.get("timeout")))
    except _Wrong as error:
        return ServerConfig(name, _as_written(fields, error), source, file, fault=str(error))


def _as_written(fields: Mapping[str, Any], error: _Wrong) -> Reach:
    """The address to show in a list for a server that only lacks a variable."""
    url = fields.get("url")
    if not isinstance(error, _Missing) or not isinstance(url, str) or "command" in fields:
        return Stdio("")
    return _HTTP_TYPES.get(str(fields.get("type", "http")), Http)(url)


def inline_servers(written: Iterable[str | Mapping[str, Any]], env: Mapping[str, str]) -> dict[str, ServerConfig]:
    """The servers written out in an agent's `mcpServers`; plain names refer to the session's."""
    return {
        name: read_server(name, value, env, source="agent")
        for entry in written
        if not isinstance(entry, str)
        for name, value in entry.items()
    }


def _reach(fields: dict[str, Any], env: Mapping[str, str]) -> Reach:
    kind = fields.get("type", "http" if "url" in fields and "command" not in fields else "stdio")
    if kind == "sdk":
        return Sdk()
    if kind == "stdio":
        command = _text(fields, "command", env)
        return Stdio(command, _list(fields.get("args", []), env), _map(fields, "env", env))
    if kind in _HTTP_TYPES:
        url = _text(fields, "url", env)
        if not url.startswith(("http://", "https://")):
            raise _Wrong("`url` must begin with http:// or https://")
        return _HTTP_TYPES[kind](url, _headers(_map(fields, "headers", env)))
    raise _Wrong(f"there is no `type` {shown(str(kind), 40)}; there are stdio, http and sse")


def _text(fields: Mapping[str, Any], key: str, env: Mapping[str, str]) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value:
        raise _Wrong(f"needs `{key}`, a text")
    return expand(value, env)


def _list(value: Any, env: Mapping[str, str]) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in cast("list[Any]", value)):
        raise _Wrong("`args` must be a list of texts")
    return tuple(expand(item, env) for item in cast("list[str]", value))


def _map(fields: Mapping[str, Any], key: str, env: Mapping[str, str]) -> dict[str, str]:
    value = fields.get(key, {})
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in cast("dict[str, Any]", value).values()):
        raise _Wrong(f"`{key}` must be an object of texts")
    found = {name: expand(text, env) for name, text in cast("dict[str, str]", value).items()}
    if any("\0" in name + text or not name or (key == "env" and "=" in name) for name, text in found.items()):
        raise _Wrong(f"`{key}` has a name or a value that cannot be one")
    return found


def _headers(found: dict[str, str]) -> dict[str, str]:
    if any("\n" in name + text or "\r" in name + text for name, text in found.items()):
        raise _Wrong("`headers` must be single lines")
    return found


def _seconds(value: Any) -> float | None:
    """Reads a server's `timeout`: milliseconds per call."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise _Wrong("`timeout` must be a number of milliseconds above 0")
    return value / 1000


def expand(text: str, env: Mapping[str, str]) -> str:
    """Expands `${NAME}` and `${NAME:-default}` once; values are not expanded again."""

    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if env.get(name) or (default is None and name in env):
            return env[name]
        if default is None:
            raise _Missing(f"needs {name}, a variable that is not set; set it, or write ${{{name}:-default}}")
        return default

    return _VARIABLE.sub(value, text)


def limits(env: Mapping[str, str]) -> tuple[float, float]:
    """Seconds to connect and per call, from `MCP_TIMEOUT` and `MCP_TOOL_TIMEOUT` in milliseconds."""

    def read(name: str, default: float) -> float:
        number = whole_number(env.get(name, "").strip())
        return number / 1000 if number else default

    return read("MCP_TIMEOUT", CONNECT_SECONDS), read("MCP_TOOL_TIMEOUT", CALL_SECONDS)
