"""MCP servers that another program stores for the person in `~/.claude.json`. We never write that file.

It may be large because it also holds that program's own state, so only the needed parts are decoded.
"""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from teamwright.core.errors import SettingsError
from teamwright.core.jsontext import as_object
from teamwright.core.text import shown
from teamwright.osfiles.reading import read_whole

NAME = ".claude.json"
MOST_BYTES = 64 << 20


class _ServersFile(Struct, frozen=True, rename="camel"):
    mcp_servers: Raw = Raw(b"{}")
    projects: dict[str, Raw] = {}


class _Project(Struct, frozen=True, rename="camel"):
    mcp_servers: Raw = Raw(b"{}")
    disabled_mcp_servers: Raw = Raw(b"[]")
    disabled_mcpjson_servers: Raw = Raw(b"[]")


class ClaudeServers(Struct, frozen=True):
    """`user` servers apply everywhere, `local` ones in this directory; `off` are names that the person turned off
    here."""

    file: str = ""
    user: dict[str, Any] = {}
    local: dict[str, Any] = {}
    off: frozenset[str] = frozenset()  # from any source
    off_shared: frozenset[str] = frozenset()  # from the project's `.mcp.json`
    problem: str = ""


def read_claude_servers(home: Path, folders: Iterable[Path], sources: Collection[str]) -> ClaudeServers:
    """`folders` are the directories whose local part applies. Never raises, whatever the file contains."""
    path = home / NAME
    try:
        whole = _read(path)
        if whole is None:
            return ClaudeServers()
        parts = [_project(whole.projects[name]) for folder in folders if (name := str(folder)) in whole.projects]
    except SettingsError as error:
        return ClaudeServers(problem=shown(f"{error}; its MCP servers are not used", 1000))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return ClaudeServers(problem=shown(f"{path}: {error}; its MCP servers are not used", 1000))
    local: dict[str, Any] = {}
    for part in parts:
        local |= _mapping(part.mcp_servers)
    return ClaudeServers(
        str(path),
        _mapping(whole.mcp_servers) if "user" in sources else {},
        local if "local" in sources else {},
        frozenset(name for part in parts for name in _names(part.disabled_mcp_servers)),
        frozenset(name for part in parts for name in _names(part.disabled_mcpjson_servers)),
    )


def _read(path: Path) -> _ServersFile | None:
    data = read_whole(path, MOST_BYTES)
    if data is None:
        return None
    return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=_ServersFile)


def _project(raw: Raw) -> _Project:
    return msgspec.json.decode(raw, type=_Project) if bytes(raw).lstrip()[:1] == b"{" else _Project()


def _mapping(raw: Raw) -> dict[str, Any]:
    found = msgspec.json.decode(raw)
    return as_object(found)


def _names(raw: Raw) -> list[str]:
    found = msgspec.json.decode(raw)
    return [name for name in cast("list[Any]", found) if isinstance(name, str)] if isinstance(found, list) else []
