"""A setup that comes from another program: what runs, and the few lines that are printed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from program import Program, Ran

BAKERY = Path(__file__).parents[1] / "fixtures" / "bakery"


@pytest.fixture
def bakery(program: Program) -> Program:
    for name, place in (("home", program.home), ("project", program.project)):
        shutil.copytree(BAKERY / name, place, dirs_exist_ok=True)
    return program


def init(ran: Ran) -> dict[str, Any]:
    return next(line for line in ran.lines if line.get("subtype") == "init")


@pytest.mark.spec("BR10", "BR1", "BR2", "BR3", "BR4")
def test_a_run_prints_three_lines_and_the_next_one_only_what_is_wrong(bakery: Program) -> None:
    ran = bakery.prompt(["hi"], "--trust")
    lines = ran.err.replace(str(bakery.project), "PROJECT").splitlines()
    missing, unused, clock = lines
    assert clock.startswith("teamwright: MCP server clock is not connected: there is no program `no-such-clock`")
    assert missing == (
        "teamwright: PROJECT/.mcp.json: MCP server orders: needs ORDERS_TOKEN, a variable that is not set; set it, or "
        "write ${ORDERS_TOKEN:-default}"
    )
    assert unused == (
        "teamwright: not used here: field `subtask` in 4 agent files; field `capabilities` in 1 agent file; "
        "field `subtask` in 1 command; field `related` in 1 skill; plugin `icing@corner`; hook events "
        "`InstructionsLoaded`, `Setup`; settings `feedbackSurveyRate`, `cleanupPeriodDays`, `spinnerVerbs`, "
        "`extraKnownMarketplaces`. `teamwright doctor` lists them."
    )
    told = init(ran)
    assert {"oven-keeper", "taster", "miller", "night-shift"} <= set(told["agents"])
    assert {"recipe", "pricing"} <= set(told["skills"]) and {"bake", "shop:close", "sugar:sprinkle"} <= set(
        told["slash_commands"]
    )
    assert {server["name"] for server in told["mcp_servers"]} == {"orders", "clock"}
    prompts = "".join(p.read_text() for p in bakery.state.glob("projects/*/*/prompts/*"))
    for words in ("whole cents", "hold no logic", "say bread", "time of day", "in the cellar", "You are Teamwright"):
        assert words.lower() in prompts.lower(), words
    again = bakery.prompt(["hi"], "--trust").err.splitlines()
    assert len(again) == 2 and "ORDERS_TOKEN" in again[0] and again[1] == clock
    (bakery.project / ".claude/agents/new.md").write_text("---\ndescription: d\nsubtask: yes\n---\nx")
    assert "in 5 agent files" in bakery.prompt(["hi"], "--trust").err


@pytest.mark.spec("BR10")
def test_the_doctor_lists_everything_that_is_not_used(bakery: Program) -> None:
    assert bakery.run("trust").rc == 0
    env = {"CLAUDE_CODE_USE_TELEPATHY": "1", "CLAUDE_CODE_FORK_SUBAGENT": "1"}
    found = json.loads(bakery.run("doctor", "--json", "--model", f"script/{bakery.root}/none.json", env=env).out)
    unused = [one["words"] for one in found if one["about"] == "not used"]
    for words in (
        "miller.md, line 7: field `subtask` is not used",
        "setting `cleanupPeriodDays` is not used: `teamwright sessions delete --older-than DAYS`",
        "setting `extraKnownMarketplaces` is not used: a project cannot add one",
        "hook event `InstructionsLoaded` is not used",
        "plugin `icing@corner` is not used: it is not on this disk",
        "the variable CLAUDE_CODE_USE_TELEPATHY has no effect here",
    ):
        assert any(words in line for line in unused), words
    assert not any("MAX_THINKING" in line or "FORK_SUBAGENT" in line for line in unused)


@pytest.mark.spec("BR5", "BR10")
def test_what_is_mapped_has_its_effect(bakery: Program) -> None:
    shown = json.loads(bakery.run("config", "--trust", "--json").out)
    values = {row["key"]: row["value"] for row in shown["settings"]}
    assert values["env.MAX_THINKING_TOKENS"] == "8000"
    off = bakery.run("-p", "x", "--trust", "--dangerously-skip-permissions", script=["no"])
    assert off.rc == 2 and "turned off by permissions.disableBypassPermissionsMode in" in off.err
    servers = {row["name"]: row for row in json.loads(bakery.run("mcp", "list", "--trust", "--json").out)}
    assert servers["orders"]["type"] == "http" and servers["scales"]["error"] == "turned off"
    assert servers["clock"]["file"] == str(bakery.home / ".claude.json")


@pytest.mark.spec("BR10")
def test_nothing_of_the_other_program_is_written(bakery: Program) -> None:
    def files() -> dict[Path, bytes]:
        kept = [bakery.home / ".claude.json", *(bakery.home / ".claude").rglob("*")]
        return {path: path.read_bytes() for path in kept if path.is_file()}

    before = files()
    bakery.prompt(["hi"], "--trust")
    bakery.run("doctor", "--model", f"script/{bakery.root}/none.json")
    assert files() == before
