"""Commands in the background, from start to the notice of their end, in sessions and in the whole program."""

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from conftest import Walk, Walker
from program import LIMIT, Program, alive, tool, wait_file
from teamwright.app import open_session
from teamwright.core.data.event import LettersTaken
from teamwright.models.scripted import ScriptedModel, call
from teamwright.store.files import transcripts

IMPATIENT = json.dumps({"teamwright": {"jobWaitSeconds": 0.5}})


def background(command: str) -> Any:
    return call("Bash", command=command, description="the work", run_in_background=True)


def agent(script: str, **more: Any) -> Any:
    return call("Agent", description="a child", prompt=f"SCRIPT:{script}", subagent_type="general-purpose", **more)


async def play(walker: Walker, script: Any, **more: Any) -> Walk:
    """Play one prompt and everything that follows, until nothing runs any more."""
    options = walker.options(script, mode="bypassPermissions", **more)
    session = await open_session(options)
    assert isinstance(options.own_model, ScriptedModel)
    walk = Walk(session, options.own_model, [], [])
    with anyio.fail_after(LIMIT):
        async with session:
            watch = session.watch()
            walk.ends.append(await session.ask("go"))
            await session.idle()
        walk.records += [record async for record in watch]
    return walk


def taken(walk: Walk) -> list[str]:
    """The content of all letters to any agent, except prompts."""
    return [e.message.text for e in walk.of(LettersTaken) if "<task-" in e.message.text or "<monitor" in e.message.text]


@pytest.mark.anyio
@pytest.mark.spec("B1", "Q2", "Q3")
async def test_lines_come_between_the_steps_of_a_turn_and_the_end_wakes_nobody(walker: Walker) -> None:
    command = "echo ready; while [ ! -e go ]; do sleep 0.02; done"
    watch = call("Monitor", command=command, description="the server")
    steps = [call("Bash", command="sleep 0.8"), call("Bash", command="touch go")]
    walk = await play(walker, [watch, *steps, "done", "noted"])
    first = walk.model.requests[2].messages[-1].text
    assert "<monitor-lines>" in first and "\nready\n" in first and "<task-notification>" not in first
    assert len(walk.model.requests) == 4


@pytest.mark.anyio
@pytest.mark.spec("B7", "Q3")
async def test_an_end_is_held_up_for_a_while_only_and_what_was_stopped_is_said(walker: Walker) -> None:
    walk = await play(walker, [background("echo $$ > pid; exec sleep 300"), "waiting", "heard"], settings=IMPATIENT)
    (text,) = taken(walk)
    assert "<status>killed</status>" in text and "was stopped: it still ran 0.5 s after everything else" in text
    assert not alive(int((walker.project / "pid").read_text()))
    assert len(walk.model.requests) == 3


@pytest.mark.anyio
@pytest.mark.spec("B7")
async def test_a_monitor_that_alone_holds_up_the_end_is_named_once(walker: Walker) -> None:
    """The answer need not wait for the end of a forgotten monitor."""
    watch = call("Monitor", command="exec sleep 300", description="the log")
    stop = call("TaskStop", task_id=r"{{re:<task-id>(\w+)}}")
    options = walker.options([watch, "the answer", stop, "the whole answer"], mode="bypassPermissions")
    session = await open_session(options)
    session.supervisor.recall_after = 0.05
    with anyio.fail_after(LIMIT):
        async with session:
            await session.ask("go")
            await session.idle()
            end = session.main.history.ended
    assert end is not None and end.text == "the whole answer" and isinstance(options.own_model, ScriptedModel)
    told = options.own_model.requests[2].messages[-1].text
    assert "the log" in told and "still runs, and you wait for nothing else" in told
    assert told.count("must hold the whole answer") == 1
    assert len(options.own_model.requests) == 4


@pytest.mark.anyio
@pytest.mark.spec("B7")
async def test_one_that_is_kept_is_not_named_again(walker: Walker) -> None:
    watch = call("Monitor", command="while [ ! -e go ]; do sleep 0.02; done; echo seen", description="the log")
    options = walker.options([watch, "waiting", call("Bash", command="touch go"), "end"], mode="bypassPermissions")
    session = await open_session(options)
    session.supervisor.recall_after = 0.05
    with anyio.fail_after(LIMIT):
        async with session:
            await session.ask("go")
            await session.idle()
    assert isinstance(options.own_model, ScriptedModel)
    texts = [message.text for message in session.main.history.messages]
    assert sum("still runs" in text for text in texts) == 1 and any("\nseen\n" in text for text in texts)


@pytest.mark.anyio
@pytest.mark.spec("B7")
async def test_what_a_turn_left_running_is_named_with_what_comes_next_and_once(walker: Walker) -> None:
    options = walker.options([background("exec sleep 300"), "begun", "second", "third"], mode="bypassPermissions")
    session = await open_session(options)
    with anyio.fail_after(LIMIT):
        async with session:
            for prompt in ("go", "and now", "and then"):
                await session.ask(prompt)
            (job,) = session.supervisor.jobs.all()
    assert isinstance(options.own_model, ScriptedModel)
    _, _, second, third = options.own_model.requests
    named = f'[Still running for you: command "the work" ({job.id}). TaskStop ends one.]'
    assert [m.text for m in second.messages[-2:]] == [named, "and now"]
    assert [m.text for m in third.messages].count(named) == 1


