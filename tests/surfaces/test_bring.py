"""Setups as people have them, in the formats that they use, work unchanged: `tests/fixtures`."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from program import Program, Ran, bash, tool

FIXTURES = Path(__file__).parents[1] / "fixtures"
SMALL = Path(__file__).parents[1] / "servers" / "small_mcp.py"


@pytest.fixture
def furnished(program: Program) -> Program:
    """A home and a project with somebody's existing setup."""
    shutil.copytree(FIXTURES / "home", program.home, dirs_exist_ok=True)
    shutil.copytree(FIXTURES / "shop", program.project, dirs_exist_ok=True)
    (program.project / "tools").mkdir()
    shutil.copy(SMALL, program.project / "tools/notes_server.py")
    (program.root / "shared").mkdir()
    return program


def first(ran: Ran, subtype: str) -> dict[str, Any]:
    return next(line for line in ran.lines if line.get("subtype") == subtype)


def conversation(program: Program) -> str:
    return program.transcript().read_text()


@pytest.mark.spec("D1", "D3", "S1", "D8")
def test_everything_is_found_and_one_line_says_what_is_not_used(furnished: Program) -> None:
    ran = furnished.prompt(["hi"], "--trust")
    (line,) = ran.err.splitlines()
    assert ran.rc == 0 and line.startswith("teamwright: not used here: settings `feedbackSurveyState`, ")
    assert "`cleanupPeriodDays`" in line and line.endswith("`teamwright doctor` lists them.")
    init = first(ran, "init")
    assert {"code-reviewer", "deployer", "translator"} <= set(init["agents"])
    assert {"release-notes"} <= set(init["skills"]) and "standup" not in init["skills"]
    assert {"review", "db:migrate", "tidy", "standup", "release-notes"} <= set(init["slash_commands"])
    assert init["mcp_servers"] == [{"name": "notes", "status": "connected"}] and "mcp__notes__echo" in init["tools"]
    assert init["permissionMode"] == "acceptEdits"
    prompts = "".join(p.read_text() for p in furnished.state.glob("projects/*/*/prompts/*"))
    for words in ("whole cents", "port 5544", "short sentences", "Never touch files"):  # imports, local, user, project
        assert words in prompts
    assert "The build is green." in conversation(furnished)
    assert furnished.prompt(["hi"], "--trust").err == ""  # once


@pytest.mark.spec("M3", "D9", "A10")
def test_rules_hooks_and_variables_hold(furnished: Program) -> None:
    (furnished.project / ".env").write_text("the-secret")
    edit = tool("Write", file_path=str(furnished.project / "a.py"), content="x = 1\n")
    read = tool("Read", file_path=str(furnished.project / ".env"))
    script = [
        [bash("touch mine"), bash("echo 'drop table x'"), bash("curl http://x"), bash("echo $SHOP_ENV"), edit],
        [read, tool("mcp__notes__echo", text="hello"), bash("chmod 600 mine")],
        "end",
    ]
    ran = furnished.prompt(script, "--trust")
    mine, drop, curl, echo, write, env, note, other = ran.tool_results
    assert not mine[1] and (furnished.project / "mine").exists()
    assert drop[1] and "We do not drop tables here." in drop[0]
    assert curl[1] and env[1] and other[1] and "the-secret" not in ran.out
    assert echo == ("development", False) and note == ("echo of hello", False)
    assert not write[1] and (furnished.project / "edits.log").read_text() == "edited\n"


@pytest.mark.spec("S1", "S2")
def test_a_command_with_everything_in_it(furnished: Program) -> None:
    furnished.run("-p", "/review main high", "--trust", script=["end"])
    text = conversation(furnished)
    assert "Review the branch main with the priority high. All that was said: main high" in text
    assert "whole cents" in text


@pytest.mark.spec("D2", "D10", "D12", "P7")
def test_agents_as_they_are_written(furnished: Program) -> None:
    rows = {row["name"]: row for row in json.loads(furnished.run("agents", "--trust", "--json").out)}
    assert not any(row.get("error") for row in rows.values()) and rows["deployer"]["source"] == "project"
    call = tool("Agent", description="d", prompt="SCRIPT:child", subagent_type="deployer")
    script = {"main": [call, "end"], "child": [tool("Write", file_path="x", content="x"), "planned"]}
    ran = furnished.prompt(script, "--trust", text="SCRIPT:main")
    assert ran.rc == 0 and not (furnished.project / "x").exists()  # its mode is `plan`
    prompts = [p.read_text() for p in furnished.state.glob("projects/*/*/prompts/*")]
    assert any("You deploy. Staging only." in text and "Group the commits" in text for text in prompts)


def test_without_trust_the_project_has_no_say(furnished: Program) -> None:
    ran = furnished.prompt([bash("touch mine"), "end"])
    init = first(ran, "init")
    assert "deployer" not in init["agents"] and "translator" in init["agents"] and init["mcp_servers"] == []
    assert "review" not in init["slash_commands"] and "tidy" in init["slash_commands"]
    assert "hooks (PreToolUse, PostToolUse, SessionStart and 1 more)" in ran.err and "MCP servers (notes)" in ran.err
    assert not (furnished.project / "mine").exists() and not (furnished.project / "notes.log").exists()


def test_a_plugin_as_it_is(furnished: Program) -> None:
    installed = furnished.run("plugins", "install", str(FIXTURES / "plugin"))
    assert installed.rc == 0, installed.err
    ran = furnished.prompt(["hi"])
    init = first(ran, "init")
    assert "house-rules:style-checker" in init["agents"] and "house-rules:lint" in init["skills"]
    assert "house-rules:house" in init["slash_commands"] and "The house is listening." in conversation(furnished)
