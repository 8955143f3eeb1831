"""`/mcp`: servers in a list that follows their state; connected again, switched off and on, their tools listed."""

from pathlib import Path
from typing import Any

import pytest
from stage import Stage, staged
from test_status_pages import WIDE, settle

from teamwright.core.data.op import SetServer
from teamwright.models.scripted import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.spec("AP8")]


async def open_list(stage: Stage) -> None:
    await stage.shows("MCP server broken is not connected: ")
    await stage.say("/mcp")
    await stage.shows("MCP server: type to search")


async def pick(stage: Stage, words: str, title: str) -> None:
    await stage.type(words)
    await stage.shows("1 of ")
    await stage.press("enter")
    await stage.shows(title)


def offered(model: ScriptedModel) -> list[str]:
    return [tool.name for tool in model.requests[-1].tools]


async def test_a_server_is_switched_off_and_on_and_its_tools_go_and_come(walker: Any, tmp_path: Path) -> None:
    settle(walker.home / ".teamwright", tmp_path / "log")
    model = ScriptedModel(["one", "two", "three"])
    async with staged(walker, model, size=WIDE) as stage:
        await open_list(stage)
        await pick(stage, "shelf", "shelf (connected): type to search")
        await pick(stage, "off", "MCP server: type to search")
        await stage.shows("shelf   disabled")
        await stage.press("escape")
        await stage.shows("MCP server shelf is disabled.")
        await stage.say("go")
        await stage.shows("one")
        assert not [name for name in offered(model) if name.startswith("mcp__shelf")]
        await stage.say("/mcp shelf on")
        await stage.shows("MCP server shelf is connected: 14 tools.")
        await stage.say("go")
        await stage.shows("two")
        assert "mcp__shelf__echo" in offered(model)


async def test_a_server_is_connected_again_and_its_tools_are_listed(walker: Any, tmp_path: Path) -> None:
    settle(walker.home / ".teamwright", tmp_path / "log")
    async with staged(walker, size=WIDE) as stage:
        await open_list(stage)
        await pick(stage, "broken", "broken (failed): type to search")
        assert "list its tools" not in stage.screen and "sign in" not in stage.screen
        await pick(stage, "again", "MCP server: type to search")
        await pick(stage, "shelf", "shelf (connected): type to search")
        await pick(stage, "list", "MCP server: type to search")
        await stage.press("escape")
        await stage.shows("mcp__shelf__echo")
        await stage.shows("MCP server broken is failed: ")
    assert (tmp_path / "log").read_text()


async def test_the_open_list_follows_what_happens(walker: Any, tmp_path: Path) -> None:
    settle(walker.home / ".teamwright", tmp_path / "log")
    async with staged(walker, size=WIDE) as stage:
        await open_list(stage)
        await stage.shows("shelf   connected  14 tools")
        await stage.session.submit(SetServer("shelf", "off"))
        await stage.shows("shelf   disabled")


async def test_a_server_that_is_not_there_is_named(walker: Any, tmp_path: Path) -> None:
    settle(walker.home / ".teamwright", tmp_path / "log")
    async with staged(walker, size=WIDE) as stage:
        await stage.say("/mcp shelve")
        await stage.shows("there is no MCP server shelve; there are: shelf, broken")
        await stage.say("/mcp shelve off")
        await stage.shows("There is no MCP server shelve; there are: shelf, broken.")
