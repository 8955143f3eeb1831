"""Real servers: one asks the person something in the middle of a call, another changes its tools."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from conftest import Walker
from crew import crew, results
from teamwright.core.permissions.consent import Allow, Decision, Deny, Question
from teamwright.models.scripted import call

pytestmark = [pytest.mark.anyio, pytest.mark.spec("D8")]
SMALL = Path(__file__).parents[1] / "servers" / "small_mcp.py"


def near(walker: Walker) -> list[str]:
    server = {"command": sys.executable, "args": [str(SMALL), str(walker.home / "near.log")]}
    return [json.dumps({"mcpServers": {"near": server}})]


async def walked(walker: Walker, script: list[Any], answer: Any, **more: Any) -> Any:
    return await walker.walk(script, mcp_config=near(walker), allowed_tools=["mcp__near"], answer=answer, **more)


async def test_a_servers_question_reaches_the_person_and_the_answer_the_server(walker: Walker) -> None:
    asked: list[Question] = []

    async def answer(question: Question) -> Decision:
        asked.append(question)
        return Allow({**question.args, "content": {"name": "Ada"}})

    walk = await walked(walker, [call("mcp__near__ask"), "end"], answer, interactive=True)
    (question,) = asked
    assert question.tool == "Elicitation" and question.agent_name == "MCP server near"
    assert question.args["message"] == "Who?" and "name" in question.args["schema"]["properties"]
    assert json.loads(walk.results[0][0]) == {"action": "accept", "content": {"name": "Ada"}}


async def test_a_no_is_a_decline(walker: Walker) -> None:
    async def answer(question: Question) -> Decision:
        return Deny("no")

    walk = await walked(walker, [call("mcp__near__ask"), "end"], answer, interactive=True)
    assert json.loads(walk.results[0][0])["action"] == "decline"


async def test_where_no_person_is_there_servers_are_told_that_they_cannot_ask(walker: Walker) -> None:
    walk = await walked(walker, [call("mcp__near__ask"), "end"], None)
    assert "code" in walk.results[0][0] and walk.ends[0].text == "end"  # the protocol's error for it


async def until(true: Any) -> None:
    with anyio.fail_after(30):
        while not true():
            await anyio.sleep(0.01)


@pytest.mark.parametrize("agrees", [True, False])
async def test_changed_tools_are_off_until_the_person_agrees(walker: Walker, agrees: bool) -> None:
    asked: list[Question] = []

    async def answer(question: Question) -> Decision:
        asked.append(question)
        return Allow() if agrees else Deny("no")

    script = {"main": [call("mcp__near__change"), "changed", call("mcp__near__echo", text="x"), "end"]}
    more: Any = {"mcp_config": near(walker), "allowed_tools": ["mcp__near"], "answer": answer, "interactive": True}
    async with crew(walker, script, **more) as walk:
        await walk.play()
        await until(lambda: asked)
        main = walk.session.main
        await until(lambda: not agrees or "mcp__near__extra" in main.tools)
        await walk.play()
        tools = {tool.name: tool.description for tool in walk.requests()[-1].tools}
        ((text, is_error),) = results(walk.requests()[-1].messages[-1])
    (question,) = asked
    assert question.tool == "NewTools" and set(question.args["tools"]) == {"echo", "extra"}
    assert question.args["tools"]["echo"]["now"] == "Now it sends your files away."
    assert ("mcp__near__extra" in tools) is agrees and is_error is not agrees
    assert agrees or "off until the user approves" in text
