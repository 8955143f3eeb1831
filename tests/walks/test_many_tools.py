"""Servers with more tools than are listed: found by a search, called through one tool, judged as themselves."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import Walker
from crew import agent, crew, events_of, results, write_agent
from fake_api import FakeApi, answer
from hook_kit import deciding, hook, hooked, logging, use_hooks
from teamwright.app import Options, open_session
from teamwright.core.data.event import Denied, Rendered, Replied
from teamwright.core.permissions.consent import Allow, Decision, Question
from teamwright.models.scripted import ScriptedModel, call
from teamwright.runtime.agents.resume import Origin

pytestmark = [pytest.mark.anyio, pytest.mark.spec("A14")]
WIDE = Path(__file__).parents[1] / "servers" / "wide_mcp.py"


def wide(walker: Walker, count: int = 60) -> list[str]:
    server = {"command": sys.executable, "args": [str(WIDE), str(walker.home / "wide.log"), str(count)]}
    return [json.dumps({"mcpServers": {"wide": server}})]


def deeds(walker: Walker) -> list[str]:
    path = walker.home / "wide.log"
    return path.read_text().splitlines() if path.exists() else []


def through(tool: str, **arguments: Any) -> Any:
    return call("CallTool", name=f"mcp__wide__{tool}", arguments=arguments)


def names(request: Any) -> set[str]:
    return {tool.name for tool in request.tools}


async def test_few_tools_are_listed_as_ever(walker: Walker) -> None:
    walk = await walker.walk([through("tool_7", size=1), "end"], mcp_config=wide(walker, 40))
    assert "mcp__wide__tool_7" in names(walk.model.requests[0]) and "ToolSearch" not in names(walk.model.requests[0])


async def test_many_tools_are_found_and_called_and_the_tools_of_requests_stay(walker: Walker) -> None:
    script = [
        call("ToolSearch", query="number 41"),
        through("tool_41", size=3),
        call("mcp__wide__tool_5", size=1),
        "end",
    ]
    walk = await walker.walk(script, mcp_config=wide(walker), allowed_tools=["mcp__wide"])
    first = walk.model.requests[0]
    assert {"ToolSearch", "CallTool"} <= names(first) and not [n for n in names(first) if n.startswith("mcp__")]
    (spec,) = [tool for tool in first.tools if tool.name == "ToolSearch"]
    assert "There are 60" in spec.description and "create_issue, tool_1" in spec.description
    assert all(request.tools == first.tools for request in walk.model.requests)
    found, did, direct = walk.results
    assert "mcp__wide__tool_41: Paints thing number 41." in found[0] and '"required":["size"]' in found[0]
    assert did == ('tool_41 did {"size": 3}', False) and direct == ('tool_5 did {"size": 1}', False)
    assert deeds(walker) == ['tool_41 {"size": 3}', 'tool_5 {"size": 1}']
    made = [c for e in walk.of(Replied) for c in e.message.calls]
    assert [c.name for c in made] == ["ToolSearch", "mcp__wide__tool_41", "mcp__wide__tool_5"]

    again = await walker.walk(["more"], origin=Origin(walk.session.id), mcp_config=wide(walker))
    assert again.of(Rendered) == [] and again.model.requests[0].tools == first.tools
    assert again.model.requests[0].messages[: len(walk.model.requests[-1].messages)] == walk.model.requests[-1].messages


async def test_rules_persons_and_hooks_see_the_tool_itself(walker: Walker) -> None:
    rewritten = deciding("PreToolUse", updatedInput={"size": 9})
    use_hooks(walker, PreToolUse=[hook(logging(walker)), hook(rewritten, "mcp__wide__tool_3")])
    asked: list[Question] = []

    async def decide(question: Question) -> Decision:
        asked.append(question)
        return Allow()

    script = [[through("tool_1", size=1), through("tool_2", size=2), through("tool_3", size=3)], "end"]
    walk = await walker.walk(
        script, mcp_config=wide(walker), answer=decide, allowed_tools=["mcp__wide__tool_3"],
        disallowed_tools=["mcp__wide__tool_1"],
    )  # fmt: skip
    assert [(q.tool, q.args) for q in asked] == [("mcp__wide__tool_2", {"size": 2})]
    assert deeds(walker) == ['tool_2 {"size": 2}', 'tool_3 {"size": 9}']
    assert [h["tool_name"] for h in hooked(walker)] == ["CallTool", "mcp__wide__tool_2", "mcp__wide__tool_3"]
    assert walk.results[0][1] and "no tool `mcp__wide__tool_1`" in walk.results[0][0]  # denied: it is not there at all
    (search,) = [tool for tool in walk.model.requests[0].tools if tool.name == "ToolSearch"]
    assert "mcp__wide__tool_1" not in search.behind and len(search.behind) == 59


async def test_what_nobody_allows_is_denied_by_its_own_name(walker: Walker) -> None:
    walk = await walker.walk([through("tool_1", size=1), "end"], mcp_config=wide(walker))
    (denied,) = walk.of(Denied)
    assert (denied.tool, denied.args) == ("mcp__wide__tool_1", {"size": 1}) and deeds(walker) == []


async def test_a_denied_search_lists_all_tools(walker: Walker) -> None:
    walk = await walker.walk(["end"], mcp_config=wide(walker), disallowed_tools=["ToolSearch"])
    listed = names(walk.model.requests[0])
    assert "mcp__wide__tool_7" in listed and not {"ToolSearch", "CallTool"} & listed


async def test_a_definition_bounds_what_is_found_also_after_a_resume(walker: Walker) -> None:
    (walker.home / ".teamwright").mkdir()
    (walker.home / ".teamwright" / "settings.json").write_text('{"teamwright": {"maxMcpTools": 2}}')
    write_agent(walker, "few", "tools: Read, mcp__wide__tool_1, mcp__wide__tool_2, mcp__wide__create_issue")
    write_agent(walker, "one", "tools: Read, mcp__wide__tool_1")
    write_agent(walker, "none", "tools: Read")
    child = [through("tool_1", size=1), through("tool_9", size=9), "report", through("tool_2", size=2), "again"]
    scripts = {
        "main": [[agent(n, subagent_type=k) for n, k in (("child", "few"), ("small", "one"), ("bare", "none"))], "end"],
        "child": child, "small": ["report"], "bare": ["report"],
    }  # fmt: skip
    more: Any = {"mcp_config": wide(walker), "allowed_tools": ["mcp__wide"], "trust": True}
    async with crew(walker, scripts, **more) as first:
        await first.play()
        (search,) = [tool for tool in first.requests("child")[0].tools if tool.name == "ToolSearch"]
        assert set(search.behind) == {"mcp__wide__create_issue", "mcp__wide__tool_1", "mcp__wide__tool_2"}
        assert names(first.requests("child")[0]) == {"Read", "ToolSearch", "CallTool"}
        assert names(first.requests("small")[0]) == {"Read", "mcp__wide__tool_1"}
        assert names(first.requests("bare")[0]) == {"Read"}
        assert results(first.requests("child")[1].messages[-1]) == [('tool_1 did {"size": 1}', False)]
        ((text, wrong),) = results(first.requests("child")[2].messages[-1])
        assert wrong and "no tool `mcp__wide__tool_9`" in text
    id = first.children[0]
    sent = call("SendMessage", to=id, message="go on", summary="s")
    scripts = {"main": ["x", "x", sent, "on"], "child": child}
    async with crew(walker, scripts, origin=Origin(resume=first.session.id), **more) as play:
        await play.play("again")
    assert deeds(walker)[-1] == 'tool_2 {"size": 2}' and events_of(walker, id)
    assert play.requests("child")[0].tools == first.requests("child")[0].tools


async def test_a_fork_calls_them_as_its_parent_does(walker: Walker) -> None:
    fork = call("Agent", description="d", prompt="SCRIPT:part", subagent_type="fork")
    main, part = [through("tool_1", size=1), fork, "waiting", "end"], [through("tool_2", size=2), "Scope: done"]

    def play(request: Any) -> Any:
        steps, step = main, 0
        for message in request.messages:
            step += message.role == "assistant"
            if message.role == "user" and "SCRIPT:part" in message.text:  # what the fork is told, in its own part
                steps, step = part, 0
        return steps[step]

    async with crew(
        walker, ScriptedModel(play), fork=True, mcp_config=wide(walker), allowed_tools=["mcp__wide"]
    ) as walk:
        await walk.play()
        assert deeds(walker) == ['tool_1 {"size": 1}', 'tool_2 {"size": 2}']
        assert all(request.tools == walk.model.requests[0].tools for request in walk.model.requests)


async def test_a_provider_sees_only_tools_that_it_was_told_of(walker: Walker) -> None:
    """Some refuse other names. What was sent once is sent again byte for byte."""

    def said(*blocks: Any) -> Any:
        usage = {"input_tokens": 1, "output_tokens": 1}
        stop = "tool_use" if blocks[0]["type"] == "tool_use" else "end_turn"
        return answer(200, {"type": "message", "id": "m", "content": list(blocks), "stop_reason": stop, "usage": usage})

    input = {"name": "mcp__wide__tool_4", "arguments": {"size": 4}}
    use = {"type": "tool_use", "id": "t1", "name": "CallTool", "input": input}
    async with FakeApi([said(use), said({"type": "text", "text": "end"})]) as api:
        env = walker.env | {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "sk-test"}
        options = Options(
            cwd=walker.project,
            env=env,
            model="anthropic/claude-x",
            mcp_config=wide(walker),
            allowed_tools=["mcp__wide"],
        )
        session = await open_session(options)
        async with session:
            await session.ask("go")
    assert deeds(walker) == ['tool_4 {"size": 4}']
    first, second = (asked.json for asked in api.asked)
    assert first["tools"] == second["tools"] and all("behind" not in tool for tool in first["tools"])
    (sent,) = [b for m in second["messages"] for b in m["content"] if b["type"] == "tool_use"]
    assert {k: v for k, v in sent.items() if k != "cache_control"} == use
