"""`teamwright mcp`: lists, adds, removes and tests MCP servers, and serves teams as one."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import anyio
import msgspec
from msgspec.structs import replace

from teamwright.app import Options, open_workspace
from teamwright.app.extensions.plugins import find_all_plugins
from teamwright.app.extensions.servers import TOKENS, configured
from teamwright.app.workspace import Workspace
from teamwright.core.data.extensions.server import Http, Reach, Sdk, ServerConfig, ServerState, Sse, Stdio
from teamwright.core.errors import UsageError
from teamwright.core.policies.redaction import concealed
from teamwright.host.git.places import leave_out_file
from teamwright.host.mcp.connect import McpContext
from teamwright.library.claude.servers import NAME
from teamwright.library.jsonfile import read_json
from teamwright.library.mcp_config import limits, read_server
from teamwright.library.plugins import Plugins
from teamwright.library.trust.decision import what_would_run
from teamwright.library.trust.snapshot import agree_to_own
from teamwright.osfiles.private import write_file
from teamwright.runtime.extensions.mcp_pool import ServerPool
from teamwright.surfaces.commands.mcp.serve_command import add_serving, run_serve
from teamwright.surfaces.commands.tables import print_json, print_table
from teamwright.tools.bounds import visible
from teamwright.tools.mcp import McpTool

ACTIONS = ("list", "add", "remove", "test", "login", "logout", "serve")
VALUED = (
    "-s",
    "--scope",
    "-t",
    "--transport",
    "-e",
    "--env",
    "-H",
    "--header",
    "--mcp-config",
    "--model",
    "--permission-mode",
    "--port",
    "--resume",
    "--team",
    "--teammate-mode",
)
OFF = "turned off"
SCOPES = ("local", "user", "project")


def run_mcp(parser: ArgumentParser, args: Sequence[str]) -> int:
    own, rest = _divide(args)
    add = parser.add_argument
    add("action", nargs="?", choices=ACTIONS, default="list")
    add("-s", "--scope", choices=SCOPES, help="add, remove: which settings file; local is yours for this project")
    add("-t", "--transport", choices=("stdio", "http", "sse"), help="add: transport of the server")
    add(
        "-e",
        "--env",
        action="append",
        metavar="NAME=VALUE",
        default=[],
        help="add: environment variable for the server",
    )
    add("-H", "--header", action="append", metavar="'NAME: VALUE'", default=[], help="add: HTTP header for the server")
    add("--mcp-config", action="append", metavar="FILE_OR_JSON", default=[], help="list, test: additional servers")
    add("--strict-mcp-config", action="store_true", help="list, test: only the servers of --mcp-config")
    add("--trust", action="store_true", help="treat this directory as trusted")
    add("words", nargs="*", metavar="NAME [COMMAND ...]", help="add: a name, then a URL or a command; otherwise names")
    add_serving(parser.add_argument_group("serve: offer teams as tools to an MCP client, over pipes or at an address"))
    found = parser.parse_intermixed_args(own)
    if found.action == "serve":
        return run_serve(found)
    options = Options(cwd=Path.cwd(), env=dict(os.environ), trust=found.trust)
    ground = open_workspace(options)
    plugins = find_all_plugins(options, ground)
    found.plugins = plugins.servers if plugins else ()
    match found.action:
        case "add":
            return _add(found, [*found.words, *rest], ground)
        case "remove":
            return _remove(found, ground, plugins)
        case "test":
            return _test(found, ground)
        case "login" | "logout":
            return _sign(found, ground)
        case _:
            return _list(found, ground)


def _divide(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and those of the added command: all after `--`, or from the command's first word on."""
    words = 0
    takes_value = False
    for n, arg in enumerate(args):
        if takes_value:
            takes_value = False
        elif arg == "--":
            return list(args[:n]), list(args[n + 1 :])
        elif arg.startswith("-"):
            takes_value = arg in VALUED
        else:
            words += 1
            if words == 3 and "add" in args[:n]:
                return list(args[: n + 1]), list(args[n + 1 :])
    return list(args), []


# --- reading


