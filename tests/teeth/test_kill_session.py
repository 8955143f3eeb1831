"""kill -9 at every crash point of a whole run: the result is valid, nothing runs twice, no prompt is lost."""

import shutil
import signal
import sqlite3
from pathlib import Path

import anyio
import pytest

from program import Program, bash
from teamwright.app import Options, open_session
from teamwright.core.data.event import ToolEnded
from teamwright.core.data.message import Message, Text, ToolResult
from teamwright.core.errors import SessionMissing
from teamwright.models.scripted import ScriptedModel, call
from teamwright.runtime.agents.resume import Origin
from teamwright.store.files import transcripts

pytestmark = [pytest.mark.anyio, pytest.mark.spec("A1", "A2", "Q5", "X2", "O2")]
TURNS = 3
COMMANDS = [f"echo line-{n} >> lines" for n in range(TURNS)]
PROMPT = "the task"
MOST = 60  # passes of one crash point in one run
POINTS = ("transcript.append", "transcript.half", "transcript.sync", "state.commit", "state.committed")


def run_killed(program: Program, point: str, passes: int, *args: str) -> bool:
    """Play the script and die at that pass; False if the run ended by itself."""
    ran = program.run(
        "-p", PROMPT, "--dangerously-skip-permissions", *args, script=[*map(bash, COMMANDS), "finished"],
        env={"TEAMWRIGHT_CRASHPOINT": f"{point}:{passes}"},
    )  # fmt: skip
    assert ran.rc in (0, -signal.SIGKILL), ran.err
    if ran.rc == 0 and not args:
        assert ran.out == "finished\n" and lines(program) == [f"line-{n}" for n in range(TURNS)]
    return ran.rc != 0


def lines(program: Program) -> list[str]:
    file = program.project / "lines"
    return file.read_text().split() if file.exists() else []


def stored_prompts(program: Program) -> list[str]:
    """Letters that were acknowledged to their senders."""
    if not (program.state / "state.db").exists():
        return []
    db = sqlite3.connect(program.state / "state.db")
    try:
        return [row[0] for row in db.execute("SELECT id FROM letters")]
    except sqlite3.OperationalError:  # killed before there were tables
        return []
    finally:
        db.close()


def check_valid(messages: tuple[Message, ...]) -> None:
    owed: list[str] = []
    for message in messages:
        assert message.blocks
        assert [b.call_id for b in message.blocks if isinstance(b, ToolResult)] == owed
        owed = [c.id for c in message.calls]
    assert not owed


def finished_before(program: Program) -> list[str]:
    """The lines whose commands have a good result on disk."""
    found: list[str] = []
    for file in (program.state / "projects").glob("*/*.jsonl"):
        events = [line.event for _, line in transcripts.read(file)]
        found += [e.call_id for e in events if isinstance(e, ToolEnded) and not e.is_error]
    return found


async def check_recovery(program: Program) -> str:
    """Continue what is left with the same script; returns how that had to be done."""
    files = list((program.state / "projects").glob("*/*.jsonl"))
    sent, finished = stored_prompts(program), finished_before(program)
    model = ScriptedModel([*(call("Bash", command=command) for command in COMMANDS), "finished"])
    origin = Origin(resume=files[0].stem) if files else Origin()
    options = Options(
        cwd=program.project, env=program.env, own_model=model, mode="bypassPermissions", origin=origin, may_bypass=True
    )
    try:
        session = await open_session(options)
    except SessionMissing:
        assert not sent and not lines(program)
        return "nothing was recorded"
    with anyio.fail_after(30):
        async with session:
            await session.idle()  # a prompt that was stored but not read is read now
            end = await session.ask("and now?")
    assert end.reason == "done", end
    for request in model.requests:
        check_valid(request.messages)
    said = [b.text for m in model.requests[-1].messages if m.role == "user" for b in m.blocks if isinstance(b, Text)]
    assert said.count(PROMPT) == len(sent) and said.count("and now?") == 1
    ran = lines(program)
    assert len(ran) == len(set(ran)), f"a command ran twice: {ran}"
    assert len(ran) >= len(finished)
    return "resumed" if files else "begun anew"


@pytest.mark.parametrize("point", POINTS)
async def test_a_session_killed_at_any_pass_comes_back_whole(tmp_path: Path, point: str) -> None:
    ways: list[str] = []
    for passes in range(1, MOST):
        root = tmp_path / str(passes)
        root.mkdir()
        program = Program(root)
        if not run_killed(program, point, passes):
            break
        ways.append(await check_recovery(program))
        shutil.rmtree(root)
    else:
        raise AssertionError("the run never ended by itself")
    assert "resumed" in ways and len(ways) >= 5


async def test_resumes_that_are_killed_too_are_resumed_again(program: Program) -> None:
    """Each process dies while it takes over from the previous one, and each was given its own prompt."""
    assert run_killed(program, "transcript.append", 10)  # in the middle of a command
    id = program.transcript().stem
    kills = [("transcript.append", 1), ("transcript.half", 2), ("state.commit", 1), ("state.committed", 2)]
    kills += [("state.committed", 3), ("transcript.sync", 1), ("transcript.append", 4)]
    died = [run_killed(program, point, passes, "--resume", id) for point, passes in kills]
    assert sum(died) >= 5
    assert await check_recovery(program) == "resumed"
