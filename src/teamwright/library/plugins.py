"""Plugins: directories that bring agents, skills, commands, hooks and MCP servers, each under the plugin's name."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.extensions.unread import Unread
from teamwright.core.errors import SettingsError
from teamwright.core.jsontext import as_object
from teamwright.core.text import shown
from teamwright.library.claude.marketplaces import BroughtPlugin
from teamwright.library.jsonfile import read_json
from teamwright.library.plugin_list import folder_of, read_list

MANIFESTS = (".claude-plugin/plugin.json", "plugin.json")
ROOT = "${CLAUDE_PLUGIN_ROOT}"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_UNQUOTABLE = re.compile(r"[\"'$`\\\n]")  # in a path that is put into commands
_MOST_PATHS = 50


class Plugin(Struct, frozen=True, kw_only=True):
    """The contents of a plugin. `root` is resolved, and every path here is below it."""

    name: str
    root: Path
    origin: str = ""  # `name@marketplace` if another program installed it
    version: str = ""
    description: str = ""
    agents: tuple[Path, ...] = ()
    skills: tuple[Path, ...] = ()
    commands: tuple[Path, ...] = ()
    hooks: tuple[tuple[str, dict[str, Any]], ...] = ()  # (file, events) as `library.hooks.read_hooks` takes them
    servers: tuple[tuple[str, dict[str, Any]], ...] = ()  # (file, {name: configuration})
    problems: tuple[str, ...] = ()


class Plugins(Struct, frozen=True):
    """The enabled plugins, and problems."""

    plugins: tuple[Plugin, ...] = ()
    problems: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()  # turned on, but not on this disk
    enabled: frozenset[str] = frozenset()  # names that the person installed and turned on, or named with `--plugin-dir`
    of_project: tuple[Path, ...] = ()  # directories of those that only a project turns on

    def only_by_settings(self, names: set[str]) -> tuple[Path, ...]:
        return tuple(plugin.root for plugin in self.plugins if plugin.name in names - self.enabled)

    @property
    def agent_places(self) -> list[tuple[str, Path]]:
        """In the form that `agents.places.find_places` takes."""
        return [(plugin.name, folder) for plugin in self.plugins for folder in plugin.agents]

    @property
    def hooks(self) -> list[tuple[str, dict[str, Any]]]:
        return [entry for plugin in self.plugins for entry in plugin.hooks]

    @property
    def servers(self) -> list[tuple[str, dict[str, Any]]]:
        return [entry for plugin in self.plugins for entry in plugin.servers]


def find_plugins(
    state: Path,
    *,
    settings: Mapping[str, Any] | None = None,
    flags: Sequence[Path] = (),
    brought: Sequence[BroughtPlugin] = (),
    missing: Sequence[Unread] = (),
) -> Plugins:
    """The enabled plugins. For one name the last of `brought`, installed here, and `--plugin-dir` wins.

    `settings` is `enabledPlugins`, which turns installed plugins on and off by `name` or `name@anything`. `brought` are
    another program's plugins; `missing` are those it enables but that are not on this disk.
    """
    problems: list[str] = []
    try:
        listed = read_list(state)
    except SettingsError as error:
        listed, problems = {}, [shown(f"{error}; no installed plugin is used", 1000)]
    said = {key.split("@")[0]: value for key, value in (settings or {}).items() if isinstance(value, bool)}
    found: dict[str, Plugin] = {}
    named = {name for name, entry in listed.items() if entry.enabled}
    roots = [folder_of(state, name) for name, entry in listed.items() if said.get(name, entry.enabled)]
    ours = [BroughtPlugin("", root, "") for root in (*roots, *flags)]
    for one in (*(theirs for theirs in brought if theirs.name not in listed), *ours):
        try:
            plugin = replace(read_plugin(one.root, one.name), origin=one.origin)
        except SettingsError as error:
            problems.append(shown(f"{error}; the plugin is not used", 1000))
            continue
        problems += plugin.problems
        found[plugin.name] = plugin
        named |= {plugin.name} if one.root in flags else set[str]()
    gone = tuple(one for one in missing if one.name.partition("@")[0] not in found)
    return Plugins(tuple(found.values()), tuple(problems), gone, frozenset(named))


# --- one plugin


class _PluginReader(Struct):
    root: Path
    file: str  # the manifest
    problems: list[str]

    def tell(self, words: str) -> None:
        self.problems.append(shown(f"{self.file}: {words}", 1000))


def read_plugin(root: Path, called: str = "") -> Plugin:
    """Raises SettingsError if it is not a plugin at all; a faulty part only loses that part.

    `called` is the name to use if the manifest has none; otherwise the directory's name is used.
    """
    real = Path(os.path.realpath(root))
    if not real.is_dir():
        raise SettingsError(f"{root}: there is no such directory")
    file, manifest = _manifest(real)
    name = manifest.get("name", called or real.name)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SettingsError(f"{file}: `name` must be letters, digits, `.`, `_` and `-`, at most 64")
    reader = _PluginReader(real, file, [])
    return Plugin(
        name=name,
        root=real,
        version=_word(manifest.get("version")),
        description=_word(manifest.get("description")),
        agents=_folders(reader, manifest, "agents"),
        skills=_folders(reader, manifest, "skills"),
        commands=_folders(reader, manifest, "commands"),
        hooks=_objects(reader, manifest.get("hooks"), "hooks", "hooks/hooks.json"),
        servers=_objects(reader, manifest.get("mcpServers"), "mcpServers", ".mcp.json"),
        problems=tuple(reader.problems),
    )


def _manifest(root: Path) -> tuple[str, dict[str, Any]]:
    for name in MANIFESTS:
        _require_inside(root, root / name, name)
        if (found := read_json(root / name)) is not None:
            return str(root / name), found
    parts = ("agents", "skills", "commands", "hooks/hooks.json", ".mcp.json")
    if not any((root / part).exists() for part in parts):
        raise SettingsError(f"{root}: not a plugin: it has neither {MANIFESTS[0]} nor agents, skills or commands")
    return str(root), {}


def _word(value: Any) -> str:
    return shown(value, 300) if isinstance(value, str) else ""


def _require_inside(root: Path, path: Path, said: str) -> None:
    """Neither `..` nor a link leads out of a plugin."""
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(root):
        raise SettingsError(f"{root}: `{shown(said, 200)}` leads out of the plugin")


def _paths(reader: _PluginReader, value: Any, key: str) -> list[Path]:
    """The usable paths in a field."""
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    found: list[Path] = []
    for item in items[:_MOST_PATHS]:
        if not isinstance(item, str) or not item.strip() or "\0" in item:
            reader.tell(f"`{key}` must be a path, or a list of paths; ignored")
        elif item.startswith(("/", "~")) or ".." in item.split("/"):
            reader.tell(f"`{key}`: `{shown(item, 200)}` is refused: it must lie in the plugin")
        else:
            try:
                _require_inside(reader.root, reader.root / item, item)
                found.append(reader.root / item)
            except SettingsError as error:
                reader.tell(f"`{key}` is refused: {error}")
    return found


def _folders(reader: _PluginReader, manifest: Mapping[str, Any], key: str) -> tuple[Path, ...]:
    """The usual directory, and those that the manifest adds."""
    usual = _paths(reader, key, key) if os.path.lexists(reader.root / key) else []
    more = _paths(reader, manifest[key], key) if manifest.get(key) is not None else []
    folders: dict[Path, None] = {}
    for path in (*usual, *more):
        if path.is_dir():
            real = Path(os.path.realpath(path))
            one_skill = key == "skills" and real != reader.root and (real / "SKILL.md").is_file()
            folders[real.parent if one_skill else real] = None
        elif not (path.is_file() and Path(os.path.realpath(path)).parent in folders):
            reader.tell(f"`{key}`: {shown(str(path), 300)} is not a directory; ignored")
    return tuple(folders)


def _objects(reader: _PluginReader, value: Any, key: str, usual: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Hooks or servers: from the standard file, and inline or by path from the manifest."""
    found: list[tuple[str, dict[str, Any]]] = []
    if isinstance(value, dict):
        found.append((reader.file, cast("dict[str, Any]", value)))
    named = [] if value is None or isinstance(value, dict) else _paths(reader, value, key)
    standard = _paths(reader, usual, key) if os.path.lexists(reader.root / usual) else []
    found += _read_each(reader, dict.fromkeys([*standard, *named]), key)
    inner = [(file, _inner(read, key)) for file, read in found]
    if inner and _UNQUOTABLE.search(str(reader.root)):
        reader.tell(f"`{key}` is ignored: the plugin's directory has quotes or signs in its name that commands misread")
        return ()
    return tuple((file, cast("dict[str, Any]", _rooted(events, str(reader.root)))) for file, events in inner if events)


def _read_each(reader: _PluginReader, paths: Iterable[Path], key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in paths:
        try:
            read = read_json(path)
        except SettingsError as error:
            reader.tell(f"{error}; ignored")
            continue
        if read is None:
            reader.tell(f"`{key}`: there is no file {shown(str(path), 300)}; ignored")
        else:
            yield str(path), read


def _inner(read: dict[str, Any], key: str) -> dict[str, Any]:
    """The block itself, even if the file nests it one level down."""
    return as_object(read.get(key, read))


def _rooted(value: Any, root: str) -> Any:
    """Replaces `${CLAUDE_PLUGIN_ROOT}` by the plugin's directory."""
    if isinstance(value, str):
        return value.replace(ROOT, root)
    if isinstance(value, list):
        return [_rooted(item, root) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _rooted(item, root) for key, item in cast("dict[str, Any]", value).items()}
    return value
