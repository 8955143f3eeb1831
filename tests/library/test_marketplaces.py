"""Plugins that another program has installed, and its marketplaces."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from teamwright.core.errors import SettingsError
from teamwright.library.claude.marketplaces import find_brought, read_marketplace
from teamwright.library.plugins import find_plugins, read_plugin

NAME = "kit@corner"


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def marketplace(root: Path, *plugins: dict[str, Any], **more: Any) -> Path:
    write(root / ".claude-plugin/marketplace.json", {"name": "corner", "plugins": plugins, **more})
    return root


def plugin(root: Path) -> Path:
    write(root / "commands/serve.md", "Serve.")
    return root


def find(home: Path, *, own: bool = True, extra: Mapping[str, Any] | None = None) -> tuple[list[Path], list[str]]:
    found, missing = find_brought(home, {NAME: True, "off@corner": False}, own={NAME} if own else (), extra=extra or {})
    return [one.root for one in found], [one.why for one in missing]


@pytest.mark.spec("BR2")
@pytest.mark.parametrize("version", [1, 2])
def test_an_installed_plugin_lies_where_the_list_says(tmp_path: Path, version: int) -> None:
    root = plugin(tmp_path / "somewhere/1.0")
    entry = {"installPath": str(root), "version": "1.0"}
    listed = {NAME: entry if version == 1 else [{"scope": "user", **entry}]}
    write(tmp_path / ".claude/plugins/installed_plugins.json", {"version": version, "plugins": listed})
    assert find(tmp_path) == ([root], []) and find(tmp_path, own=False) == ([root], [])
    assert read_plugin(root, "kit").name == "kit"  # not `1.0`


@pytest.mark.spec("BR2")
def test_a_cached_plugin_and_one_of_a_known_marketplace(tmp_path: Path) -> None:
    clone = marketplace(tmp_path / ".claude/plugins/marketplaces/corner", {"name": "kit", "source": "./kit"})
    inside = plugin(clone / "kit")
    assert find(tmp_path) == ([inside], [])
    assert find(tmp_path, own=False)[0] == []  # a project cannot install it
    cached = plugin(tmp_path / ".claude/plugins/cache/corner/kit/2.0")
    assert find(tmp_path) == ([cached], [])


@pytest.mark.spec("BR2")
def test_a_marketplace_that_the_settings_name(tmp_path: Path) -> None:
    market = marketplace(tmp_path / "market", {"name": "kit", "source": "kit"}, metadata={"pluginRoot": "./all"})
    inside = plugin(market / "all/kit")
    extra = {"corner": {"source": {"source": "directory", "path": str(market)}}}
    assert find(tmp_path, extra=extra) == ([inside], [])
    assert find(tmp_path, extra={"corner": 7})[0] == []


@pytest.mark.spec("BR2")
def test_what_is_not_on_this_disk_is_named_with_what_to_do(tmp_path: Path) -> None:
    assert "plugins install PATH_OR_GIT_ADDRESS" in find(tmp_path)[1][0]
    away = {"name": "kit", "source": {"source": "github", "repo": "corner/kit"}}
    marketplace(tmp_path / ".claude/plugins/marketplaces/corner", away)
    assert "plugins install https://github.com/corner/kit.git`" in find(tmp_path)[1][0]


@pytest.mark.parametrize("name", ["kit@../../../evil", "../kit@corner", "kit@", "@corner", "k\0t@corner"])
def test_a_name_is_no_way_out(tmp_path: Path, name: str) -> None:
    plugin(tmp_path / "evil/kit/1")
    plugin(tmp_path / ".claude/plugins/cache/kit/1")
    found, missing = find_brought(tmp_path, {name: True}, own={name}, extra={})
    assert found == [] and len(missing) == 1


def test_lists_that_cannot_be_read_name_nothing(tmp_path: Path) -> None:
    write(tmp_path / ".claude/plugins/installed_plugins.json", "{")
    write(tmp_path / ".claude/plugins/known_marketplaces.json", [])
    assert find(tmp_path)[0] == []
    write(tmp_path / ".claude/plugins/installed_plugins.json", {"plugins": {NAME: [{"installPath": "kit"}, 7, None]}})
    assert find(tmp_path)[0] == []


def test_a_marketplace_holds_what_lies_in_it(tmp_path: Path) -> None:
    plugin(tmp_path / "outside")
    root = marketplace(tmp_path / "m", {"name": "a", "source": "../outside"}, {"name": "b"}, {"source": "./c"}, {})
    found = read_marketplace(root)
    assert found is not None and {name: one.folder for name, one in found.plugins.items()} == {"a": None, "b": None}
    assert read_marketplace(tmp_path) is None
    write(root / ".claude-plugin/marketplace.json", {"plugins": {}})
    with pytest.raises(SettingsError, match="must be a list"):
        read_marketplace(root)


@pytest.mark.spec("BR2")
def test_one_installed_here_comes_before_one_brought(tmp_path: Path) -> None:
    theirs = plugin(tmp_path / ".claude/plugins/cache/corner/kit/1.0")
    state, settings = tmp_path / "state", {NAME: True}
    brought, missing = find_brought(tmp_path, settings, own=(), extra={})
    (one,) = find_plugins(state, settings=settings, brought=brought, missing=missing).plugins
    assert (one.name, one.origin, one.root) == ("kit", NAME, theirs)
    ours = plugin(state / "plugins/kit")
    write(state / "plugins/plugins.json", {"version": 1, "plugins": {"kit": {"enabled": True}}})
    (one,) = find_plugins(state, settings=settings, brought=brought, missing=missing).plugins
    assert (one.root, one.origin) == (ours, "")
