"""A foreground agent: its result, its neighbours, its errors, and how it is sent to the background."""

import stat
from typing import Any

import anyio
import pytest

from conftest import Walker
from crew import after, agent, bash, crew, ended_calls, events_of, marking, results
from teamwright.core.data.event import AgentEnded, AgentStarted, JobEnded, JobProgressed, JobStarted, ToolEnded
from teamwright.core.data.op import Interrupt, SendToBackground
from teamwright.core.errors import ModelError
from teamwright.models.scripted import call

pytestmark = pytest.mark.anyio


@pytest.mark.spec("R1", "R4", "O3", "Y1", "P1")
@pytest.mark.parametrize("kind", [None, "general-purpose", "General-Purpose"])
async def test_the_result_has_all_its_fields(walker: Walker, kind: str | None) -> None:
    more = {} if kind is None else {"subagent_type": kind}
    scripts = {"main": [agent("child", **more), "all done"], "child": [bash("echo hi"), "the report"]}
    async with crew(walker, scripts) as play:
        end = await play.play()
    (ended,) = ended_calls(play)
    data, (child,) = ended.data, play.children
    figures = {"total_tokens": data["totalTokens"], "tool_uses": 1, "duration_ms": data["totalDurationMs"]}
    assert data == {
        "status": "completed", "agentId": child, "agentType": "general-purpose", "prompt": "SCRIPT:child",
        "content": [{"type": "text", "text": "the report"}], "totalDurationMs": data["totalDurationMs"],
        "totalTokens": data["totalTokens"], "totalToolUseCount": 1, "usage": figures,
    }  # fmt: skip
    assert data["totalTokens"] > 100 and end.text == "all done" and not ended.is_error
    text = ended.content[0].text
    assert "the report" in text and f"agentId: {child}" in text and "SendMessage" in text and "<usage>" in text
    assert "model's words" in text and not play.notices
    assert "does child" not in play.requests("child")[0].messages[0].text  # the description is for people


@pytest.mark.spec("A9", "R1")
async def test_names_of_another_program_are_understood(walker: Walker) -> None:
    asked = call("Task", description="asks", prompt="SCRIPT:child", subagent_type="claude-code-guide")
    async with crew(walker, {"main": [asked, "all done"], "child": ["the page on hooks says so"]}) as play:
        await play.play()
    (ended,) = ended_calls(play)
    assert ended.data["agentType"] == "guide" and "the page on hooks" in ended.content[0].text
    assert [one.name for one in play.requests()[1].messages[1].calls] == ["Agent"]


@pytest.mark.spec("O3")
async def test_a_one_shot_built_in_leaves_out_id_and_usage(walker: Walker) -> None:
    async with crew(walker, {"main": [agent("child", subagent_type="explore")], "child": ["found it"]}) as play:
        await play.play()
    text = ended_calls(play)[0].content[0].text
    assert "found it" in text and "agentId" not in text and "<usage>" not in text


@pytest.mark.spec("Y2", "A1")
async def test_several_at_once_really_run_together_and_answer_in_order(walker: Walker) -> None:
    one, two = anyio.Event(), anyio.Event()

    def meet(mine: anyio.Event, other: anyio.Event, said: str) -> Any:
        async def play(request: Any) -> Any:
            mine.set()
            return await after(other, said)(request)

        return play

    scripts = {
        "main": [[agent("a"), agent("b")], "end"],
        "a": [meet(one, two, "report of a")],
        "b": [meet(two, one, "report of b")],
    }
    async with crew(walker, scripts) as play:
        await play.play()
    first, second = results(play.requests()[1].messages[-1])
    assert "report of a" in first[0] and "report of b" in second[0]


