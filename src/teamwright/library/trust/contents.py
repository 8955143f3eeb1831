"""Lists the settings that a directory would apply and the programs it would start if it were trusted."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from teamwright.core.errors import SettingsError
from teamwright.core.jsontext import as_list, as_object
from teamwright.library.agents.places import SKILL_HOMES
from teamwright.library.frontmatter import Document, split
from teamwright.library.jsonfile import MOST_JSON, read_json
from teamwright.library.skills.text import Shell, pieces
from teamwright.library.trust.decision import Part
from teamwright.library.trust.settings_text import HARMLESS, command_line, shown_value, started
from teamwright.library.trust.snapshot import GIT, SETTINGS
from teamwright.osfiles.reading import read_plain

MOST_LINES = 5_000
MOST_LINE = 100_000  # characters
_TITLES = {
    "hooks": "hooks, which run commands",
    "keys": "keys for the model, which a command gives",
    "servers": "MCP servers, which are programs",
    "languages": "language servers, which are programs",
    "status": "a status line, which runs a command",
    "git": "git settings, which run programs",
    "commands": "commands that skills and commands run",
    "scripts": "files that these start or read; a change needs your approval",
    "rules": "rules, which answer questions for you",
    "modes": "modes",
    "directories": "directories beyond this one",
    "variables": "variables for every command",
    "plugins": "plugins that it turns on or off",
    "others": "other settings",
    "agents": "agents",
    "skills": "skills and commands",
}


def contents(project: Path, files: Mapping[str, object], git: Iterable[str] = ()) -> tuple[Part, ...]:
    """`files` are those found by `snapshot.look`; `git` is what the repository's own configuration would run."""
    told: dict[str, list[str]] = {kind: [] for kind in _TITLES}
    told["git"] += git
    for name in files:
        if name in (*SETTINGS, ".mcp.json"):
            _tell_settings(name, project / name, told)
        elif name.endswith(".md") and _kind(name):
            _tell_definition(name, project / name, told)
        elif name != GIT:
            told["scripts"].append(name)
    return tuple(_part(_TITLES[kind], lines) for kind, lines in told.items() if lines)


def _part(title: str, lines: list[str]) -> Part:
    unique = list(dict.fromkeys(lines))
    shown = [line if len(line) <= MOST_LINE else f"{line[:MOST_LINE]} [… cut here …]" for line in unique[:MOST_LINES]]
    hidden = max(0, len(unique) - MOST_LINES) + sum(len(line) > MOST_LINE for line in unique[:MOST_LINES])
    return Part(title, tuple(shown), hidden)


def _tell_settings(file: str, path: Path, told: dict[str, list[str]]) -> None:
    for key, value in _read_settings(file, path, told["others"]).items():
        if key in _LINES:
            kind, lines = _LINES[key]
            told[kind] += lines(value)
        elif key == "permissions":
            _tell_permissions(value, told)
        elif value and key not in HARMLESS:
            told["others"].append(f"{key}: {_compact(value)} ({file})")


def _read_settings(file: str, path: Path, problems: list[str]) -> dict[str, Any]:
    try:
        return read_json(path, problems) or {}
    except SettingsError as error:
        problems.append(f"{file} cannot be read, and is not used as it is: {error}")
        return {}


def _variables(value: Any) -> Iterator[str]:
    for name, one in as_object(value).items():
        yield f"{name} = {shown_value(name, one)}"


def _plugins(value: Any) -> Iterator[str]:
    for name, on in as_object(value).items():
        yield f"{name}: {'on' if on else 'off'}"


def _tell_permissions(value: Any, told: dict[str, list[str]]) -> None:
    for key, said in as_object(value).items():
        if key in ("allow", "ask", "deny"):
            told["rules"] += [f"{key} {rule}" for rule in as_list(said)]
        elif key == "additionalDirectories":
            told["directories"] += map(str, as_list(said))
        elif key == "defaultMode":
            told["modes"].append(f"{said}: the mode that sessions start in")
        else:
            told["others"].append(f"permissions.{key}: {_compact(said)}")


