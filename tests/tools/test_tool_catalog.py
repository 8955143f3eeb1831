"""What tools declare, and what a session makes of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from teamwright.core.data.message import ToolSpec
from teamwright.core.errors import UsageError
from teamwright.core.ports import Outcome, said
from teamwright.runtime.tool_traits import ToolTraits, make_catalog, register
from teamwright.tools import define
from teamwright.tools.agents.agent import AgentArgs
from teamwright.tools.catalog import CATALOG, traits_of
from teamwright.tools.define import schema_of
from teamwright.tools.function import own_schemas
from teamwright.tools.pool import needed_by, only_for

OWN = {
    *("Agent", "SendMessage", "ListAgents", "TeamCreate", "TeamDelete", "TaskCreate", "TaskGet", "TaskList"),
    *("TaskUpdate", "TaskOutput", "TaskStop", "Skill", "EnterPlanMode", "ExitPlanMode", "EnterWorktree"),
    *("ExitWorktree", "AskUserQuestion", "CronCreate", "CronDelete", "CronList", "StructuredOutput"),
    *("ToolSearch", "CallTool", "Land"),
}


class Keeper:
    spec = ToolSpec("keeper", "Keeps something.", {"type": "object"}, stores=True)

    async def call(self, args: Any, ctx: Any) -> Outcome:
        return said("kept")


async def unknown(*_: object) -> None:
    return None


class Honest(Keeper):
    traits = ToolTraits(name="keeper", effects="stored", outcome=unknown)


@pytest.mark.spec("M2")
def test_only_tools_that_touch_nothing_of_the_person_need_no_approval() -> None:
    assert {name for name, traits in CATALOG.items() if traits.own} == OWN
    weighty = {name for name, t in CATALOG.items() if t.weighty("discard") or t.weighty("uds:/x")}
    assert weighty == {"ExitWorktree", "SendMessage"} and traits_of("Land").weighty("run")
    assert not any(traits_of("Land").weighty(action) for action in ("ready", "list", "give_up"))
    assert traits_of("ExitWorktree").detail({"action": "remove", "discard_changes": True}) == "discard"
    assert traits_of("SendMessage").detail({"to": "uds:/x"}) == "uds:/x"
    assert not traits_of("SendMessage").weighty(traits_of("SendMessage").detail({"to": "ada"}))


def test_a_tool_that_nobody_knows_is_nothing_special() -> None:
    assert traits_of("mcp__a__b") == ToolTraits(name="mcp__a__b") and not traits_of("mcp__a__b").own


@pytest.mark.spec("A2")
def test_a_tool_that_stores_says_what_became_of_a_call_or_is_refused() -> None:
    assert all(t.outcome is not None for t in CATALOG.values() if t.effects == "stored")
    with pytest.raises(UsageError, match="keeper stores what it does"):
        register(CATALOG, [Keeper()])
    with pytest.raises(UsageError, match="keeper stores what it does"):
        make_catalog([ToolTraits(name="keeper", effects="stored")])
    assert register(CATALOG, [Honest()])["keeper"].outcome is unknown


def test_who_has_which_tools() -> None:
    tasks = {"TaskCreate", "TaskGet", "TaskList", "TaskUpdate"}
    talk = {"SendMessage", "ListAgents"}
    teams = {"TeamCreate", "TeamDelete"}
    assert set(needed_by("coordinator")) == {"Agent", "Read", "TaskOutput", "TaskStop", "Land", *tasks, *talk, *teams}
    assert set(needed_by("teammate")) == {"ExitPlanMode", "Land", *tasks, *talk}
    assert needed_by("memory") == ("Read", "Write", "Edit")
    assert only_for("lead") == {"EnterPlanMode"}
    assert only_for("main") == {"CronCreate", "CronDelete", "CronList", "StructuredOutput", *teams}
    assert only_for("person") == {"AskUserQuestion"}
    assert {name for name, traits in CATALOG.items() if traits.talks} == talk


@pytest.mark.spec("A15")
def test_the_stored_schemas_are_those_of_the_structs() -> None:
    file = Path(define.__file__).with_name("schemas.json")
    assert json.loads(file.read_text()) == own_schemas(), "run scripts/schemas"
    assert schema_of(AgentArgs) == own_schemas()["teamwright.tools.agents.agent.AgentArgs"]
    assert schema_of(AgentArgs) is not schema_of(AgentArgs)  # each caller may change its own