@pytest.mark.spec("Y4", "B11")
async def test_a_child_that_fails_after_it_spoke_gives_what_it_said(walker: Walker) -> None:
    fails = ModelError("the provider is on fire", "auth", status=401)
    scripts = {"main": [agent("child")], "child": [["half of the answer", bash("true")], fails]}
    async with crew(walker, scripts) as play:
        assert (await play.play()).reason == "done"  # only the child failed
    ((text, is_error),) = results(play.requests()[1].messages[-1])
    assert "Partial" in text and "half of the answer" in text and "on fire" in text and not is_error
    assert f"agentId: {play.children[0]}" in text
    assert [e.status for e in events_of(walker, play.children[0]) if isinstance(e, AgentEnded)] == ["failed"]


@pytest.mark.spec("Y4")
async def test_a_child_that_fails_at_once_is_an_error(walker: Walker) -> None:
    fails = ModelError("the provider is on fire", "auth", status=401)
    async with crew(walker, {"main": [agent("child")], "child": [fails]}) as play:
        await play.play()
    ((text, is_error),) = results(play.requests()[1].messages[-1])
    assert is_error and "on fire" in text


@pytest.mark.spec("R9", "M1")
@pytest.mark.parametrize("rule", [(), ("Agent(explore)",)])
async def test_an_unknown_or_denied_kind_lists_what_there_is(walker: Walker, rule: tuple[str, ...]) -> None:
    kind = "explore" if rule else "nobody"
    async with crew(walker, {"main": [agent("x", subagent_type=kind)]}, disallowed_tools=rule) as play:
        await play.play()
    ((text, is_error),) = results(play.requests()[1].messages[-1])
    assert is_error and not play.children
    assert "general-purpose" in text and "verification" in text
    if rule:
        assert "explore" in text and "explore" not in text.partition("There are: ")[2]


@pytest.mark.spec("Y3", "R2")
async def test_sent_to_the_background_in_mid_run_nothing_is_lost_or_repeated(walker: Walker) -> None:
    told, go = anyio.Event(), anyio.Event()
    work = [bash("echo one >> f"), marking(told, bash("echo two >> f")), after(go, bash("echo three >> f")), "whole"]
    scripts = {"main": [agent("child"), marking(go, "gone on"), "heard"], "child": work}
    async with crew(walker, scripts) as play:
        await play.say("go")
        with anyio.fail_after(10):
            await told.wait()
            await play.submit(SendToBackground())
            await play.session.idle()
    assert (walker.project / "f").read_text().split() == ["one", "two", "three"]
    assert len(play.requests("child")) == 4 and len(play.children) == 1
    ((text, _),) = results(play.requests()[1].messages[-1])
    assert ended_calls(play)[0].data["status"] == "async_launched" and play.children[0] in text
    (notice,) = play.notices
    assert "whole" in notice and f"<task-id>{play.children[0]}</task-id>" in notice and len(play.requests()) == 3
    assert sum(isinstance(e, AgentStarted) for e in events_of(walker, play.children[0])) == 1


@pytest.mark.spec("Y3")
async def test_after_some_seconds_it_goes_to_the_background_by_itself(walker: Walker) -> None:
    go = anyio.Event()
    scripts = {"main": [agent("child"), marking(go, "gone on")], "child": [after(go, "late report")]}
    settings = '{"teamwright": {"backgroundAfterSeconds": 0.05}}'
    async with crew(walker, scripts, settings=settings) as play:
        await play.play()
    assert ended_calls(play)[0].data["status"] == "async_launched" and len(play.requests("child")) == 1
    assert len(play.notices) == 1 and "late report" in play.notices[0]