def _hooks(value: Any, who: str = "") -> Iterator[str]:
    """Shows whatever is configured; what is unreadable as a hook is shown verbatim."""
    for event, entries in as_object(value).items():
        told = 0
        for row in map(as_object, as_list(entries)):
            at = f"{event} ({row['matcher']})" if row.get("matcher") else event
            for hook in map(as_object, as_list(row.get("hooks"))):
                if line := command_line(hook) or _asked(hook):
                    told += 1
                    yield f"{who}{at}: {line}"
        if not told and entries:
            yield f"{who}{event}: {_compact(entries)}"


def _asked(hook: dict[str, Any]) -> str:
    """A hook that asks a model."""
    prompt = hook.get("prompt")
    return f"a model is asked: {prompt}" if isinstance(prompt, str) and prompt else ""


def _servers(value: Any, who: str = "") -> Iterator[str]:
    found = as_object(value)
    for name, server in (found | as_object(found.get("mcpServers"))).items():
        fields = as_object(server)
        line = command_line(fields)
        env = [f"{key}={shown_value(key, one)}" for key, one in as_object(fields.get("env")).items()]
        if line:
            yield f"{who}{name}: {' '.join([*env, line])}"
        elif name != "mcpServers":
            yield f"{who}{name}: {_compact(server)}"


def _status(value: Any) -> Iterator[str]:
    yield command_line(as_object(value)) or _compact(value)


def _plain(value: Any) -> Iterator[str]:
    yield f"{value}"


_LINES: Mapping[str, tuple[str, Callable[[Any], Iterator[str]]]] = {
    "hooks": ("hooks", _hooks),
    "mcp": ("servers", _servers),
    "mcpServers": ("servers", _servers),
    "lsp": ("languages", _servers),
    "statusLine": ("status", _status),
    "env": ("variables", _variables),
    "enabledPlugins": ("plugins", _plugins),
    "apiKeyHelper": ("keys", _plain),
}

# --- definitions


def _kind(name: str) -> str:
    """`agents`, `commands` or `skills`, from the folder below `.claude` that contains the file."""
    parts = name.split("/")
    places = (n for n, part in enumerate(parts[:-1]) if part in SKILL_HOMES)
    return next((parts[n + 1] for n in places if parts[n + 1] in ("agents", "commands", "skills")), "")


def _tell_definition(name: str, path: Path, told: dict[str, list[str]]) -> None:
    document = _read(path)
    kind = _kind(name)
    if kind == "agents":
        told["agents"].append(name)
        _tell_agent(f"agent {path.stem}", document, told)
    else:
        told["skills"].append(name)
        _tell_skill(f"/{path.parent.name if kind == 'skills' else path.stem}", document, told)


def _tell_agent(who: str, document: Document, told: dict[str, list[str]]) -> None:
    for hooks in _fields(document, "hooks"):
        told["hooks"] += _hooks(hooks, f"{who}, ")
    for servers in _fields(document, "mcpservers"):
        told["servers"] += _inline(servers, f"{who}, ")
    told["modes"] += [f"{mode}: {who}" for mode in _fields(document, "permissionmode") if mode]


def _tell_skill(who: str, document: Document, told: dict[str, list[str]]) -> None:
    told["commands"] += [f"{who}: {one.command}" for one in pieces(document.body) if isinstance(one, Shell)]
    rules = [rule for allowed in _fields(document, "allowedtools") for rule in as_list(allowed) or [allowed] if rule]
    told["rules"] += [f"allow {rule} (while {who} is at work)" for rule in rules]


def _inline(value: Any, who: str) -> Iterator[str]:
    for entry in as_list(value) or [value]:
        yield from _servers(entry, who)


def commands_of_definition(text: str) -> tuple[str, ...]:
    """The commands started by the hooks and servers in an agent's file."""
    document = _split(text)
    return tuple(started([*_fields(document, "hooks"), *_fields(document, "mcpservers")]))


def _fields(document: Document, name: str) -> list[Any]:
    """Fields by name in any spelling; all of them if it occurs twice."""
    return [v for key, v in document.fields.items() if key.replace("-", "").replace("_", "").lower() == name]


def _read(path: Path) -> Document:
    try:
        return _split((read_plain(path, MOST_JSON) or b"").decode(errors="replace"))
    except SettingsError:
        return Document({}, "")


def _split(text: str) -> Document:
    try:
        return split(text, os.devnull)
    except SettingsError:  # such a file is not loaded either, except for its body
        return Document({}, text)


def _compact(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()
