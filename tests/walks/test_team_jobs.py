"""Jobs of teammates in processes of their own: what becomes of them when such a process dies, or outlives its lead."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from place_kit import CREATE, FREE, mate, options, say, teammates, until
from program import LIMIT, Live, Program, bash, tool

WHILE_IT_LIVES = "touch up; while kill -0 $PPID; do sleep 0.1; done"


@pytest.fixture(params=["local", "tmux"])
def apart(request: pytest.FixtureRequest, program: Program) -> Iterator[list[str]]:
    yield from options(request.param, program)


def in_background(command: str) -> dict[str, Any]:
    return tool("Bash", command=command, description="waits", run_in_background=True)


def begun(program: Program, place: list[str], **scripts: list[Any]) -> Live:
    """A team whose teammate ada has begun her work."""
    script = {"main": [CREATE, mate("ada"), *["on"] * 9], "back": [say("ada", "hello"), "on"]} | scripts
    live = program.talk(script, FREE, *place)
    live.say("go")
    until((program.project / "up").exists, "the teammate at work")
    return live


def told(live: Live, kind: str) -> None:
    live.wait_for(lambda line: line.get("subtype") == "team_event" and line["kind"] == kind)


def dies_and_comes_back(program: Program, live: Live) -> None:
    for pid in teammates(program):
        os.kill(pid, signal.SIGKILL)
    told(live, "died")
    live.say("SCRIPT:back")
    told(live, "idle")
    assert live.end().rc == 0


def lines(program: Program, type: str) -> list[str]:
    """Of all agents but the lead."""
    files = map(Path.read_text, (program.state / "projects").glob("*/*/agents/*.jsonl"))
    return [line for text in files for line in text.splitlines() if f'"{type}"' in line]


@pytest.mark.spec("B4", "E7")
def test_the_end_of_a_command_that_died_with_its_teammate_is_told_once(program: Program, apart: list[str]) -> None:
    live = begun(program, apart, ada=[in_background(WHILE_IT_LIVES), *["on"] * 9])
    dies_and_comes_back(program, live)
    assert "".join(lines(program, "letters_taken")).count("<status>killed</status>") == 1


@pytest.mark.spec("A2", "B11", "E7")
def test_an_agent_that_died_with_its_teammate_is_not_at_work(program: Program, apart: list[str]) -> None:
    helps = tool("Agent", description="helps", prompt="SCRIPT:help")
    live = begun(program, apart, ada=[helps, *["on"] * 9], help=[bash(WHILE_IT_LIVES), "helped"])
    dies_and_comes_back(program, live)
    (ended,) = [line for line in lines(program, "tool_ended") if "(helps)" in line]
    assert "It is killed; SendMessage continues it." in ended


@pytest.mark.spec("B4", "E8")
def test_a_command_of_an_adopted_teammate_runs_on_and_is_told_when_it_ends(program: Program) -> None:
    command = "touch up; until [ -e go ]; do sleep 0.1; done"
    for place in options("tmux", program):
        live = begun(program, place, ada=[in_background(command), *["on"] * 9])
        live.process.kill()
        live.process.wait(LIMIT)
        script = {"back": ["on"] * 9}
        live = program.talk(script, "--resume", program.transcript().stem, FREE, *place)
        live.say("SCRIPT:back")
        live.seen(type="result")
        (program.project / "go").touch()
        told(live, "idle")
        assert live.end().rc == 0
        read = "".join(lines(program, "letters_taken"))
        assert "<status>completed</status>" in read and "killed" not in read
