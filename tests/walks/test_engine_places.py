"""Teammates in processes of their own, of a session in an engine: they are resumed, here and on another machine."""

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from engine_kit import Engines
from place_kit import CREATE, FREE, mate, options, say, teammates, until
from program import Live, Program, bash
from teamwright.core.data.conversation.history import NEVER_BEGUN

LEASE = 3  # seconds


@pytest.fixture(params=["local", "tmux"])
def apart(request: pytest.FixtureRequest, program: Program) -> Iterator[list[str]]:
    """Each place with processes of their own, and an engine."""
    program.env["TEAMWRIGHT_LEASE_SECONDS"] = str(LEASE)
    for place in options(request.param, program):
        yield [*place, "--engine", str(Engines.get().new_space())]


def kill(program: Program, live: Live) -> None:
    os.killpg(live.process.pid, signal.SIGKILL)
    live.process.wait(20)
    for pid in teammates(program):
        os.kill(pid, signal.SIGKILL)


def on_another_machine(program: Program) -> None:
    """The same paths in the project, but another home."""
    home = program.root / "elsewhere"
    home.mkdir()
    program.state = home / ".teamwright"
    program.env |= {"HOME": str(home), "TEAMWRIGHT_HOME": str(program.state)}


def events_of_ada(program: Program) -> list[dict[str, Any]]:
    (path,) = program.state.glob("engines/*/projects/*/*/agents/*.jsonl")
    return [json.loads(line)["event"] for line in path.read_text().splitlines()]


def log(program: Program) -> str:
    path = program.project / "log"
    return path.read_text() if path.exists() else ""


SCRIPT = {
    "main": [CREATE, mate("ada"), bash("touch waits; sleep 60"), "on"],
    "ada": [[bash("echo one >> log"), bash("echo two >> log")], "ended", "on", "on"],
    "after": ["on", "on", "on"],
}


def killed_with_a_question(program: Program, apart: list[str]) -> str:
    """The session in which ada's call waits for an answer, and the lead's has begun."""
    live = program.talk(SCRIPT, *apart)
    live.say("go")
    asked = [live.question(0), live.question(1)]
    (own,) = [each for each in asked if "waits" in each["request"]["input"]["command"]]
    live.answer(own, behavior="allow", updatedInput=own["request"]["input"])
    until((program.project / "waits").exists, "the lead's call")
    kill(program, live)
    return live.seen(type="system", subtype="init")["session_id"]


@pytest.mark.spec("T6", "Z1", "E6")
def test_an_interrupted_turn_goes_on_in_a_process_of_its_own(program: Program, apart: list[str]) -> None:
    session = killed_with_a_question(program, apart)
    ran = program.prompt(SCRIPT, *apart, FREE, "--resume", session, text="SCRIPT:after")
    told = [line["kind"] for line in ran.lines if line.get("subtype") == "team_event"]
    assert ran.rc == 0 and log(program) == "one\ntwo\n" and "died" not in told, (told, ran.err)


@pytest.mark.spec("T6", "Z16", "E6")
def test_its_calls_do_not_begin_on_another_machine(program: Program, apart: list[str]) -> None:
    session = killed_with_a_question(program, apart)
    on_another_machine(program)
    ran = program.prompt(SCRIPT, *apart, FREE, "--resume", session, text="SCRIPT:after")
    assert ran.rc == 0 and "runs in this process" not in ran.err, ran.err
    seen = events_of_ada(program)
    results = [event["content"][0]["text"] for event in seen if event["type"] == "tool_ended"]
    assert log(program) == "" and results == [NEVER_BEGUN] * 2 and seen[-1]["type"] == "turn_ended"


@pytest.mark.spec("E7", "X6", "E6")
def test_a_message_brings_back_one_whose_process_died(program: Program, apart: list[str]) -> None:
    script = {
        "main": [CREATE, mate("ada"), *["on"] * 9],
        "ada": [bash("echo one >> log; while :; do sleep 0.05; done"), "ended"],
        "back": [say("ada", "SCRIPT:again"), *["on"] * 9],
        "again": [bash("echo again >> log"), "done"],
    }
    live = program.talk(script, *apart, FREE)
    live.say("go")
    until(lambda: log(program) == "one\n", "its call")
    (pid,) = teammates(program)
    os.kill(pid, signal.SIGKILL)
    live.seen(subtype="team_event", kind="died")
    live.say("SCRIPT:back")
    until(lambda: log(program) == "one\nagain\n", "it works again")
    assert live.end().rc == 0
    until(lambda: not teammates(program), "the end of all")


@pytest.mark.spec("T6", "Z16", "E6")
def test_it_gets_a_process_where_its_directory_is_not(program: Program, apart: list[str]) -> None:
    script = SCRIPT | {"ada": [bash("pwd >> " + str(program.root / "log")), "ended", "on", "on"]}
    live = program.talk(script, *apart)
    live.say("go")
    live.question(1)
    kill(program, live)
    on_another_machine(program)
    program.project.rename(program.root / "gone")
    program.project = program.root / "clone"
    program.project.mkdir()
    session = live.seen(type="system", subtype="init")["session_id"]
    ran = program.prompt(script, *apart, FREE, "--resume", session, text="SCRIPT:after")
    assert ran.rc == 0 and "runs in this process" not in ran.err, ran.err
    assert events_of_ada(program)[-1]["type"] == "turn_ended"
