"""SendMessage and ListAgents: to the running, the finished, and those that only exist on disk."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from team_steps import parts, scene, until

from conftest import Walker
from crew import ID, LIMIT, after, agent, bash, check_valid, crew, ended_calls, events_of, marking, results, write_agent
from teamwright.core.data.event import AgentStarted, Resumed
from teamwright.core.data.message import Request, ToolResult
from teamwright.core.data.op import Interrupt
from teamwright.core.errors import ModelError
from teamwright.models.scripted import call
from teamwright.runtime.agents.resume import Origin

pytestmark = pytest.mark.anyio
SERVER = Path(__file__).parents[1] / "servers/small_mcp.py"
BACK = {"run_in_background": True}


def send(to: str = ID, message: str = "one more thing", **more: Any) -> Any:
    return call("SendMessage", **{"to": to, "message": message, "summary": "a few words"} | more)


@pytest.mark.spec("C2", "Q2", "L3")
async def test_a_running_agent_hears_it_at_its_next_tool_boundary(walker: Walker) -> None:
    asked, sent = anyio.Event(), anyio.Event()

    async def work(request: Request) -> Any:
        asked.set()
        return await after(sent, bash("echo worked"))(request)

    scripts = {
        "main": [agent("child", **BACK), after(asked, send()), marking(sent, "sent"), "end"],
        "child": [work, "heard it"],
    }
    async with crew(walker, scripts) as play:
        await play.play()
    first, second = play.requests("child")
    assert "one more thing" not in str(first.messages)
    assert isinstance(second.messages[-2].blocks[0], ToolResult)  # never in the middle of a call
    text = second.messages[-1].text
    assert text.startswith('<teammate-message teammate_id="main" summary="a few words">') and "one more thing" in text
    data = ended_calls(play)[1].data
    assert data["success"] and data["agentId"] == play.children[0] and len(play.notices) == 1


@pytest.mark.spec("C3", "C5", "B4")
async def test_a_finished_agent_goes_on_with_its_whole_transcript(walker: Walker) -> None:
    scripts = {"main": [agent("child"), send(), "on", "end"], "child": [bash("echo once >> f"), "first", "second"]}
    async with crew(walker, scripts) as play:
        await play.play()
    (child,) = play.children
    before, after_ = play.requests("child")[1:]
    assert after_.messages[: len(before.messages)] == before.messages and len(play.requests("child")) == 3
    assert after_.system == before.system and after_.tools == before.tools
    assert "one more thing" in after_.messages[-1].text
    assert ended_calls(play)[1].data["agentId"] == child and ended_calls(play)[1].data["outputFile"].endswith(".output")
    assert len(play.notices) == 1 and "second" in play.notices[0] and (walker.project / "f").read_text() == "once\n"
    kinds = [type(e) for e in events_of(walker, child)]
    assert kinds.count(AgentStarted) == 1 and kinds.count(Resumed) == 1


@pytest.mark.spec("C5")
async def test_racing_messages_never_make_a_second_instance(walker: Walker) -> None:
    wake = [send(message=f"message-{n}") for n in range(6)]
    scripts = {"main": [agent("child"), wake, "on"], "child": ["first", "second"]}
    async with crew(walker, scripts) as play:
        await play.play()
    heard = str(play.requests("child")[-1].messages)
    assert all(heard.count(f"message-{n}") == 1 for n in range(6))
    assert sum(isinstance(e, AgentStarted) for e in events_of(walker, play.children[0])) == 1
    resumed = sum(isinstance(e, Resumed) for e in events_of(walker, play.children[0]))
    assert 1 <= resumed == len(play.notices)
    check_valid(play.requests("child")[-1].messages)


@pytest.mark.spec("C3", "B11")
@pytest.mark.parametrize("how", ["failed", "stopped"])
async def test_one_that_failed_or_was_stopped_goes_on_too(walker: Walker, how: str) -> None:
    began, never, again = anyio.Event(), anyio.Event(), []

    async def second(request: Request) -> Any:
        again.append(1)
        if len(again) > 1:
            return "recovered"
        began.set()
        if how == "failed":
            raise ModelError("no answer", "auth")
        return await after(never, "x")(request)

    stop = call("TaskStop", task_id=ID) if how == "stopped" else call("TaskOutput", task_id=ID)
    scripts = {"main": [agent("child", **BACK), after(began, stop), send(), "on"], "child": [bash("true"), second]}
    async with crew(walker, scripts) as play:
        await play.play()
    assert len(play.notices) == 1 and "recovered" in play.notices[0]
    check_valid(play.requests("child")[-1].messages)


@pytest.mark.spec("C4", "C3")
async def test_one_that_only_exists_on_disk_goes_on_in_a_new_session_object(walker: Walker) -> None:
    child = [bash("echo $((6*7))-secret"), "first", "I remember"]
    async with crew(walker, {"main": [agent("child")], "child": child}) as first:
        await first.play()
    (id,) = first.children
    scripts = {"main": ["x", "x", call("ListAgents"), send(to=id), "on"], "child": child}
    async with crew(walker, scripts, origin=Origin(resume=first.session.id)) as play:
        await play.play("again")
    listed = ended_calls(play)[0].data["agents"]
    assert [(a["agentId"], a["type"], a["description"]) for a in listed] == [(id, "general-purpose", "does child")]
    (request,) = play.requests("child")
    assert "42-secret" in str(request.messages) and request.messages[:-1][: len(first.requests("child")[1].messages)]
    assert len(play.notices) == 1 and "I remember" in play.notices[0]


@pytest.mark.spec("C3", "X2", "T13")
async def test_one_whose_server_was_still_starting_at_an_interrupt_was_not_sent_the_message(walker: Walker) -> None:
    hold, reached = walker.project / "hold", walker.project / "reached"
    start = f"[ -e {hold} ] && echo x >> {reached} && exec sleep 60; exec {sys.executable} {SERVER}"
    write_agent(walker, "owner", f"mcpServers: {json.dumps([{'own': {'command': 'sh', 'args': ['-c', start]}}])}")
    scripts = {
        "main": [agent("child", subagent_type="owner"), bash(f"touch {hold}"), send(message="milk"), *["on"] * 9],
        "then": [send(message="bread"), *["on"] * 9],
        "child": ["first", "second"],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.say("go")
        await until(reached.exists)
        await play.submit(Interrupt())
        await until(lambda: not play.session.main.running)
        (state,) = [play.session.services.store.state]
        assert await state.waiting(play.children[0]) == []
        hold.unlink()
        await play.play("SCRIPT:then")
    sent = [e for e in ended_calls(play) if "milk" in str(e) or "not sent" in str(e.content)]
    assert [e.is_error for e in sent] == [True] and "it was not sent" in str(sent[0].content)
    said = [m.text for m in parts(play, "child")[-1].messages]
    assert "bread" in "".join(said) and "milk" not in "".join(said)


@pytest.mark.one_machine
@pytest.mark.spec("C4")
async def test_no_transcript_is_a_clear_error_and_the_turn_goes_on(walker: Walker) -> None:
    async with crew(walker, {"main": [agent("child")], "child": ["first"]}) as first:
        await first.play()
    (id,) = first.children
    next(walker.home.rglob(f"{id}.jsonl")).unlink()
    async with crew(walker, {"main": ["x", "x", send(to=id), "end"]}, origin=Origin(resume=first.session.id)) as play:
        assert (await play.play("again")).reason == "done"
    (ended,) = ended_calls(play)
    assert ended.is_error and id in ended.content[0].text and "transcript" in ended.content[0].text


@pytest.mark.spec("C1", "R12")
async def test_by_name_and_a_taken_name_gets_a_number(walker: Walker) -> None:
    scripts = {
        "main": [[agent("child", name="scout"), agent("other", name="scout")], send(to="scout-2"), "on"],
        "child": ["first"], "other": ["other", "I am the second"],
    }  # fmt: skip
    async with crew(walker, scripts) as play:
        await play.play()
    assert len(play.requests("other")) + len(play.requests("child")) == 3 and len(play.notices) == 1


@pytest.mark.spec("C1")
async def test_a_name_that_is_also_the_kind_can_be_addressed(walker: Walker) -> None:
    scripts = {"main": [agent("child", name="general-purpose"), send(to="general-purpose"), "on"], "child": ["1", "2"]}
    async with crew(walker, scripts) as play:
        await play.play()
    assert len(play.notices) == 1


@pytest.mark.spec("C1", "X11")
@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"to": "nobody"}, "no agent 'nobody'"),
        ({"to": "*"}, "no team"),
        ({"to": "uds:x"}, "no agent x in the store"),
        ({"summary": ""}, "summary is required"),
        ({"message": "  "}, "empty"),
        ({"message": "é" * 131_073}, "256 KiB"),
        ({"message": {"type": "shutdown_request"}}, "no team"),
    ],
)
async def test_what_cannot_be_sent_is_a_clear_error(walker: Walker, args: dict[str, Any], words: str) -> None:
    async with crew(walker, {"main": [agent("child"), send(**args), "end"], "child": ["first"]}) as play:
        await play.play()
    text, is_error = results(play.requests()[2].messages[-1])[0]
    assert is_error and words in text and len(play.requests("child")) == 1


@pytest.mark.spec("C1")
async def test_a_message_to_oneself_is_refused(walker: Walker) -> None:
    asked: list[str] = []

    def to_me(request: Request) -> Any:
        return send(to=asked[0]) if asked else bash("echo $TEAMWRIGHT_AGENT_ID")

    def learn(request: Request) -> Any:
        asked.append(results(request.messages[-1])[0][0].strip())
        return to_me(request)

    async with crew(walker, {"main": [agent("child")], "child": [to_me, learn, "end"]}) as play:
        await play.play()
    assert asked == play.children
    text, is_error = results(play.requests("child")[2].messages[-1])[0]
    assert is_error and "That is you" in text


@pytest.mark.spec("D6", "M9", "C3")
async def test_the_limits_of_its_definition_hold_after_it_was_woken(walker: Walker) -> None:
    write_agent(walker, "gitter", "tools: Bash(git *), Agent(explore)")
    tries = [bash("touch x"), agent("y", subagent_type="general-purpose")]
    scripts = {"main": [agent("child", subagent_type="gitter"), send(), "on"], "child": [*tries, "1", *tries, "2"]}
    async with crew(walker, scripts) as play:
        await play.play()
    assert not (walker.project / "x").exists() and len(play.children) == 1
    errors = [r for m in play.requests("child")[-1].messages for r in results(m)]
    assert len(errors) == 4 and all(is_error for _, is_error in errors)


@pytest.mark.spec("C2", "B8", "O7")
async def test_list_agents_tells_their_states(walker: Walker) -> None:
    never, began = anyio.Event(), anyio.Event()
    listing = call("ListAgents")
    scripts = {
        "main": [
            agent("quick"),
            agent("slow", **BACK, name="snail"),
            after(began, listing),
            call("TaskStop", task_id=ID),
        ],
        "quick": ["r"],
        "slow": [lambda r: (began.set(), after(never, "x")(r))[1]],
    }
    async with crew(walker, scripts) as play:
        with anyio.fail_after(LIMIT):
            await play.play()
    rows = ended_calls(play)[2].data["agents"]
    assert [(r["name"], r["status"]) for r in rows] == [("general-purpose", "completed"), ("snail", "running")]


@pytest.mark.spec("C1", "C2")
async def test_a_sub_agent_reaches_the_main_agent_at_any_depth(walker: Walker) -> None:
    below = agent("below", subagent_type="general-purpose")
    scripts = {
        "main": [agent("child", **BACK), "waiting", "end"],
        "child": [send("main", "from the child"), [below], "r"],
        "below": [send("main", "from below"), "r"],
    }
    async with crew(walker, scripts) as play:
        await play.play()
        texts = [m.text for m in play.session.main.history.messages if m.role == "user"]
    for words in ("from the child", "from below"):
        assert sum(words in text for text in texts) == 1, texts
    assert not any(e.is_error for id in play.children for e in ended_calls(play, id)[:1])