@pytest.mark.spec("Y4", "B2", "B7")
async def test_cancelling_the_turn_stops_the_foreground_tree_and_not_the_background(walker: Walker) -> None:
    deep, never, go = anyio.Event(), anyio.Event(), anyio.Event()
    scripts = {
        "main": [[agent("aside", run_in_background=True), agent("child")], "unasked", "after"],
        "aside": [after(go, "aside ended")],
        "child": [agent("grandchild")],
        "grandchild": [["began", bash("true")], lambda r: (deep.set(), after(never, "never")(r))[1]],
    }
    async with crew(walker, scripts) as play:
        await play.say("go")
        with anyio.fail_after(10):
            await deep.wait()
            await play.submit(Interrupt())
            await play.session.main.at_rest()
        jobs = {j.description: j.status for j in play.session.supervisor.jobs.all()}
        assert jobs == {"does aside": "running", "does child": "killed", "does grandchild": "killed"}
        assert len(play.session.supervisor.agents) == 2  # the main one and the one in the background
        go.set()
        await play.play("go on")
    assert ["aside ended" in notice for notice in play.notices] == [True]
    assert len(play.requests("grandchild")) == 2


@pytest.mark.spec("B8", "R13")
async def test_nesting_ends_at_depth_three_where_the_tool_is_missing(walker: Walker) -> None:
    scripts = {"main": [agent("one")], "one": [agent("two"), "1"], "two": [agent("three"), "2"], "three": [agent("x")]}
    async with crew(walker, scripts) as play:
        await play.play()
    offered = {name: "Agent" in [t.name for t in play.requests(name)[0].tools] for name in scripts}
    assert offered == {"main": True, "one": True, "two": True, "three": False}
    ((text, is_error),) = results(play.requests("three")[1].messages[-1])
    assert is_error and "no tool `Agent`" in text
    started = {e.name: e for id in play.children for e in events_of(walker, id) if isinstance(e, AgentStarted)}
    depths = sorted((e.depth, e.session == play.session.id) for id in play.children for e in events_of(walker, id)[:1])
    assert depths == [(1, True), (2, True), (3, True)] and len(started) == 1


@pytest.mark.spec("R13")
async def test_a_child_may_replace_what_its_parent_read_and_never_the_reverse(walker: Walker) -> None:
    a, b = walker.project / "a", walker.project / "b"
    a.write_text("old a\n")
    b.write_text("old b\n")
    read, write = (lambda p: call("Read", file_path=str(p))), (
        lambda p: call("Write", file_path=str(p), content=f"new {p.name}\n")
    )  # fmt: skip
    scripts = {"main": [read(a), agent("child"), write(b)], "child": [write(a), read(b), "done"]}
    async with crew(walker, scripts) as play:
        await play.play()
    assert a.read_text() == "new a\n" and b.read_text() == "old b\n"
    assert results(play.requests()[-1].messages[-1])[0][1]


@pytest.mark.spec("O1", "O2", "B5", "B10")
async def test_its_events_transcript_and_output_file(walker: Walker) -> None:
    peeked: list[str] = []

    def peek(_: Any) -> Any:
        (file,) = walker.home.rglob("*.output")
        peeked.append(file.read_text())
        return "the report"

    async with crew(walker, {"main": [agent("child")], "child": [bash("echo out-$((1+1))"), peek]}) as play:
        await play.play()
    (child,) = play.children
    (started,), (ended,) = play.of(JobStarted), play.of(JobEnded)
    assert (started.job, started.kind, started.description) == (child, "agent", "does child")
    assert (ended.job, ended.status, ended.call_id) == (child, "completed", started.call_id)
    assert [(p.job, p.last_tool) for p in play.of(JobProgressed)] == [(child, "Bash"), (child, "")]
    assert "out-2" in peeked[0] and "the report" not in peeked[0]  # it grows
    files = [*walker.home.rglob("*.output"), *walker.home.rglob(f"{child}.jsonl")]
    assert len(files) == 2 and all(stat.S_IMODE(f.stat().st_mode) == 0o600 for f in files)
    assert all(stat.S_IMODE(f.parent.stat().st_mode) == 0o700 for f in files)
    mine = [r for r in play.records if r.agent == child and isinstance(r.event, ToolEnded)]
    assert len(mine) == 1 and len(ended_calls(play)) == 1
