"""Definitions at work: from the next spawn on, an agent is what its file says."""

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Walker
from crew import agent, bash, crew, ended_calls, results, write_agent
from program import Program
from teamwright.core.data.event import Rendered
from teamwright.core.data.message import Request
from teamwright.models.scripted import call
from teamwright.runtime.agents.resume import Origin

pytestmark = pytest.mark.anyio


def tools_of(request: Request) -> set[str]:
    return {tool.name for tool in request.tools}


async def play_child(walker: Walker, kind: str, *steps: Any, **more: Any):
    scripts = {"main": [agent("child", subagent_type=kind), "end"], "child": [*steps, "report"], "deeper": ["deep"]}
    async with crew(walker, scripts, **more) as play:
        await play.play()
    return play


@pytest.mark.spec("D1", "D6")
async def test_tools_and_the_body_are_what_the_file_says(walker: Walker) -> None:
    write_agent(walker, "looker", "tools: Read, Grep, Glob", "disallowedTools: Glob", body="You only look, calmly.")
    play = await play_child(walker, "looker", bash("touch x"))
    (first, second) = play.requests("child")
    assert tools_of(first) == {"Read", "Grep"} and "You only look, calmly." in "\n".join(first.system)
    assert results(second.messages[-1])[0][1] and not (walker.project / "x").exists()


@pytest.mark.spec("D6")
@pytest.mark.parametrize("line", ["", 'tools: ["*"]'])
async def test_all_tools_where_none_are_named(walker: Walker, line: str) -> None:
    write_agent(walker, "all", *([line] if line else []), "disallowedTools: Bash")
    play = await play_child(walker, "all")
    missing = tools_of(play.requests()[0]) - tools_of(play.requests("child")[0])
    missing -= {"CronCreate", "CronDelete", "CronList", "TeamCreate", "TeamDelete"}  # the main agent's alone
    assert "Bash" in missing and missing <= {"Bash", "Monitor"}  # a monitor is a shell too


