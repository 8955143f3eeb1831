"""How an agent is made: its desk, its names, what it shares with its siblings, and where it may work."""

import json
from typing import Any

import pytest

from conftest import Walker
from crew import agent, bash, crew, ended_calls, events_of, results
from teamwright.core.data.event import AgentStarted, ModeChanged
from teamwright.core.data.message import Request
from teamwright.runtime.agents.sub_agents import narrowest

pytestmark = pytest.mark.anyio
NAMES = "echo $TEAMWRIGHT_AGENT_ID:$TEAMWRIGHT_AGENT_NAME:$TEAMWRIGHT_PARENT_SESSION_ID"


@pytest.mark.spec("R13")
async def test_commands_are_told_whose_they_are(walker: Walker) -> None:
    scripts = {"main": [bash(NAMES), agent("child", name="scout")], "child": [bash(NAMES), "r"]}
    async with crew(walker, scripts) as play:
        await play.play()
    session = play.session.id
    assert results(play.requests()[1].messages[-1])[0][0].strip() == f"{session}:main:{session}"
    assert results(play.requests("child")[1].messages[-1])[0][0].strip() == f"{play.children[0]}:scout:{session}"


@pytest.mark.spec("R13", "O2")
async def test_the_first_line_of_its_transcript_says_where_it_comes_from(walker: Walker) -> None:
    async with crew(walker, {"main": [agent("child", mode="plan")], "child": ["r"]}) as play:
        await play.play()
    started = events_of(walker, play.children[0])[0]
    assert isinstance(started, AgentStarted) and started.call_id == ended_calls(play)[0].call_id
    assert (started.parent, started.depth, started.kind) == (play.id, 1, "general-purpose")
    assert (started.session, started.cwd, started.description) == (play.session.id, str(walker.project), "does child")
    modes = [e.mode for e in events_of(walker, play.children[0]) if isinstance(e, ModeChanged)]
    assert modes == ["plan"]  # it survives a resume


@pytest.mark.spec("A11")
async def test_siblings_share_the_very_prompt_and_tools(walker: Walker) -> None:
    async with crew(walker, {"main": [[agent("child") for _ in range(3)]], "child": ["r"]}) as play:
        await play.play()
    first, *rest = play.requests("child")
    assert all(r.system is first.system and r.tools is first.tools for r in rest)
    assert len(list(walker.home.rglob("prompts/*"))) == 2  # the main agent's and theirs


@pytest.mark.spec("R13")
async def test_a_directory_that_the_child_changes_to_is_its_own(walker: Walker) -> None:
    (walker.project / "sub").mkdir()
    scripts = {"main": [agent("child"), bash("pwd")], "child": [bash("cd sub"), bash("pwd"), "r"]}
    async with crew(walker, scripts) as play:
        await play.play()
    assert results(play.requests("child")[2].messages[-1])[0][0].strip().endswith("/sub")
    assert results(play.requests()[2].messages[-1])[0][0].strip() == str(walker.project)


@pytest.mark.spec("P11", "G2")
async def test_cwd_must_exist_and_lie_within_reach(walker: Walker) -> None:
    (walker.project / "sub").mkdir()
    (walker.project / "link").symlink_to(walker.home)
    calls = [agent("child", cwd=cwd) for cwd in ("sub", "missing", "..", str(walker.home), "link")]
    async with crew(walker, {"main": [calls], "child": [bash("pwd"), "r"]}, assistant=True) as play:
        await play.play()
    ends = {e.call_id: e for e in ended_calls(play)}
    first, *rest = [ends[c.id] for c in play.session.main.history.messages[1].calls]
    assert not first.is_error and all(e.is_error for e in rest) and len(play.children) == 1
    assert results(play.requests("child")[1].messages[-1])[0][0].strip().endswith("/project/sub")


@pytest.mark.spec("P12")
async def test_cwd_elsewhere_is_ignored_and_said_so(walker: Walker) -> None:
    (walker.project / "sub").mkdir()
    async with crew(walker, {"main": [agent("child", cwd="sub")], "child": [bash("pwd"), "r"]}) as play:
        await play.play()
    assert "cwd was ignored" in ended_calls(play)[0].content[0].text
    assert results(play.requests("child")[1].messages[-1])[0][0].strip() == str(walker.project)


@pytest.mark.spec("A9", "P2")
@pytest.mark.parametrize(
    "args",
    [
        {"prompt": ""},
        {"description": " "},
        {"prompt": 7},
        {"mode": "anything"},
        {"isolation": "moon"},
        {"effort": "lots"},
    ],
)
async def test_wrong_arguments_are_answered_and_start_nothing(walker: Walker, args: dict[str, Any]) -> None:
    async with crew(walker, {"main": [agent("child", **args), "end"], "child": ["r"]}) as play:
        assert (await play.play()).text == "end"
    assert ended_calls(play)[0].is_error and not play.children and not list(walker.home.rglob("agents/*.jsonl"))


@pytest.mark.spec("Y2", "A1")
async def test_a_mixed_turn_has_one_result_for_each_call_in_its_place(walker: Walker) -> None:
    calls = [agent("child"), agent("x", subagent_type="nobody"), bash("echo b"), agent("child", run_in_background=True)]
    async with crew(walker, {"main": [calls], "child": ["report"]}) as play:
        await play.play()
    texts = results(play.requests()[1].messages[-1])
    assert [error for _, error in texts] == [False, True, False, False]
    assert "report" in texts[0][0] and "nobody" in texts[1][0] and texts[2][0].strip() == "b"
    assert "background" in texts[3][0]


@pytest.mark.spec("P7")
def test_the_narrowest_of_several_modes() -> None:
    assert narrowest(None, None) is None and narrowest("plan", "bypassPermissions", None) == "plan"
    assert narrowest(None, "acceptEdits", "dontAsk") == "dontAsk" and narrowest("bubble") is None


@pytest.mark.spec("B8", "P3")
async def test_the_depth_is_a_setting(walker: Walker) -> None:
    offered: list[bool] = []

    def look(request: Request) -> str:
        offered.append("Agent" in {t.name for t in request.tools})
        return "r"

    settings = json.dumps({"teamwright": {"maxDepth": 1}})
    async with crew(walker, {"main": [agent("child")], "child": [look]}, settings=settings) as play:
        await play.play()
    assert offered == [False] and "Agent" in {t.name for t in play.requests()[0].tools}


@pytest.mark.spec("P8")
async def test_tools_cannot_be_given_per_call(walker: Walker) -> None:
    asked = agent("child", subagent_type="explore", tools=["Bash"], allowed_tools=["Bash"])
    async with crew(walker, {"main": [asked], "child": [bash("touch f"), "r"]}) as play:
        await play.play()
    offered = [{t.name for t in request.tools} for request in play.requests("child")]
    assert all("Bash" not in names and "Read" in names for names in offered) and not (walker.project / "f").exists()
    assert offered or ended_calls(play)[0].is_error


@pytest.mark.spec("R12")
async def test_a_name_is_free_again_if_its_agent_could_not_be_made(walker: Walker) -> None:
    calls = [agent("child", name="scout", model="nobody/knows"), agent("child", name="scout")]
    async with crew(walker, {"main": calls, "child": ["r"]}) as play:
        await play.play()
    assert [end.is_error for end in ended_calls(play)] == [True, False]
    started = events_of(walker, play.children[0])[0]
    assert isinstance(started, AgentStarted) and started.name == "scout"
