"""Plugins of a session: installed ones, those of another program on this disk, and those of `--plugin-dir`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from teamwright.app.options import Options
from teamwright.app.workspace import Workspace

if TYPE_CHECKING:
    from teamwright.library.plugins import Plugins

_OWN = ("user", "flag", "managed")  # sources in which the person speaks


def find_all_plugins(options: Options, workspace: Workspace) -> "Plugins | None":
    """None if nobody has installed or named a plugin."""
    said: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    own: set[str] = set()
    persons: set[str] = set()
    for layer in workspace.settings.layers:
        named = layer.values.get("enabledPlugins", {})
        said |= named
        extra |= layer.values.get("extraKnownMarketplaces", {})
        own |= {name for name in named if layer.source in _OWN}
        persons |= {name.partition("@")[0] for name, on in named.items() if on and layer.source != "project"}
    wanted = {name: on for name, on in said.items() if on and "@" in name}
    if not options.plugin_dirs and not wanted and not (workspace.home.root / "plugins" / "plugins.json").exists():
        return None
    from teamwright.library.claude.marketplaces import find_brought  # noqa: PLC0415
    from teamwright.library.plugins import find_plugins  # noqa: PLC0415

    brought, missing = find_brought(workspace.user, wanted, own=own, extra=extra) if wanted else ([], [])
    flags = [workspace.cwd / Path(folder).expanduser() for folder in options.plugin_dirs]
    found = find_plugins(workspace.home.root, settings=said, flags=flags, brought=brought, missing=missing)
    turned_on = {name.partition("@")[0] for name, on in said.items() if on} - persons
    return replace(found, of_project=found.only_by_settings(turned_on)) if turned_on else found