@pytest.mark.anyio
@pytest.mark.spec("B7", "Q3")
async def test_a_child_waits_for_its_own_commands_and_reports_after_them(walker: Walker) -> None:
    script = {
        "main": [agent("child"), "end"],
        "child": [background("sleep 0.5; echo late words"), "not yet", "now I know"],
    }
    walk = await play(walker, script)
    assert "now I know" in walk.results[-1][0] and "not yet" not in walk.results[-1][0]
    (text,) = taken(walk)
    assert "late words" in text and "<status>completed</status>" in text
    (record,) = [r for r in walk.records if isinstance(r.event, LettersTaken) and r.event.message.text == text]
    assert record.agent != walk.session.id  # the agent's own affair: the main agent is not told


@pytest.mark.anyio
@pytest.mark.spec("B7")
async def test_a_child_is_told_what_it_did_not_wait_for(walker: Walker) -> None:
    script = {"main": [agent("child"), "end"], "child": [background("sleep 300"), "not yet", "without it"]}
    walk = await play(walker, script, settings=IMPATIENT)
    assert "without it" in walk.results[-1][0]
    assert ["was stopped: it still ran" in text for text in taken(walk)] == [True]


@pytest.mark.anyio
@pytest.mark.spec("B2", "B7")
async def test_stopping_an_agent_stops_its_commands(walker: Walker) -> None:
    wait = call("Bash", command="while [ ! -s pid ]; do sleep 0.02; done; cat pid")
    stop = call("TaskStop", task_id=r"{{re:agentId: (\w+)}}")
    script = {
        "main": [agent("child", run_in_background=True), wait, stop, "end"],
        "child": [background("echo $$ > pid; exec sleep 300"), "waiting"],
    }
    walk = await play(walker, script)
    assert not alive(int((walker.project / "pid").read_text())) and walk.results[-1] == (walk.results[-1][0], False)
    assert sorted(job.status for job in walk.session.supervisor.jobs.all()) == ["killed", "killed"]


@pytest.mark.anyio
@pytest.mark.spec("B4", "C7")
async def test_whoever_reads_or_stops_it_is_not_told_again(walker: Walker) -> None:
    id = r"{{re:\nid: (\S+)}}"
    script = [
        background("sleep 0.3; echo read; exit 4"), call("TaskOutput", task_id=id),
        background("echo $$ > pid; sleep 300"), call("TaskStop", shell_id=id), "end",
    ]  # fmt: skip
    walk = await play(walker, script)
    texts = [text for text, _ in walk.results]
    assert (
        "failed" in texts[1] and "Exit code 4" in texts[1] and "read" in texts[1] and texts[3].startswith("Stopped b")
    )
    assert taken(walk) == [] and len(walk.model.requests) == 5


@pytest.mark.spec("B2", "B4", "Q3")
def test_headless_stays_for_a_command_and_tells_of_its_end_once(program: Program) -> None:
    start = tool("Bash", command="sleep 0.7; echo late words", description="the work", run_in_background=True)
    ran = program.prompt([start, "waiting", "heard of it"], "--dangerously-skip-permissions")
    assert ran.rc == 0 and ran.result["result"] == "waiting\n\nheard of it"
    (begun,) = [line for line in ran.lines if line.get("subtype") == "task_started"]
    (note,) = [line for line in ran.lines if line.get("subtype") == "task_notification"]
    assert (begun["task_type"], begun["description"], begun["task_id"]) == ("local_bash", "the work", note["task_id"])
    assert note["status"] == "completed" and note["summary"] == 'Command "the work" completed (exit code 0)'
    assert Path(note["output_file"]).read_text() == "late words\n"


@pytest.mark.spec("B4", "Q5")
def test_a_command_that_was_killed_with_the_program_is_reported_once_after_resume(program: Program) -> None:
    start = tool("Bash", command="echo $$ > pid; exec sleep 300", description="the work", run_in_background=True)
    live = program.start(
        "-p", "go", "--dangerously-skip-permissions", "--output-format", "stream-json", script=[start, "waiting"]
    )
    pid = int(wait_file(program.project / "pid"))
    live.seen(type="result")
    os.kill(live.process.pid, signal.SIGKILL)
    live.process.wait(LIMIT)
    limit = time.monotonic() + LIMIT
    while alive(pid):  # the watching shell ends it
        assert time.monotonic() < limit
        time.sleep(0.01)
    session = program.transcript().stem
    for _ in range(2):
        ran = program.run("-p", "more", "--resume", session, script=[start, "waiting", "heard", "and again"])
        assert ran.rc == 0, ran.err
    events = [line.event for _, line in transcripts.read(program.transcript())]
    told = [e.message.text for e in events if isinstance(e, LettersTaken) and "<task-notification>" in e.message.text]
    assert (
        len(told) == 1
        and "<status>killed</status>" in told[0]
        and "The program ended while this was running" in told[0]
    )
    (output,) = re.findall(r"<output-file>(.+)</output-file>", told[0])
    assert Path(output).is_file()


@pytest.mark.spec("B7", "Q3")
def test_the_end_of_a_forgotten_monitor_does_not_replace_the_answer(program: Program) -> None:
    watch = tool("Monitor", command="exec sleep 60", description="the log", timeout_ms=700)
    ran = program.prompt([watch, "the answer", "noted"])
    assert ran.rc == 0 and ran.result["result"] == "the answer"


@pytest.mark.anyio
@pytest.mark.spec("M7", "B1")
async def test_a_command_that_runs_on_is_not_judged_by_the_files_of_now(walker: Walker) -> None:
    """Its harmlessness would end with the next Write."""
    command = "python3 -m json.tool a.json"
    (walker.project / "a.json").write_text("{}\n")
    watch = call("Monitor", command=command, description="look")
    walk = await walker.walk([call("Bash", command=command), background(command), watch, "done"], mode="acceptEdits")
    assert [wrong for _, wrong in walk.results] == [False, True, True]
    assert all("no allow rule covers" in text for text, _ in walk.results[1:])