def _servers(found: Namespace, ground: Workspace) -> dict[str, ServerConfig]:
    """Servers in effect; a listing also shows those that are turned off."""
    servers = configured(ground, found.mcp_config, strict=found.strict_mcp_config, plugins=found.plugins)
    if found.action == "list":
        off = {config.name: replace(config, fault=OFF) for config in servers.off}
        servers = replace(servers, configs=servers.configs | off)
    told = ground.notes if found.action in ("list", "test") else ()
    for problem in dict.fromkeys([*told, *servers.problems]):
        sys.stderr.write(f"teamwright: {visible(problem)}\n")
    unknown = [name for name in found.words if name not in servers.configs]
    if unknown:
        raise UsageError(f"there is no MCP server {', '.join(unknown)}; `teamwright mcp list` lists the servers")
    wanted = found.words or servers.configs
    return {name: servers.configs[name] for name in wanted}


def _list(found: Namespace, ground: Workspace) -> int:
    configs = _servers(found, ground)
    if found.json:
        print_json([_record(config) for config in configs.values()])
    elif not configs:
        sys.stdout.write("no MCP servers here; `teamwright mcp add NAME COMMAND` adds one\n")
    else:
        home = str(ground.user)
        rows = [[c.name, _from(c, home), _kind(c.reach), _where(c.reach), c.fault] for c in configs.values()]
        print_table([["NAME", "FROM", "KIND", "WHERE", "FAULT"], *rows])
    return 0


def _from(config: ServerConfig, home: str) -> str:
    """The server's source, with the file if that belongs to another program."""
    if Path(config.file).name != NAME:
        return config.source
    return f"{config.source}, {config.file.replace(home, '~', 1)}"


def _record(config: ServerConfig) -> dict[str, Any]:
    return {
        "name": config.name,
        "source": config.source,
        "file": config.file,
        "type": _kind(config.reach),
        "where": _where(config.reach),
        "error": config.fault or None,
    }


def _kind(reach: Reach) -> str:
    return type(reach).__name__.lower()


def _where(reach: Reach) -> str:
    """The address without what may be secret: variables, headers, and parts of URLs that hold keys."""
    match reach:
        case Stdio(command, args):
            return " ".join(concealed([command, *args]))
        case Http(url) | Sse(url):
            parts = urlsplit(url)
            return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        case Sdk():
            return "(in the program that drives this one)"


def _test(found: Namespace, ground: Workspace) -> int:
    configs = _servers(found, ground)
    states = anyio.run(_try, configs, ground)
    _show_states(states, as_json=found.json)
    left_out = not ground.trusted and not found.words and bool(what_would_run(ground.project).servers)
    return 0 if all(s.status == "connected" for s in states) and not left_out else 1


def _show_states(states: list[ServerState], *, as_json: bool) -> None:
    if as_json:
        print_json([{"name": s.name, "status": s.status, "error": s.error or None, "tools": s.tools} for s in states])
    elif states:
        rows = [[s.name, s.status, s.error or ", ".join(s.tools) or "(no tools)"] for s in states]
        print_table([["NAME", "STATUS", "TOOLS OR ERROR"], *rows])
    else:
        sys.stdout.write("no MCP servers here\n")


async def _try(configs: dict[str, ServerConfig], ground: Workspace) -> list[ServerState]:
    connect, call = limits(ground.env)
    around = McpContext(
        env=ground.env,
        cwd=ground.project,
        connect_seconds=connect,
        call_seconds=call,
        tokens=ground.home.root / TOKENS,
    )
    pool = ServerPool(configs, McpTool, around, log=_hush)
    states: list[ServerState] = []
    async with anyio.create_task_group() as group:
        pool.start(group)
        await pool.ready(connect + 1)
        states += pool.states()
        await pool.close()
    return states


def _sign(found: Namespace, ground: Workspace) -> int:
    from teamwright.surfaces.commands.mcp.login import log_in, log_out  # noqa: PLC0415

    if len(found.words) != 1:
        raise UsageError(f"mcp {found.action}: give one name")
    (config,) = _servers(found, ground).values()
    return (log_in if found.action == "login" else log_out)(config, ground)


def _hush(words: str) -> None:
    """Says nothing: the state does."""


# --- changing


def _file(scope: str, ground: Workspace) -> tuple[Path, str]:
    """The file in which a scope keeps its servers, and the key there."""
    match scope:
        case "user":
            return ground.home.root / "settings.json", "mcp"
        case "project":
            return ground.project / ".mcp.json", "mcpServers"
        case _:
            return ground.project / ".teamwright" / "settings.local.json", "mcp"


