"""kill -9 with ten background agents at work, then resume: each is known, reported once, and can be continued."""

import os
import re
import shutil
import signal
import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

from crew import check_valid, results, script_of
from program import Program, bash, tool, wait_file
from teamwright.app import Options, open_session
from teamwright.core.data.conversation.history import fold
from teamwright.core.data.event import AgentEnded, AgentStarted, ToolEnded
from teamwright.core.data.message import Message, Request, Text
from teamwright.models.scripted import ScriptedModel, call
from teamwright.runtime.agents.resume import Origin
from teamwright.store.files import transcripts
from worktree_kit import git

pytestmark = [pytest.mark.anyio, pytest.mark.spec("B4", "C3", "C4", "Q5", "A2")]
MANY = 10
NOTICE = re.compile(r"<task-id>(\w+)</task-id>")


def launches(script: str, many: int, **more: Any) -> list[dict[str, Any]]:
    each = {"description": "works", "run_in_background": True} | more
    return [tool("Agent", prompt=f"SCRIPT:{script} number-{n}.", **each) for n in range(many)]


def children(program: Program) -> list[Path]:
    return sorted((program.state / "projects").glob("*/*/agents/*.jsonl"))


def finished(program: Program) -> list[tuple[str, str]]:
    """(agent, call) of every good result on disk."""
    files = children(program)
    found = [(f.stem, line.event) for f in files for _, line in transcripts.read(f)]
    return [(id, e.call_id) for id, e in found if isinstance(e, ToolEnded) and not e.is_error]


def marks(program: Program) -> Counter[str]:
    """How often each command that leaves a mark has run."""
    file = program.project / "marks"
    return Counter(file.read_text().split()) if file.exists() else Counter()


def known_rows(program: Program) -> dict[str, tuple[str, int]]:
    """(status, in the background) of each agent's first run as the killed process left it."""
    db = sqlite3.connect(program.state / "state.db")
    try:
        rows = db.execute("SELECT id, status, background FROM jobs WHERE run = 1").fetchall()
    except sqlite3.OperationalError:  # killed before there were tables
        rows = []
    db.close()
    return {id: (status, background) for id, status, background in rows}


def notices(messages: tuple[Message, ...]) -> list[str]:
    texts = [b.text for m in messages for b in m.blocks if isinstance(b, Text)]
    return [NOTICE.findall(text)[0] for text in texts if text.startswith("<task-notification>")]


async def resumed(program: Program, model: ScriptedModel, prompt: str) -> dict[str, Any]:
    """One more process on what is left; returns its last listing."""
    options = Options(
        cwd=program.project, env=program.env, own_model=model, mode="bypassPermissions",
        origin=Origin(resume=program.transcript().stem),
    )  # fmt: skip
    with anyio.fail_after(30):
        async with await open_session(options) as session:
            end = await session.ask(prompt)
            await session.idle()
            assert end.reason == "done", end
            return {"messages": tuple(session.main.history.messages), "id": session.id}


def answering(plan: Any) -> ScriptedModel:
    """The main agent does what is planned for the newest prompt; a child only says that it continues."""

    def play(request: Request) -> Any:
        if script_of(request) != "main":
            return "gone on"
        texts = [m.text for m in request.messages if m.role == "user"]
        return plan if "PLAN" in texts[-1] else "noted"

    return ScriptedModel(play)


async def check_all_known_and_told_once(program: Program) -> None:
    before, rows, done = {f.stem for f in children(program)}, known_rows(program), finished(program)
    ran = marks(program)
    seen = await resumed(program, answering(call("ListAgents")), "PLAN")
    check_valid(seen["messages"])
    listed = re.findall(r"^(a[0-9a-f]{16})\b", results(next_results(seen["messages"]))[0][0], re.MULTILINE)
    assert set(listed) == set(rows) and set(rows) <= before and len(listed) == len(set(listed))
    told = Counter(notices(seen["messages"]))
    assert told == Counter(id for id, (_, background) in rows.items() if background)
    assert marks(program) == ran and set(done) <= set(finished(program))  # nothing runs by itself, nothing is lost
    lines = {f: f.read_bytes() for f in children(program)}
    sends = [call("SendMessage", to=id, message="now go on", summary="go on") for id in listed]
    again = await resumed(program, answering(sends), "and now PLAN")
    check_valid(again["messages"])
    assert Counter(notices(again["messages"])) - told == Counter(listed)
    for file, was in lines.items():
        if file.stem in listed:
            check_continued(file, was)


