"""A team in an engine whose session continues on another machine, also if that one is killed at once."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from engine_kit import Engines
from place_kit import say
from program import Program, bash, tool
from teamwright.core.data.conversation.history import NEVER_BEGUN

SCRIPT = {
    "main": [
        tool("TeamCreate", team_name="crew"),
        tool("Agent", description="ada works", prompt="SCRIPT:ada", name="ada"),
        "on",
    ],
    # the message has the reply stored in the engine
    "ada": [[say("team-lead", "hello"), bash("echo one >> log"), bash("echo two >> log")], "ended"],
    "after": ["on"],
}
FREE = "--dangerously-skip-permissions"


def events(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line)["event"] for line in file.read_text().splitlines()]


def told(file: Path) -> list[str]:
    return [
        block.get("text", "") for event in events(file) if "message" in event for block in event["message"]["blocks"]
    ]


@pytest.mark.spec("T6", "A2", "Z16")
@pytest.mark.parametrize("line", [1, 2, 3, 4])
def test_killed_before_its_team_goes_on_elsewhere_a_session_has_still_moved(
    program: Program, tmp_path: Path, line: int
) -> None:
    """The next process there begins no call that was meant for the other machine."""
    program.env["TEAMWRIGHT_LEASE_SECONDS"] = "3"
    engine = ("--engine", str(Engines.get().new_space()))
    live = program.talk(SCRIPT, *engine)
    live.say("go")
    live.question()
    id = live.seen(type="system", subtype="init")["session_id"]
    os.killpg(live.process.pid, signal.SIGKILL)
    live.process.wait(20)
    program.project.rename(tmp_path / "gone")
    (tmp_path / "other").mkdir()
    other = Program(tmp_path / "other")
    other.env["TEAMWRIGHT_LEASE_SECONDS"] = "3"
    ways = ("-p", "SCRIPT:after", *engine, FREE, "--resume", id)
    try:
        killed = other.run(*ways, script=SCRIPT, env={"TEAMWRIGHT_CRASHPOINT": f"transcript.append:{line}"})
        assert killed.rc == -signal.SIGKILL
        again = other.run(*ways, script=SCRIPT)
        assert again.rc == 0 and not (other.project / "log").exists(), again.err
        (ada,) = other.state.glob("**/agents/*.jsonl")
        results = [event["content"][0]["text"] for event in events(ada) if event["type"] == "tool_ended"]
        assert results[1:] == [NEVER_BEGUN] * 2
        (lead,) = other.state.glob("**/projects/*/*.jsonl")
        assert [text.startswith("[This session continues on another") for text in told(lead)].count(True) == 1
    finally:
        other.close()
