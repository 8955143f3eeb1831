"""Applies the permission updates of an answer: rules and directories, for the session or saved to settings."""

from pathlib import Path
from typing import Literal

import msgspec
from anyio import to_thread
from msgspec import Struct

from teamwright.app import Options, open_workspace
from teamwright.core.data.op import AddDirectories, AddRules, Op, RemoveDirectories, RemoveRules, SetMode
from teamwright.core.permissions.consent import Mode
from teamwright.library.jsonfile import read_json
from teamwright.library.trust.snapshot import agree_to_own
from teamwright.osfiles.private import write_file


class RuleValue(Struct):
    toolName: str
    ruleContent: str | None = None

    @property
    def text(self) -> str:
        return f"{self.toolName}({self.ruleContent})" if self.ruleContent else self.toolName


class PermissionUpdate(Struct):
    type: str
    rules: list[RuleValue] = []
    behavior: Literal["allow", "ask", "deny"] = "allow"
    mode: Mode = "default"
    directories: list[str] = []
    destination: str = "session"

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(rule.text for rule in self.rules)


def ops_of(update: PermissionUpdate) -> list[Op]:
    """Ops that apply the update to this session at once."""
    match update.type:
        case "addRules":
            return [AddRules(update.texts, update.behavior)]
        case "replaceRules":
            return [RemoveRules(None, update.behavior), AddRules(update.texts, update.behavior)]
        case "removeRules":
            return [RemoveRules(update.texts, update.behavior)]
        case "setMode":
            return [SetMode(update.mode)]
        case "addDirectories":
            return [AddDirectories(tuple(update.directories))]
        case "removeDirectories":
            return [RemoveDirectories(tuple(update.directories))]
        case _:
            return []


async def write_down(update: PermissionUpdate, options: Options) -> None:
    """Save the update, if it names a settings file. A mode is never saved: it would hold where nobody was asked."""
    if update.destination != "session" and update.type != "setMode":
        await to_thread.run_sync(_write_down, update, options)


def _write_down(update: PermissionUpdate, options: Options) -> None:
    ground = open_workspace(options)
    place = {
        "localSettings": ground.project / ".teamwright" / "settings.local.json",
        "projectSettings": ground.project / ".teamwright" / "settings.json",
        "userSettings": ground.home.root / "settings.json",
    }.get(update.destination)
    if place is None:
        return
    whole = read_json(place) or {}
    permissions = whole.setdefault("permissions", {})
    key = "additionalDirectories" if update.type.endswith("Directories") else update.behavior
    values = update.directories if key == "additionalDirectories" else list(update.texts)
    before = list[str]() if update.type == "replaceRules" else list(permissions.get(key, []))
    if update.type.startswith("remove"):
        permissions[key] = [value for value in before if value not in values]
    else:
        permissions[key] = list(dict.fromkeys([*before, *values]))
    _replace(place, whole)
    agree_to_own(ground.project, place, ground.changed, state=ground.home.root)


def _replace(place: Path, whole: dict[str, object]) -> None:
    write_file(place, msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n")
