"""`teamwright plugins`: install from a path or a git address, list, switch, remove."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from program import Program


class House:
    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.kit = self.root / "kit"
        (self.root / "home").mkdir()
        self.write("plugin.json", '{"name": "kit", "version": "1"}')
        self.write("skills/soup/SKILL.md", "---\ndescription: soup\n---\nBoil.\n")
        self.write("commands/serve.md", "Serve.\n")
        self.write("agents/cook.md", "---\ndescription: cooks\n---\nYou cook.\n")
        self.write("hooks/hooks.json", '{"hooks": {"Stop": []}}')

    def write(self, file: str, text: str) -> None:
        path = self.kit / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, *args: str, status: int = 0, command: str = "plugins") -> tuple[str, str]:
        env = {"HOME": str(self.root / "home"), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
        argv = [sys.executable, "-m", "teamwright", command, *args]
        ran = subprocess.run(argv, cwd=self.root, env=env, capture_output=True, timeout=60, check=False, text=True)
        assert ran.returncode == status, ran.stdout + ran.stderr
        return ran.stdout, ran.stderr

    def listed(self) -> list[dict[str, object]]:
        return json.loads(self.run("--json")[0])


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_install_list_switch_remove(house: House) -> None:
    assert "No plugins" in house.run()[0]
    out, _ = house.run("install", "kit")
    assert "agents: cook; skills: soup; commands: serve; hooks: Stop" in out
    (row,) = house.listed()
    assert row["name"] == "kit" and row["enabled"] is True and row["origin"] == str(house.kit)
    assert row["skills"] == ["soup"] and row["servers"] == []
    assert "kit:cook" in house.run(command="agents")[0]
    house.run("disable", "kit")
    assert "kit:cook" not in house.run(command="agents")[0]
    assert house.run()[0].splitlines()[1].split()[:2] == ["kit", "off"]
    house.run("enable", "kit")
    assert "installed already" in house.run("install", str(house.kit), status=2)[1]
    house.run("remove", "kit")
    assert house.listed() == [] and "no plugin 'kit'" in house.run("remove", "kit", status=2)[1]
    for wrong in (("install",), ("list", "x"), ("install", "no-such"), ("install", "-x"), ("enable", "../kit")):
        house.run(*wrong, status=2)


def test_servers_of_a_plugin_are_listed_and_tried(program: Program, tmp_path: Path) -> None:
    kit, small = tmp_path / "kit", Path(__file__).parents[1] / "servers" / "small_mcp.py"
    kit.mkdir()
    near = {"command": sys.executable, "args": [str(small), str(tmp_path / "near.log")]}
    (kit / ".mcp.json").write_text(json.dumps({"mcpServers": {"near": near, "dies": {"command": "false"}}}))
    assert program.run("plugins", "install", str(kit)).rc == 0
    rows = json.loads(program.run("mcp", "list", "--json").out)
    assert {(row["name"], row["source"]) for row in rows} == {("near", "plugin"), ("dies", "plugin")}
    tried = program.run("mcp", "test", "near")
    assert tried.rc == 0 and "mcp__near__echo" in tried.out
    assert "failed" in program.run("mcp", "test", "dies").out
    kept = program.run("mcp", "remove", "near")
    words = (
        f"it comes from the plugin kit ({program.state}/plugins/kit/.mcp.json), which `teamwright plugins disable kit`"
    )
    assert kept.rc == 2 and words in kept.err
    assert program.run("plugins", "disable", "kit").rc == 0
    assert json.loads(program.run("mcp", "list", "--json").out) == []


def test_what_is_wrong_is_not_installed(house: House) -> None:
    house.write("plugin.json", '{"name": "kit", "agents": "../evil\\u001b[2J"}')
    _, err = house.run("install", "kit", status=2)
    assert "not installed" in err and "refused" in err and "\x1b" not in err and house.listed() == []


def test_from_a_git_address(house: House) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(house.kit)]
    subprocess.run([*git, "init", "-q"], check=True, timeout=20)
    subprocess.run([*git, "add", "."], check=True, timeout=20)
    subprocess.run([*git, "commit", "-qm", "all"], check=True, timeout=20)
    house.run("install", f"file://{house.kit}")
    (row,) = house.listed()
    assert row["origin"] == f"file://{house.kit}" and row["agents"] == ["cook"]
    assert not (house.root / "home/.teamwright/plugins/kit/.git").exists()
    house.run("remove", "kit")
    _, err = house.run("install", f"file://user:hunter2@{house.root}/none", status=2)
    assert "could not be fetched" in err and "hunter2" not in err


def test_a_damaged_plugin_is_listed_as_such(house: House) -> None:
    house.run("install", "kit")
    (house.root / "home/.teamwright/plugins/kit/plugin.json").write_text("{")
    out, err = house.run()
    assert "broken" in out and "plugin.json" in err


@pytest.mark.spec("BR2")
def test_a_marketplace_says_what_it_has_and_how_to_install_one(program: Program, tmp_path: Path) -> None:
    market = tmp_path / "market"
    (market / ".claude-plugin").mkdir(parents=True)
    shutil.copytree(Path(__file__).parents[1] / "fixtures/plugin", market / "house")
    plugins = [
        {"name": "house-rules", "source": "./house", "description": "how we work"},
        {"name": "far", "source": {"source": "github", "repo": "x/far"}},
    ]
    (market / ".claude-plugin/marketplace.json").write_text(json.dumps({"name": "corner", "plugins": plugins}))
    told = program.run("plugins", "install", str(market))
    assert told.rc == 2 and "house-rules  how we work" in told.err
    assert f"`teamwright plugins install '{market}#house-rules'`" in told.err
    far = program.run("plugins", "install", f"{market}#far")
    assert far.rc == 2 and "plugins install https://github.com/x/far.git" in far.err
    assert program.run("plugins", "install", f"{market}#none").rc == 2
    assert program.run("plugins", "install", f"{market}#house-rules").rc == 0
    (row,) = json.loads(program.run("plugins", "--json").out)
    assert row["name"] == "house-rules" and row["origin"] == str(market)


@pytest.mark.spec("BR2")
def test_plugins_of_another_program_are_used_as_they_lie(program: Program) -> None:
    folder = program.home / ".claude/plugins/cache/corner/house-rules/1.0"
    shutil.copytree(Path(__file__).parents[1] / "fixtures/plugin", folder)
    on = {"house-rules@corner": True, "gone@corner": True}
    (program.home / ".claude/settings.json").write_text(json.dumps({"enabledPlugins": on}))
    listed = program.run("plugins")
    assert "house-rules@corner" in listed.out and "plugin `gone@corner` is not used" in listed.err
    ran = program.prompt(["hi"])
    init = next(line for line in ran.lines if line.get("subtype") == "init")
    assert "house-rules:style-checker" in init["agents"] and "house-rules:house" in init["slash_commands"]
    assert "not used here: " in ran.err and "plugin `gone@corner`" in ran.err
