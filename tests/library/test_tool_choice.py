"""What `tools` and `disallowedTools` together allow, as a table."""

import pytest

from teamwright.core.data.definition import BUILT_IN, AgentDefinition
from teamwright.library.agents.tool_choice import ToolChoice, tool_names

ALL = ("Read", "Bash", "Edit", "Write", "Agent", "mcp__near__shout", "mcp__far__away")
F = frozenset


def choice(tools: tuple[str, ...] | None, denied: tuple[str, ...] = ()) -> ToolChoice:
    return tool_names(AgentDefinition(name="x", description="d", tools=tools, disallowed_tools=denied), ALL)


@pytest.mark.spec("D6")
@pytest.mark.parametrize(
    ("tools", "denied", "expected"),
    [
        (None, (), ToolChoice()),
        (("*",), (), ToolChoice()),
        ((), (), ToolChoice(F())),
        (("Read", "Bash"), (), ToolChoice(F({"Read", "Bash"}))),
        (("read", "BASH"), (), ToolChoice(F({"Read", "Bash"}))),
        (("Read", "Edit"), ("Edit",), ToolChoice(F({"Read", "Edit"}), denied=F({"Edit"}))),
        (None, ("bash",), ToolChoice(denied=F({"Bash"}))),
        (("Bash(git *)", "Bash(ls)"), (), ToolChoice(F({"Bash"}), {"Bash": ("git *", "ls")})),
        (("Bash(git *)", "Bash"), (), ToolChoice(F({"Bash"}))),
        (("Bash(*)",), (), ToolChoice(F({"Bash"}))),
        (("*", "bash(git *)"), (), ToolChoice(None, {"Bash": ("git *",)})),
        (("Read(src/**)",), (), ToolChoice(F({"Read"}), {"Read": ("src/**",)})),
        (("Agent(x, y)", "Agent(z)"), (), ToolChoice(F({"Agent"}), may_start=("x", "y", "z"))),
        (("*", "Agent(x)"), (), ToolChoice(may_start=("x",))),
        (("Agent", "Agent(x)"), (), ToolChoice(F({"Agent"}))),
        (("Agent(*)",), (), ToolChoice(F({"Agent"}))),
        (("Task(x)",), (), ToolChoice(F({"Agent"}), may_start=("x",))),
        (None, ("Bash(rm *)", "Agent(x, y)"), ToolChoice(denied_uses=("Bash(rm *)", "Agent(x)", "Agent(y)"))),
        (("Bash(git", "Read"), (), ToolChoice(F({"Read"}))),
        (None, ("bash(git",), ToolChoice(denied=F({"Bash"}))),
        (None, ("Bash()",), ToolChoice(denied=F({"Bash"}))),
        (None, ("*",), ToolChoice(F())),
    ],
)
def test_choice(tools: tuple[str, ...] | None, denied: tuple[str, ...], expected: ToolChoice) -> None:
    assert choice(tools, denied) == expected


@pytest.mark.spec("D6")
@pytest.mark.parametrize(
    ("tools", "denied", "seen"),
    [
        (None, (), ALL),
        (("Read", "Edit"), ("Edit",), ("Read",)),
        (("Edit",), (), ("Edit",)),
        (("mcp__near",), (), ("mcp__near__shout",)),
        (("mcp__*__shout", "Read"), (), ("Read", "mcp__near__shout")),
        (("*",), ("mcp__near", "mcp__far__*"), ("Read", "Bash", "Edit", "Write", "Agent")),
        ((), (), ()),
        (("Bash(git *)",), ("Bash(git push *)",), ("Bash",)),
    ],
)
def test_which_tools_are_seen(tools: tuple[str, ...] | None, denied: tuple[str, ...], seen: tuple[str, ...]) -> None:
    found = choice(tools, denied)
    assert tuple(tool for tool in ALL if found.sees(tool)) == seen


@pytest.mark.spec("D4")
def test_of_the_built_in_kinds_only_general_purpose_changes_files_or_starts_agents() -> None:
    for definition in BUILT_IN:
        found = tool_names(definition, ALL)
        assert any(found.sees(t) for t in ("Edit", "Write", "NotebookEdit", "Agent")) == (
            definition.name == "general-purpose"
        )