def _read(path: Path, key: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The whole file and its servers. Raises SettingsError if we must not overwrite it."""
    whole = read_json(path) or {}
    servers = whole.setdefault(key, {})
    if not isinstance(servers, dict):
        raise UsageError(f"{path}: `{key}` must be an object; repair it first")
    return whole, cast("dict[str, Any]", servers)


def _write(path: Path, whole: dict[str, Any], scope: str, ground: Workspace) -> None:
    write_file(path, msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n")
    if scope == "project":
        path.chmod(0o644)  # a project's file, for everybody who works on it
    elif scope == "local":
        leave_out_file(path)  # it may hold a token
    agree_to_own(ground.project, path, ground.changed, state=ground.home.root)


def _add(found: Namespace, words: list[str], ground: Workspace) -> int:
    if len(words) < 2:
        raise UsageError("mcp add: give a name, then a command with its arguments or a URL")
    name, target, *rest = words
    value = _described(found, target, rest)
    fault = read_server(name, value, ground.env).fault
    if fault and "a variable that is not set" not in fault:  # the variable may be set where the server is used
        raise UsageError(f"mcp add: {fault}")
    scope = found.scope or "local"
    path, key = _file(scope, ground)
    whole, servers = _read(path, key)
    if name in servers:
        raise UsageError(f"{path} already has an MCP server {name}; `teamwright mcp remove {name}` first")
    servers[name] = value
    _write(path, whole, scope, ground)
    _say(f"added {name} to {path}")
    if scope != "user" and not ground.trusted:
        where = visible(str(ground.project))
        _say(f"{where} is not trusted, so {visible(name)} is not used yet. `teamwright trust` there trusts it.")
    return 0


def _described(found: Namespace, target: str, rest: list[str]) -> dict[str, Any]:
    """A server as its file has it, without empty fields."""
    kind = found.transport or ("http" if target.startswith(("http://", "https://")) else "stdio")
    value: dict[str, Any]
    if kind == "stdio":
        value = {"command": target, "args": rest, "env": _pairs(found.env, "=", "--env")}
    elif rest:
        raise UsageError(f"mcp add: a URL takes no further arguments, but got: {' '.join(rest)}")
    else:
        value = {"type": kind, "url": target, "headers": _pairs(found.header, ":", "--header")}
    return {key: part for key, part in value.items() if part}


def _pairs(texts: Sequence[str], between: str, option: str) -> dict[str, str]:
    pairs = [text.partition(between) for text in texts]
    wrong = [text for text, (name, found, _) in zip(texts, pairs, strict=True) if not found or not name.strip()]
    if wrong:
        raise UsageError(f"{option}: `{wrong[0].partition('=')[0]}` must be NAME{between}VALUE")
    return {name.strip(): value.strip() if between == ":" else value for name, _, value in pairs}


def _remove(found: Namespace, ground: Workspace, plugins: Plugins | None) -> int:
    if len(found.words) != 1:
        raise UsageError("mcp remove: give one name")
    (name,) = found.words
    scopes = (found.scope,) if found.scope else SCOPES
    places = [(scope, *_file(scope, ground)) for scope in scopes]
    holding = [(scope, path, key) for scope, path, key in places if name in _read(path, key)[1]]
    if not holding:
        where = _elsewhere(name, found, ground, plugins)
        raise UsageError(
            f"there is no MCP server {name} in {', '.join(str(path) for _, path, _ in places)}{where and f'; {where}'}"
        )
    if len(holding) > 1:
        raise UsageError(f"{name} is in several files; choose by --scope {'|'.join(s for s, _, _ in holding)}")
    ((scope, path, key),) = holding
    whole, servers = _read(path, key)
    del servers[name]
    _write(path, whole, scope, ground)
    _say(f"removed {name} from {path}")
    return 0


def _elsewhere(name: str, found: Namespace, ground: Workspace, plugins: Plugins | None) -> str:
    """Where a server comes from that is in no file of ours, and how to remove it; empty if there is none."""
    servers = configured(ground, found.mcp_config, strict=found.strict_mcp_config, plugins=found.plugins)
    config = servers.configs.get(name)
    if config is None:
        return ""
    known = plugins.plugins if plugins is not None else ()
    plugin = next((p for p in known if any(config.file == file for file, _ in p.servers)), None)
    if config.source != "plugin" or plugins is None or plugin is None:
        return f"it is in {config.file} ({config.source})"
    off = f"`teamwright plugins disable {plugin.name}`"
    if plugin.name not in plugins.enabled:  # turned on by settings or by another program
        off = f'`"enabledPlugins": {{"{plugin.origin or plugin.name}": false}}` in your settings'
    return f"it comes from the plugin {plugin.name} ({config.file}), which {off} switches off"


def _say(words: str) -> None:
    sys.stdout.write(visible(words) + "\n")
