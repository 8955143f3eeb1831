"""`teamwright plugins`: lists, installs, enables, disables and removes plugins."""

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from teamwright.app import Options, open_workspace
from teamwright.app.extensions.plugins import find_all_plugins
from teamwright.core.errors import SettingsError, ToolError, UsageError
from teamwright.host.git.run import git
from teamwright.library import plugin_list
from teamwright.library.claude.marketplaces import Marketplace, read_marketplace
from teamwright.library.plugins import MANIFESTS, Plugin, Plugins, read_plugin
from teamwright.library.skills.places import find_shelves, scan_shelf
from teamwright.surfaces.commands.tables import print_json, print_table
from teamwright.tools.bounds import visible

CLONE_SECONDS = 300.0
_ADDRESS = re.compile(r"(?:https?|ssh|git|file)://.+|[\w.-]+@[\w.-]+:.+")
_USER_PART = re.compile(r"(?<=://)[^/@]*@")  # part of an address that may hold a password
_PROTOCOLS = "https:http:ssh:git:file"


def run_plugins(parser: argparse.ArgumentParser, args: Sequence[str]) -> int:
    parser.add_argument("action", nargs="?", choices=("list", "install", "enable", "disable", "remove"), default="list")
    words = "plugin names; with install: paths or git addresses, of a marketplace with #NAME"
    parser.add_argument("names", nargs="*", metavar="NAME", help=words)
    found = parser.parse_args(args)
    options = Options(cwd=Path.cwd())
    ground = open_workspace(options)
    state = ground.home.root
    if found.action == "list":
        if found.names:
            parser.error("list takes no names")
        return _show(state, find_all_plugins(options, ground) or Plugins(), as_json=found.json)
    if not found.names:
        parser.error(f"{found.action} needs {'a path or a git address' if found.action == 'install' else 'a name'}")
    for name in found.names:
        match found.action:
            case "install":
                _install(state, name)
            case "remove":
                plugin_list.remove(state, name)
                sys.stdout.write(f"{visible(name)} is removed.\n")
            case _:
                plugin_list.switch(state, name, on=found.action == "enable")
                sys.stdout.write(
                    f"{visible(name)} is {'on' if found.action == 'enable' else 'off'} from the next start.\n"
                )
    return 0


def _show(state: Path, found: Plugins, *, as_json: bool) -> int:
    rows = _installed(state)
    brought = [plugin for plugin in found.plugins if plugin.origin]
    rows += [{"name": one.name, "enabled": True, "origin": one.origin} | _brings(one) for one in brought]
    if as_json:
        print_json(rows)
    elif not rows:
        sys.stdout.write("No plugins are installed; `teamwright plugins install PATH_OR_GIT_ADDRESS` adds one.\n")
    else:
        print_table([["NAME", "STATE", "FROM", "BRINGS"], *(_line(row) for row in rows)])
    for words in (*found.problems, *(one.text for one in found.unread)):
        sys.stderr.write(f"teamwright: {visible(words)}\n")
    return 0


def _installed(state: Path) -> list[dict[str, Any]]:
    try:
        listed = plugin_list.read_list(state)
    except SettingsError as error:
        raise UsageError(str(error)) from None
    rows: list[dict[str, Any]] = []
    for name, entry in listed.items():
        row: dict[str, Any] = {"name": name, "enabled": entry.enabled, "origin": entry.origin, "installed_at": entry.at}
        try:
            row |= _brings(read_plugin(plugin_list.folder_of(state, name)))
        except SettingsError as error:
            row["error"] = str(error)
        rows.append(row)
    return rows


def _line(row: dict[str, Any]) -> list[str]:
    brings = f"broken: {row['error']}" if "error" in row else _in_words(row)
    return [row["name"], "on" if row["enabled"] else "off", row["origin"], brings]


def _brings(plugin: Plugin) -> dict[str, Any]:
    """What a plugin brings to run or to obey, by name."""
    nowhere = Path("/nonexistent")
    shelves = find_shelves(
        cwd=nowhere,
        project=nowhere,
        home=nowhere,
        state=nowhere,
        trusted=False,
        sources=(),
        plugins=(plugin,),
        managed=nowhere,
    )
    files: dict[str, list[str]] = {"skill": [], "command": []}
    for shelf in shelves:
        for path, _ in scan_shelf(shelf)[0]:
            files[shelf.kind].append(Path(path).parent.name if shelf.kind == "skill" else Path(path).stem)
    return {
        "version": plugin.version,
        "agents": sorted(file.stem for folder in plugin.agents for file in folder.rglob("*.md")),
        "skills": files["skill"],
        "commands": files["command"],
        "hooks": sorted({event for _, events in plugin.hooks for event in events}),
        "servers": sorted({name for _, servers in plugin.servers for name in servers}),
    }