def check_continued(file: Path, was: bytes) -> None:
    """It continues from its whole transcript; no second life was begun."""
    assert file.read_bytes().startswith(was[: was.rfind(b"\n") + 1])
    events = [line.event for _, line in transcripts.read(file)]
    assert sum(isinstance(e, AgentStarted) for e in events) == 1 and isinstance(events[-1], AgentEnded)
    history = fold(events)
    check_valid(history.messages)
    assert sum("now go on" in m.text for m in history.messages) == 1


def next_results(messages: tuple[Message, ...]) -> Message:
    """The message with the results of the last calls."""
    return [m for m in messages if results(m)][-1]


async def test_killed_with_ten_agents_at_work(program: Program) -> None:
    work = bash("echo $TEAMWRIGHT_AGENT_ID >> marks; mkfifo hold-$TEAMWRIGHT_AGENT_ID; cat hold-$TEAMWRIGHT_AGENT_ID")
    script = {
        "main": [launches("child", MANY), "all launched"],
        "child": [bash("echo $TEAMWRIGHT_AGENT_ID >> marks"), work],
    }
    live = program.start("-p", "SCRIPT:main", "--dangerously-skip-permissions", script=script)
    with anyio.fail_after(30):
        while sum(marks(program).values()) < 2 * MANY:
            await anyio.sleep(0.02)
    os.kill(live.process.pid, signal.SIGKILL)
    live.process.wait(10)
    assert len(children(program)) == MANY and all(f.stem in marks(program) for f in children(program))
    await check_all_known_and_told_once(program)
    assert all(n == 2 for n in marks(program).values())
    for file in children(program):  # the command in flight has one result, which says so
        ends = [line.event for _, line in transcripts.read(file) if isinstance(line.event, ToolEnded)]
        assert [e.is_error for e in ends] == [False, True] and "outcome is unknown" in ends[1].content[0].text


@pytest.mark.spec("B11")
async def test_what_it_had_said_and_used_is_in_the_word_about_it(program: Program) -> None:
    script = {
        "main": [launches("child", 1), "launched"],
        "child": [
            bash("true"),
            [{"text": "The leak is in pump 7."}, bash("echo $$ > pid; cat < /dev/zero > /dev/null")],
        ],
    }
    live = program.start("-p", "SCRIPT:main", "--dangerously-skip-permissions", script=script)
    wait_file(program.project / "pid")
    os.kill(live.process.pid, signal.SIGKILL)
    live.process.wait(10)
    seen = await resumed(program, answering("unused"), "what now")
    (told,) = [m.text for m in seen["messages"] if "<task-notification>" in m.text]
    assert "The leak is in pump 7." in told and "<status>killed</status>" in told and "tool_uses: 1" in told


@pytest.mark.spec("B11", "W9")
@pytest.mark.parametrize("done", [False, True])
async def test_what_is_in_its_worktree_is_in_the_word_about_it(program: Program, done: bool) -> None:
    """Killed at work, or after its end and before the notice of it."""
    git(program.project, "init", "-q")
    git(program.project, "commit", "-q", "--allow-empty", "-m", "first")
    work = "echo work > made; echo $$ > pid; cat < /dev/zero > /dev/null"
    tree = program.project / ".teamwright/worktrees/ada"
    script = {
        "main": [launches("child", 1, isolation="worktree", name="ada"), "launched"],
        "child": ["all is well"] if done else [bash(work)],
    }
    env = {"TEAMWRIGHT_CRASHPOINT": "worktree.judged:1"} if done else {}
    live = program.start("-p", "SCRIPT:main", "--dangerously-skip-permissions", script=script, env=env)
    if not done:
        wait_file(tree / "pid")
        os.kill(live.process.pid, signal.SIGKILL)
    live.process.wait(20)
    seen = await resumed(program, answering("unused"), "what now")
    (told,) = [m.text for m in seen["messages"] if "<task-notification>" in m.text]
    assert f"Its worktree was kept: {tree} (branch worktree-ada)" in told
    assert ("all is well" in told) if done else ("made | +1 -0" in told)


async def test_a_foreground_agent_in_flight_is_named_by_the_result_of_its_call(program: Program) -> None:
    script = {
        "main": [tool("Agent", description="waits", prompt="SCRIPT:child")],
        "child": [bash("echo $$ > pid; cat < /dev/zero > /dev/null")],
    }
    live = program.start("-p", "SCRIPT:main", "--dangerously-skip-permissions", script=script)
    wait_file(program.project / "pid")
    os.kill(live.process.pid, signal.SIGKILL)
    live.process.wait(10)
    (child,) = children(program)
    model = answering("unused")
    seen = await resumed(program, model, "what now")
    check_valid(seen["messages"])
    ((text, is_error),) = results(next_results(seen["messages"]))
    assert is_error and child.stem in text and "SendMessage" in text and not notices(seen["messages"])