@pytest.mark.spec("P4", "D2")
async def test_model_and_effort_call_over_definition_over_parent(walker: Walker, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('["from the other model"]')
    write_agent(walker, "thinker", f"model: script/{other}", "effort: high")
    write_agent(walker, "heir", "model: inherit")
    calls = [
        agent("child", subagent_type="heir"), agent("child", subagent_type="heir", effort="max"),
        agent("x", subagent_type="thinker"),
        agent("child", subagent_type="thinker", model="script/given", effort="low"),
    ]  # fmt: skip
    async with crew(walker, {"main": [calls], "child": ["mine"]}, effort="medium") as play:
        await play.play()
    texts = [text for text, _ in results(play.requests()[1].messages[-1])]
    assert ["from the other model" in text for text in texts] == [False, False, True, False]
    children = [r for r in play.records if isinstance(r.event, Rendered) and r.agent != play.id]
    assert sorted(str(r.event.effort) for r in children) == ["high", "low", "max", "medium"]


@pytest.mark.spec("P4")
async def test_a_model_that_cannot_be_used_is_said_before_anything_begins(walker: Walker) -> None:
    async with crew(walker, {"main": [agent("child", model="openai/nothing")]}) as play:
        await play.play()
    (ended,) = ended_calls(play)
    assert ended.is_error and "model" in ended.content[0].text and not play.children


@pytest.mark.spec("D12", "O6")
async def test_max_turns_ends_it_with_what_there_is_and_says_so(walker: Walker) -> None:
    write_agent(walker, "brief", "maxTurns: 2")
    play = await play_child(walker, "brief", ["so far", bash("true")], bash("true"), "never")
    assert len(play.requests("child")) == 2
    text = ended_calls(play)[0].content[0].text
    assert "so far" in text and "limit of 2 turns" in text and "never" not in text


@pytest.mark.spec("P5", "R2")
async def test_a_definition_that_works_in_the_background(walker: Walker) -> None:
    write_agent(walker, "owl", "background: true")
    play = await play_child(walker, "owl")
    assert ended_calls(play)[0].data["status"] == "async_launched" and len(play.notices) == 1


@pytest.mark.spec("D14")
async def test_the_initial_prompt_comes_first_and_once(walker: Walker) -> None:
    write_agent(walker, "primed", "initialPrompt: First of all.")
    send = call("SendMessage", to=r"{{re:agentId: (\w+)}}", message="more", summary="more words")
    scripts = {"main": [agent("child", subagent_type="primed"), send, "on"], "child": ["one", "two"]}
    async with crew(walker, scripts) as play:
        await play.play()
    first, second = play.requests("child")
    assert first.messages[0].text == "First of all.\n\nSCRIPT:child"
    assert str(second.messages).count("First of all.") == 1


@pytest.mark.spec("D14")
async def test_the_initial_prompt_of_the_session_s_own_agent(walker: Walker) -> None:
    write_agent(walker, "primed", "initialPrompt: First of all.")
    first = await walker.walk(["one"], ["go"], trust=True, agent="primed")
    (asked,) = first.model.requests
    assert [m.text for m in asked.messages] == ["First of all.", "go"]
    origin = Origin(resume=first.session.id)
    again = await walker.walk(["two", "three"], ["on"], trust=True, agent="primed", origin=origin)
    assert [m.text for m in again.model.requests[0].messages if m.role == "user"] == ["First of all.", "go", "on"]


@pytest.mark.spec("D6", "M1")
async def test_agents_that_it_may_start_are_named_in_its_tools(walker: Walker) -> None:
    write_agent(walker, "boss", "tools: Agent(explore, bash), Read")
    tries = [agent("deeper", subagent_type=kind) for kind in ("plan", "general-purpose", "explore")]
    play = await play_child(walker, "boss", tries)
    first, second, third = results(play.requests("child")[1].messages[-1])
    assert first[1] and second[1] and not third[1] and "bash, explore" in first[0]
    spec = next(t for t in play.requests("child")[0].tools if t.name == "Agent")
    assert "- explore:" in spec.description and "- plan:" not in spec.description


@pytest.mark.spec("D6", "M9")
async def test_patterns_limit_a_tools_use_in_every_mode(walker: Walker) -> None:
    write_agent(walker, "gitter", "tools: Bash(git *), Read")
    play = await play_child(walker, "gitter", bash("git --version"), bash("touch x"), bash("git --version; touch x"))
    ends = [results(r.messages[-1])[0] for r in play.requests("child")[1:]]
    assert [is_error for _, is_error in ends] == [False, True, True] and not (walker.project / "x").exists()
    assert "only as git *" in ends[1][0]


@pytest.mark.spec("D6", "M9")
async def test_patterns_take_uses_of_a_tool_away_in_every_mode(walker: Walker) -> None:
    write_agent(walker, "tidy", "tools: [Bash, Read]", 'disallowedTools: ["Bash(touch *)", "Read(.env)"]')
    (walker.project / ".env").write_text("secret")
    steps = bash("echo a"), bash("touch x"), bash("echo b; touch x"), call("Read", file_path=".env"), bash("cat .env")
    play = await play_child(walker, "tidy", *steps)
    ends = [results(r.messages[-1])[0] for r in play.requests("child")[1:]]
    assert [is_error for _, is_error in ends] == [False, True, True, True, True]
    assert "`Bash(touch *)` (agent)" in ends[1][0] and not (walker.project / "x").exists()


@pytest.mark.spec("D6", "C3")
async def test_uses_that_were_taken_away_stay_so_when_it_is_resumed(walker: Walker) -> None:
    write_agent(walker, "tidy", "tools: Bash", "disallowedTools: Bash(touch *)")
    send = call("SendMessage", to=r"{{re:agentId: (\w+)}}", message="go on", summary="go on")
    scripts = {"main": [agent("child", subagent_type="tidy"), send, "on"], "child": ["one", bash("touch x"), "two"]}
    async with crew(walker, scripts) as play:
        await play.play()
    assert results(play.requests("child")[-1].messages[-1])[0][1] and not (walker.project / "x").exists()


@pytest.mark.spec("D6", "R9")
async def test_agents_that_it_may_not_start_are_not_offered(walker: Walker) -> None:
    write_agent(walker, "boss", "disallowedTools: Agent(explore)")
    tries = [agent("deeper", subagent_type=kind) for kind in ("Explore", "plan")]
    play = await play_child(walker, "boss", tries)
    first, second = results(play.requests("child")[1].messages[-1])
    assert first[1] and "general-purpose" in first[0] and not second[1]
    spec = next(t for t in play.requests("child")[0].tools if t.name == "Agent")
    assert "- plan:" in spec.description and "- explore:" not in spec.description


@pytest.mark.spec("D13")
async def test_a_changed_file_counts_from_the_next_spawn_on(walker: Walker) -> None:
    file = write_agent(walker, "shifty", "tools: Read", body="Old words.")

    def change(_: Request) -> Any:
        file.write_text(file.read_text().replace("Old words.", "New words, and more.").replace("Read", "Grep"))
        write_agent(walker, "newcomer", "tools: Glob")
        return [agent("child", subagent_type="shifty"), agent("fresh", subagent_type="newcomer")]

    scripts = {"main": [agent("child", subagent_type="shifty"), change], "child": ["r"], "fresh": ["r"]}
    async with crew(walker, scripts) as play:
        await play.play()
    old, new = play.requests("child")
    assert tools_of(old) == {"Read"} and "Old words." in str(old.system)
    assert tools_of(new) == {"Grep"} and "New words, and more." in str(new.system) and len(play.requests("fresh")) == 1


@pytest.mark.spec("D3", "D1")
async def test_definitions_from_the_command_line_win_over_the_users(walker: Walker) -> None:
    write_agent(walker, "judge", "tools: Read", body="The user's judge.")
    given = json.dumps({"judge": {"description": "d", "prompt": "The flag's judge.", "tools": ["Grep"]}})
    play = await play_child(walker, "judge", agents=given)
    assert tools_of(play.requests("child")[0]) == {"Grep"} and "The flag's judge." in str(
        play.requests("child")[0].system
    )


@pytest.mark.spec("D1", "D6")
async def test_a_session_can_itself_be_such_an_agent(walker: Walker) -> None:
    write_agent(walker, "boss", "tools: Agent(explore), Read", "permissionMode: plan", body="You are the boss.")
    tries = [agent("x", subagent_type="explore"), agent("y", subagent_type="plan")]
    async with crew(walker, {"main": [tries], "x": ["r"]}, agent="boss", mode=None) as play:
        await play.play()
    first = play.requests()[0]
    assert tools_of(first) == {"Agent", "Read"} and "You are the boss." in str(first.system)
    assert [is_error for _, is_error in results(play.requests()[1].messages[-1])] == [False, True]
    assert play.session.main.mode == "plan"


@pytest.mark.spec("D5")
def test_a_broken_file_is_named_with_its_line_and_the_rest_works(program: Program) -> None:
    place = program.state / "agents"
    place.mkdir(parents=True)
    (place / "broken.md").write_text("---\nname: broken\ndescription: x\ntools: [Read\n---\nbody\n")
    (place / "good.md").write_text("---\nname: good\ndescription: Use when: it is hard\n---\nYou are good.\n")
    child = {"tool": "Agent", "input": {"description": "d", "prompt": "SCRIPT:child", "subagent_type": "good"}}
    ran = program.prompt({"main": [child, "end"], "child": ["good words"]}, text="SCRIPT:main")
    assert ran.rc == 0 and "broken.md" in ran.err and "good words" in ran.tool_results[0][0]
    assert any("broken.md" in line and ":" in line and any(c.isdigit() for c in line) for line in ran.err.splitlines())
    init = next(line for line in ran.lines if line.get("subtype") == "init")
    assert "good" in init["agents"] and "broken" not in init["agents"]
