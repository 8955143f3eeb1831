"""Plugins: what a directory brings, what is refused, and the list of installed ones."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from teamwright.core.errors import SettingsError, StoreError, UsageError
from teamwright.library import plugin_list
from teamwright.library.agents.book import load_definitions
from teamwright.library.agents.places import find_places
from teamwright.library.plugins import find_plugins, read_plugin


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """A plugin as people publish them."""
    root = tmp_path.resolve() / "from" / "kit"
    servers = {"own": {"command": "${CLAUDE_PLUGIN_ROOT}/run"}}
    manifest = {"name": "kit", "version": "1.2", "author": {"name": "x"}, "mcpServers": servers}
    write(root / ".claude-plugin/plugin.json", manifest)
    write(root / "agents/cook.md", "---\nname: cook\ndescription: cooks\n---\nYou cook.\n")
    write(root / "skills/soup/SKILL.md", "---\ndescription: soup\n---\nBoil.\n")
    write(root / "commands/serve.md", "Serve $ARGUMENTS.\n")
    hook = {"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/stop.sh"}
    write(root / "hooks/hooks.json", {"hooks": {"Stop": [{"hooks": [hook]}]}})
    write(root / ".mcp.json", {"mcpServers": {"near": {"command": "x"}}})
    write(root / "stop.sh", "#!/bin/sh\n").chmod(0o755)
    write(root / ".git/config", "secret")
    return root


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "state"


@pytest.mark.spec("D10")
def test_what_a_plugin_brings(kit: Path) -> None:
    plugin = read_plugin(kit)
    assert (plugin.name, plugin.version, plugin.root, plugin.problems) == ("kit", "1.2", kit, ())
    assert (plugin.agents, plugin.skills, plugin.commands) == (
        (kit / "agents",),
        (kit / "skills",),
        (kit / "commands",),
    )
    ((_, events),) = plugin.hooks
    assert events["Stop"][0]["hooks"][0]["command"] == f"{kit}/stop.sh"
    assert dict(pair for _, servers in plugin.servers for pair in servers.items()) == {
        "own": {"command": f"{kit}/run"}, "near": {"command": "x"},
    }  # fmt: skip


def test_a_plugin_without_a_manifest_has_its_directorys_name(kit: Path) -> None:
    (kit / ".claude-plugin/plugin.json").unlink()
    assert read_plugin(kit).name == "kit" and not read_plugin(kit).servers[1:]
    write(kit / "plugin.json", {"name": "other", "commands": ["./more", "agents"], "hooks": "./hooks/hooks.json"})
    write(kit / "more/x.md", "x")
    plugin = read_plugin(kit)
    assert plugin.name == "other" and plugin.commands == (kit / "commands", kit / "more", kit / "agents")
    assert len(plugin.hooks) == 1


@pytest.mark.parametrize("path", ["../evil", "./agents/../../evil", "/etc", "~/x", "out", 7, ""])
@pytest.mark.parametrize("key", ["agents", "skills", "commands", "hooks", "mcpServers"])
def test_paths_that_lead_out_are_refused(kit: Path, key: str, path: Any) -> None:
    write(kit.parent / "evil/x.md", "---\ndescription: evil\n---\n")
    (kit / "out").symlink_to(kit.parent / "evil")
    write(kit / ".claude-plugin/plugin.json", {"name": "kit", key: [path]})
    plugin = read_plugin(kit)
    (problem,) = plugin.problems
    assert key in problem and ("refused" in problem or "must be a path" in problem)
    assert "evil" not in str(plugin.agents + plugin.skills + plugin.commands + plugin.hooks + plugin.servers)


def test_links_that_lead_out_of_the_usual_places(kit: Path) -> None:
    outside = write(kit.parent / "evil.json", {"name": "kit"})
    (kit / ".mcp.json").unlink()
    (kit / ".mcp.json").symlink_to(outside)
    assert "leads out" in "".join(read_plugin(kit).problems) and len(read_plugin(kit).servers) == 1
    (kit / ".claude-plugin/plugin.json").unlink()
    (kit / ".claude-plugin/plugin.json").symlink_to(outside)
    with pytest.raises(SettingsError, match="leads out"):
        read_plugin(kit)


@pytest.mark.parametrize("manifest", ["{", "[]", {"name": "../x"}, {"name": "a:b"}, {"name": 7}, {"name": ""}])
def test_no_plugin_at_all(kit: Path, manifest: Any, tmp_path: Path, state: Path) -> None:
    write(kit / ".claude-plugin/plugin.json", manifest)
    with pytest.raises(SettingsError):
        read_plugin(kit)
    found = find_plugins(state, flags=(kit, tmp_path / "none"))
    assert found.plugins == () and len(found.problems) == 2
    (tmp_path / "empty").mkdir()
    with pytest.raises(SettingsError, match="not a plugin"):
        read_plugin(tmp_path / "empty")


def test_installed_switched_and_removed(kit: Path, state: Path) -> None:
    folder = plugin_list.add(state, "kit", kit, "from a path")
    assert folder == state / "plugins/kit" and not (folder / ".git").exists()
    assert (folder / "stop.sh").stat().st_mode & 0o777 == 0o700 and folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "agents/cook.md").stat().st_mode & 0o777 == 0o600
    (plugin,) = find_plugins(state).plugins
    assert plugin.root == folder
    with pytest.raises(UsageError, match="installed already, from from a path"):
        plugin_list.add(state, "kit", kit, "again")
    plugin_list.switch(state, "kit", on=False)
    assert find_plugins(state).plugins == ()
    assert len(find_plugins(state, settings={"kit@market": True}).plugins) == 1
    plugin_list.switch(state, "kit", on=True)
    assert find_plugins(state, settings={"kit": False, "x": 7}).plugins == ()
    plugin_list.remove(state, "kit")
    assert not folder.exists() and plugin_list.read_list(state) == {}
    for change in (lambda: plugin_list.remove(state, "kit"), lambda: plugin_list.switch(state, "../x", on=True)):
        with pytest.raises(UsageError, match="no plugin"):
            change()


@pytest.mark.parametrize("make", ["link", "absolute", "fifo"])
def test_what_is_not_copied(kit: Path, state: Path, make: str) -> None:
    write(kit.parent / "secret", "s")
    if make == "fifo":
        os.mkfifo(kit / "x")
    else:
        (kit / "x").symlink_to("../secret" if make == "link" else kit / "stop.sh")
    with pytest.raises(UsageError, match="not installed"):
        plugin_list.add(state, "kit", kit, "here")
    assert plugin_list.read_list(state) == {} and list((state / "plugins").iterdir()) == []


def test_links_inside_stay_links(kit: Path, state: Path) -> None:
    (kit / "skills/again").symlink_to("soup")
    folder = plugin_list.add(state, "kit", kit, "here")
    assert (folder / "skills/again").readlink() == Path("soup")


def test_a_damaged_list_is_told_and_never_overwritten(kit: Path, state: Path) -> None:
    file = write(state / "plugins/plugins.json", '{"plugins": {"kit": {"enabled": "perhaps"}}}')
    assert "plugins.json" in find_plugins(state).problems[0]
    with pytest.raises(StoreError, match="repair or remove"):
        plugin_list.add(state, "kit", kit, "here")
    assert "perhaps" in file.read_text()


@pytest.mark.spec("D3")
def test_agents_of_a_plugin_have_its_name(kit: Path, state: Path, tmp_path: Path) -> None:
    found = find_plugins(state, flags=[kit])
    places = find_places(
        cwd=tmp_path, project=tmp_path, home=tmp_path, state=state, trusted=False, plugins=found.agent_places
    )
    definition = load_definitions(places).by_name["kit:cook"]
    assert definition.source == "plugin" and definition.prompt == "You cook."