async def test_a_nested_agent_in_flight_is_named_to_its_parent_once_that_goes_on(program: Program) -> None:
    nested = tool("Agent", description="waits", prompt="SCRIPT:deep")
    script = {
        "main": [launches("child", 1)],
        "child": [nested],
        "deep": [bash("echo $$ > pid; cat < /dev/zero > /dev/null")],
    }
    live = program.start("-p", "SCRIPT:main", "--dangerously-skip-permissions", script=script)
    wait_file(program.project / "pid")
    os.kill(live.process.pid, signal.SIGKILL)
    live.process.wait(10)
    ids = {
        line.event.depth: f.stem
        for f in children(program)
        for _, line in transcripts.read(f)
        if isinstance(line.event, AgentStarted)
    }
    model = answering(call("SendMessage", to=ids[1], message="go on", summary="go on"))
    await resumed(program, model, "PLAN")
    events = [line.event for f in children(program) if f.stem == ids[1] for _, line in transcripts.read(f)]
    ((text, is_error),) = results(next_results(tuple(fold(events).messages)))
    assert is_error and ids[2] in text and "SendMessage" in text


def run_killed(program: Program, point: str, passes: int) -> bool:
    """False if the run ended by itself."""
    child = [bash("echo $TEAMWRIGHT_AGENT_ID-one >> marks"), bash("echo $TEAMWRIGHT_AGENT_ID-two >> marks"), "report"]
    script = {
        "main": [launches("child", 3), tool("Agent", description="fg", prompt="SCRIPT:child"), "end"],
        "child": child,
    }
    ran = program.run(
        "-p", "SCRIPT:main", "--dangerously-skip-permissions", script=script,
        env={"TEAMWRIGHT_CRASHPOINT": f"{point}:{passes}"},
    )  # fmt: skip
    assert ran.rc in (0, -signal.SIGKILL), ran.err
    wait_for_orphans(program)
    return ran.rc != 0


def wait_for_orphans(program: Program) -> None:
    """A command that ran when its program was killed may leave its mark afterwards."""
    end = time.monotonic() + 10
    while any(stands_in(entry, program.project) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        assert time.monotonic() < end, "a command goes on"
        time.sleep(0.01)


def stands_in(process: Path, directory: Path) -> bool:
    try:
        return (process / "cwd").readlink() == directory
    except OSError:
        return False


@pytest.mark.parametrize("point", ["state.committed", "state.commit", "transcript.append", "transcript.sync"])
async def test_killed_at_crash_points_all_over_the_run(tmp_path: Path, point: str) -> None:
    died = 0
    for passes in (7, 11, 16, 23, 33, 47, 60):
        root = tmp_path / str(passes)
        root.mkdir()
        program = Program(root)
        if not run_killed(program, point, passes):
            break
        died += 1
        await check_all_known_and_told_once(program)
        assert all(n == 1 for n in marks(program).values()), "a command ran twice"
        shutil.rmtree(root)
    assert died >= 2


@pytest.mark.spec("C3", "C4", "X2")
async def test_a_message_to_an_ended_agent_is_heard_or_said_not_to_be_sent_wherever_it_is_killed(
    tmp_path: Path,
) -> None:
    """The letter and the run that reads it are two commits."""
    send = tool("SendMessage", to="{{re:agentId: (\\w+)}}", message="remember the milk", summary="milk")
    script = {"main": [tool("Agent", description="d", prompt="SCRIPT:child"), send, "end"], "child": ["first", "more"]}
    heard_later = died = 0
    for passes in range(4, 60):
        root = tmp_path / str(passes)
        root.mkdir()
        program = Program(root)
        ran = program.run(
            "-p", "SCRIPT:main", "--dangerously-skip-permissions", script=script,
            env={"TEAMWRIGHT_CRASHPOINT": f"state.committed:{passes}"},
        )  # fmt: skip
        if ran.rc == 0:
            break
        died += 1
        before = [heard(file) for file in children(program)]
        seen = await resumed(program, answering("unused"), "what now")
        check_valid(seen["messages"])
        told = "".join(text for m in seen["messages"] for text, _ in results(m)) + "".join(notices_in(seen))
        after = [heard(file) for file in children(program)]
        stored = "was stored" in told or "goes on in the background" in told
        assert after in ([], [0], [1]) and (not stored or after == [1] or "continue" in told), (passes, told)
        assert after != [1] or before == [1] or stored or "continue" in told
        heard_later += after != before
        shutil.rmtree(root)
    assert died > 10 and heard_later >= 1


def heard(transcript: Path) -> int:
    history = fold(line.event for _, line in transcripts.read(transcript))
    return sum("remember the milk" in m.text for m in history.messages)


def notices_in(seen: dict[str, Any]) -> list[str]:
    return [m.text for m in seen["messages"] if "<task-notification>" in m.text]
