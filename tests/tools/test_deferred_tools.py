"""ToolSearch and CallTool alone: what is found, and which call is meant."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from teamwright.core.data.message import Message, Reply, Request, Text, ToolCall, ToolSpec, Usage
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId, CallId
from teamwright.core.ports import Desk, Outcome, Tool, ToolContext, said
from teamwright.tools.deferred import MOST_NAMES, CallTool, ToolSearch, deferred_tools


class Fake:
    def __init__(self, name: str, description: str = "", **properties: Any) -> None:
        self.spec = ToolSpec(name, description, {"type": "object", "properties": properties})

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        return said("done")


def tools(*found: Fake) -> dict[str, Tool]:
    return {tool.spec.name: tool for tool in found}


BEHIND = tools(
    Fake("mcp__hub__create_issue", "Opens a ticket.", title={"type": "string"}),
    Fake("mcp__hub__list_issues", "Lists tickets."),
    Fake("mcp__mail__send", "Sends mail about an issue."),
    Fake("mcp__mail__recreate_box", "Makes a box anew."),
)


def context() -> ToolContext:
    reply = Reply(Message("assistant", ()), "tool_use", Usage())
    request = Request("m", (), (ToolSpec("Read", "", {}),))
    return ToolContext(AgentId("a"), CallId("c"), Desk(Path("/"), (Path("/"),)), request, reply, lambda _: None)


async def found(query: str, behind: Mapping[str, Tool] = BEHIND, **more: Any) -> tuple[list[str], str]:
    outcome = await ToolSearch(behind).call({"query": query, **more}, context())
    (block,) = outcome.content
    assert isinstance(block, Text)
    return (outcome.data or {}).get("matches", []), block.text


@pytest.mark.spec("A14")
@pytest.mark.parametrize(
    ("query", "names"),
    [
        (
            "create issue",
            ["mcp__hub__create_issue", "mcp__hub__list_issues", "mcp__mail__recreate_box", "mcp__mail__send"],
        ),
        ("TICKETS", ["mcp__hub__list_issues"]),
        ("mail", ["mcp__mail__send", "mcp__mail__recreate_box"]),
        ("mcp__mail__send", ["mcp__mail__send"]),
        ("select:mcp__mail__send, mcp__hub__list_issues,nothing", ["mcp__mail__send", "mcp__hub__list_issues"]),
        ("", []),
        ("zebra", []),
    ],
)
async def test_tools_are_found_by_words_and_by_name(query: str, names: list[str]) -> None:
    matches, text = await found(query)
    assert matches == names
    if names:
        assert f"{len(names)} of 4 tools" in text and all(f"{name}: " in text for name in names)
    else:
        assert "No tool fits" in text and "mcp__hub__create_issue" in text


@pytest.mark.spec("A14")
async def test_a_found_tool_is_told_with_its_schema() -> None:
    matches, text = await found("issue", max_results=1)
    assert (
        matches == ["mcp__hub__create_issue"] and '{"type":"object","properties":{"title":{"type":"string"}}}' in text
    )
    assert "CallTool" in text and (await found("issue", max_results=99))[0]


@pytest.mark.spec("A14")
def test_the_description_names_all_within_bounds() -> None:
    spec = ToolSearch(BEHIND).spec
    assert "mcp__hub__: create_issue, list_issues\nmcp__mail__: send, recreate_box" in spec.description
    assert spec.behind == tuple(BEHIND)
    many = tools(*(Fake(f"mcp__s{n % 7}__{'x' * 30}_{n}") for n in range(3_000)))
    long = ToolSearch(many).spec.description
    assert len(long) < MOST_NAMES + 1_000 and "and 4" in long and "There are 3000" in long


def meant(**input: Any) -> ToolCall:
    call = ToolCall(CallId("c1"), "CallTool", Raw(json.dumps(input).encode()))
    return CallTool(BEHIND).real(call)


@pytest.mark.spec("A14")
@pytest.mark.parametrize("given", [{"title": "x"}, '{"title": "x"}'])
def test_a_call_through_it_is_the_call_that_is_meant(given: Any) -> None:
    call = meant(name="mcp__hub__create_issue", arguments=given)
    assert (call.name, call.args, call.via, call.id) == ("mcp__hub__create_issue", {"title": "x"}, "CallTool", "c1")
    name, input = call.made
    assert name == "CallTool" and json.loads(bytes(input)) == {"name": call.name, "arguments": {"title": "x"}}


@pytest.mark.spec("A14")
def test_arguments_may_be_missing_and_must_be_an_object() -> None:
    assert meant(name="mcp__mail__send").args == {} and not meant(name="mcp__mail__send").fault
    for odd in ([1], "no json", 5, None):
        call = meant(name="mcp__mail__send", arguments=odd)
        assert call.name == "mcp__mail__send" and call.fault and call.args == {}


@pytest.mark.spec("A14")
@pytest.mark.parametrize(
    ("input", "words"),
    [
        ({"name": "mcp__hub__nothing", "arguments": {}}, "no tool `mcp__hub__nothing`"),
        ({"name": "Read", "arguments": {}}, "call it directly"),
        ({"arguments": {}}, "do not fit"),
        ({"name": 5}, "do not fit"),
    ],
)
async def test_what_means_no_tool_stays_and_is_answered(input: dict[str, Any], words: str) -> None:
    call = ToolCall(CallId("c1"), "CallTool", Raw(json.dumps(input).encode()))
    tool = CallTool(BEHIND)
    assert tool.real(call) is call
    with pytest.raises(ToolError, match=words):
        await tool.call(call.args, context())
    broken = ToolCall(CallId("c1"), "CallTool", fault="not JSON")
    assert tool.real(broken) is broken


def test_both_stand_for_the_same() -> None:
    assert list(deferred_tools(BEHIND)) == ["ToolSearch", "CallTool"]
