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
from teamwright.core.errors import SettingsError, ToolError, UsageError
from teamwright.host.git.run import git
from teamwright.library import plugin_list
from teamwright.library.plugins import Plugin, find_plugins, read_plugin
from teamwright.library.skills.places import find_shelves, scan_shelf
from teamwright.surfaces.commands.tables import print_json, print_table
from teamwright.tools.bounds import visible

CLONE_SECONDS = 300.0
_ADDRESS = re.compile(r"(?:https?|ssh|git|file)://.+|[\w.-]+@[\w.-]+:.+")
_USER_PART = re.compile(r"(?<=://)[^/@]*@")  # of an address, which may hold a password
_PROTOCOLS = "https:http:ssh:git:file"


def run_plugins(parser: argparse.ArgumentParser, args: Sequence[str]) -> int:
    parser.add_argument("action", nargs="?", choices=("list", "install", "enable", "disable", "remove"), default="list")
    parser.add_argument("names", nargs="*", metavar="NAME", help="plugin names; with install: paths or git addresses")
    found = parser.parse_args(args)
    state = open_workspace(Options(cwd=Path.cwd())).home.root
    if found.action == "list":
        if found.names:
            parser.error("list takes no names")
        return _show(state, as_json=found.json)
    if not found.names:
        parser.error(f"{found.action} needs a name")
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


def _show(state: Path, *, as_json: bool) -> int:
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
    if as_json:
        print_json(rows)
    elif not rows:
        sys.stdout.write("No plugins are installed; `teamwright plugins install PATH_OR_GIT_ADDRESS` adds one.\n")
    else:
        print_table([["NAME", "STATE", "FROM", "BRINGS"], *(_line(row) for row in rows)])
    for words in find_plugins(state).problems:
        sys.stderr.write(f"teamwright: {visible(words)}\n")
    return 0


def _line(row: dict[str, Any]) -> list[str]:
    brings = f"broken: {row['error']}" if "error" in row else _in_words(row)
    return [row["name"], "on" if row["enabled"] else "off", row["origin"], brings]


def _brings(plugin: Plugin) -> dict[str, Any]:
    """By name: what there is to run or to obey."""
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


def _install(state: Path, source: str) -> None:
    if not _ADDRESS.fullmatch(source):
        _put_in(state, Path(source).expanduser(), str(Path(source).expanduser().absolute()))
        return
    with tempfile.TemporaryDirectory(prefix="teamwright-plugin-") as folder:
        target = Path(folder) / _stem(source)
        try:
            anyio.run(_clone, source, target)
        except ToolError as error:
            raise UsageError(str(error)) from None
        shutil.rmtree(target / ".git", ignore_errors=True)
        _put_in(state, target, _USER_PART.sub("", source))


def _stem(source: str) -> str:
    """A directory name for what an address leads to: the plugin's name where its manifest gives none."""
    last = re.split(r"[/:]", source.rstrip("/"))[-1].removesuffix(".git")
    return re.sub(r"[^A-Za-z0-9._-]", "-", last).lstrip(".-") or "plugin"


async def _clone(source: str, target: Path) -> None:
    """By argv, without hooks or submodules; with the person's own credentials, and never a question."""
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


def _put_in(state: Path, source: Path, origin: str) -> None:
    try:
        plugin = read_plugin(source)
    except SettingsError as error:
        raise UsageError(f"not installed: {error}") from None
    if plugin.problems:
        raise UsageError(f"not installed: {'; '.join(plugin.problems[:5])}")
    plugin_list.add(state, plugin.name, plugin.root, origin)
    words = f"{plugin.name} is installed, and on from the next start. It brings {_in_words(_brings(plugin))}.\n"
    sys.stdout.write(visible(words))