def _in_words(brings: dict[str, Any]) -> str:
    kinds = ("agents", "skills", "commands", "hooks", "servers")
    return "; ".join(f"{kind}: {', '.join(brings[kind])}" for kind in kinds if brings[kind]) or "nothing"


def _install(state: Path, named: str) -> None:
    source, _, name = named.partition("#")
    if not _ADDRESS.fullmatch(source):
        path = Path(source).expanduser()
        _put_in(state, _chosen(path, source, name), str(path.absolute()), name)
        return
    with tempfile.TemporaryDirectory(prefix="teamwright-plugin-") as folder:
        target = Path(folder) / _stem(source)
        try:
            anyio.run(_clone, source, target)
        except ToolError as error:
            raise UsageError(str(error)) from None
        shutil.rmtree(target / ".git", ignore_errors=True)
        _put_in(state, _chosen(target, source, name), _USER_PART.sub("", source), name)


def _chosen(root: Path, source: str, name: str) -> Path:
    """The directory of one plugin in a marketplace; `root` itself if that is a plugin."""
    try:
        market = read_marketplace(root)
    except SettingsError as error:
        raise UsageError(f"not installed: {error}") from None
    if market is None or (not name and any((root / manifest).exists() for manifest in MANIFESTS)):
        if name:
            raise UsageError(f"not installed: {source} is no marketplace, so it has no plugin {name}")
        return root
    if name not in market.plugins:
        raise _not_there(market, source, name)
    chosen = market.plugins[name]
    if chosen.folder is None:
        if not chosen.address:
            raise UsageError(f"not installed: {source} lists the plugin {name}, but has no directory of it")
        where = f"`teamwright plugins install {chosen.address}` fetches it"
        raise UsageError(f"not installed: the plugin {name} is not in this marketplace itself: {where}")
    return chosen.folder


def _not_there(market: Marketplace, source: str, name: str) -> UsageError:
    rows = "".join(f"\n  {one.name}  {one.description}".rstrip() for one in market.plugins.values())
    wrong = f"it has no plugin {name}" if name else "choose one of its plugins"
    example = next(iter(market.plugins), "NAME")
    return UsageError(
        f"{source} is a marketplace; {wrong}:{rows or ' it has none'}\n"
        f"`teamwright plugins install '{source}#{example}'` installs one."
    )


def _stem(source: str) -> str:
    """A directory name made from an address; the plugin's name, if its manifest gives none."""
    last = re.split(r"[/:]", source.rstrip("/"))[-1].removesuffix(".git")
    return re.sub(r"[^A-Za-z0-9._-]", "-", last).lstrip(".-") or "plugin"


async def _clone(source: str, target: Path) -> None:
    """Clone by argv, without hooks or submodules, with the person's own credentials, and without ever asking."""
    ran = await git(
        "-c",
        "core.hooksPath=/dev/null",
        "clone",
        "--quiet",
        "--depth=1",
        "--no-recurse-submodules",
        "--template=",
        "--",
        source,
        str(target),
        cwd=target.parent,
        limit=CLONE_SECONDS,
        as_person=True,
        extra={"GIT_ALLOW_PROTOCOL": _PROTOCOLS},
    )
    if ran.status:
        raise UsageError(f"{_USER_PART.sub('', source)} could not be fetched: {_USER_PART.sub('', ran.complaint)}")


def _put_in(state: Path, source: Path, origin: str, called: str = "") -> None:
    try:
        plugin = read_plugin(source, called)
    except SettingsError as error:
        raise UsageError(f"not installed: {error}") from None
    if plugin.problems:
        raise UsageError(f"not installed: {'; '.join(plugin.problems[:5])}")
    plugin_list.add(state, plugin.name, plugin.root, origin)
    words = f"{plugin.name} is installed, and on from the next start. It brings {_in_words(_brings(plugin))}.\n"
    sys.stdout.write(visible(words))
