"""kill -9 while a teammate's question waits: it is asked again after the resume, and nothing runs twice."""

import json
import os
import re
import signal
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from place_kit import teammates, until
from program import Live, Program, Ran, bash, tool, wait_file
from teamwright.core.data.conversation.history import NEVER_BEGUN, NOT_RUN

SCRIPT = {
    "main": [
        tool("TeamCreate", team_name="crew"),
        tool("Agent", description="ada works", prompt="SCRIPT:ada", name="ada"),
        "on",
    ],
    "ada": [[bash("echo one >> log"), bash("echo two >> log"), bash("echo three >> log")], "ended"],
    "after": ["on"],
}


def events_of_ada(program: Program, kind: str) -> list[dict[str, Any]]:
    (file,) = (program.state / "projects").glob("*/*/agents/*.jsonl")
    events = [json.loads(line)["event"] for line in file.read_text().splitlines()]
    return [event for event in events if event["type"] == kind]


def command(question: dict[str, Any]) -> str:
    return question["request"]["input"]["command"].split()[1]


def resumed(program: Program, id: str, *flags: str, script: Any = SCRIPT) -> Live:
    live = program.talk(script, "--resume", id, *flags)
    live.say("SCRIPT:after")
    return live


def killed(live: Live) -> None:
    os.killpg(live.process.pid, signal.SIGKILL)
    live.process.wait(20)


@pytest.mark.spec("T6", "A1", "A2", "M10")
@pytest.mark.parametrize("place", ["in-process", "local"])
def test_a_question_that_waited_is_asked_again_and_nothing_runs_twice(program: Program, place: str) -> None:
    flags = ["--teammate-mode", place]
    live = program.talk(SCRIPT, *flags)
    live.say("go")
    live.answer(first := live.question(), behavior="allow", updatedInput=first["request"]["input"])
    assert [command(first), command(live.question(1))] == ["one", "two"]
    killed(live)
    id = program.transcript().stem
    live = resumed(program, id, *flags)
    assert command(live.question()) == "two"
    killed(live)
    live = resumed(program, id, *flags)
    asked = live.question()
    assert command(asked) == "two"
    live.answer(asked, behavior="deny", message="not that one")
    live.answer(asked := live.question(1), behavior="allow", updatedInput=asked["request"]["input"])
    assert command(asked) == "three" and live.end().rc == 0
    assert (program.project / "log").read_text().split() == ["one", "three"]
    calls = [block["id"] for block in events_of_ada(program, "replied")[0]["message"]["blocks"]]
    ended = events_of_ada(program, "tool_ended")
    assert [event["call_id"] for event in ended] == calls and "not that one" in ended[1]["content"][0]["text"]
    assert len(events_of_ada(program, "replied")) == 2  # the model was not asked again for them


@pytest.mark.spec("T6", "C2")
def test_what_was_said_meanwhile_is_read_after_the_call_that_waited(program: Program) -> None:
    script = SCRIPT | {"after": [tool("SendMessage", to="ada", message="by the way", summary="a note"), "on"]}
    live = program.talk(script)
    live.say("go")
    live.question()
    killed(live)
    id = program.transcript().stem
    live = resumed(program, id, script=script)
    live.seen(subtype="team_event", kind="message")
    killed(live)
    live = resumed(program, id)
    for n in range(3):
        live.answer(live.question(n), behavior="deny", message="no")
    assert live.end().rc == 0
    taken = events_of_ada(program, "letters_taken")
    assert len(taken) == 2 and "by the way" in taken[1]["message"]["blocks"][0]["text"]
    assert len(events_of_ada(program, "tool_ended")) == 3


@pytest.mark.spec("A2", "T6")
@pytest.mark.parametrize("line", [0, 3, 4, 5])
def test_no_call_is_begun_after_one_whose_outcome_is_unknown(program: Program, line: int) -> None:
    """Nor if the first resume is killed at this line of a transcript, between the results of both for example."""
    script = SCRIPT | {"ada": [[bash("echo one >> log; sleep 60"), bash("echo two >> log")], "ended"]}
    live = program.start(
        "-p", "go", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions", script=script
    )
    wait_file(program.project / "log")
    killed(live)
    ran = resumed_twice(program, script, line)
    assert ran.rc == 0 and (program.project / "log").read_text() == "one\n"
    texts = [event["content"][0]["text"] for event in events_of_ada(program, "tool_ended")]
    assert "outcome is unknown" in texts[0] and "ended before this call began" in texts[1]


def resumed_twice(program: Program, script: Any, line: int) -> Ran:
    """Resume, allowing everything; before that, if `line` is given, a resume that is killed at this line."""
    ways = ("--dangerously-skip-permissions", "--resume", program.transcript().stem)
    if line:
        point = {"TEAMWRIGHT_CRASHPOINT": f"transcript.append:{line}"}
        assert program.run("-p", "SCRIPT:after", *ways, script=script, env=point).rc == -signal.SIGKILL
    return program.prompt(script, *ways, text="SCRIPT:after")


@pytest.mark.spec("A2", "T6", "M6")
def test_no_call_is_begun_after_a_no_that_ends_the_turn(program: Program) -> None:
    """Killed between the word that it was denied and its result."""
    live = program.talk(
        SCRIPT, "--teammate-mode", "local", env={"TEAMWRIGHT_TEAMMATE_CRASHPOINT": "transcript.append:6"}
    )
    live.say("go")
    live.answer(live.question(), behavior="deny", message="stop it all", interrupt=True)
    live.seen(subtype="team_event", kind="died")
    assert [event["interrupt"] for event in events_of_ada(program, "denied")] == [True]
    killed(live)
    ran = resumed_twice(program, SCRIPT, 0)
    assert ran.rc == 0 and not (program.project / "log").exists()
    texts = [event["content"][0]["text"] for event in events_of_ada(program, "tool_ended")]
    assert "stop it all" in texts[0] and texts[1:] == [NEVER_BEGUN] * 2


def cut_power(program: Program) -> None:
    """Leave the transcript as another run of the machine would have written it."""
    (file,) = (program.state / "projects").glob("*/*/agents/*.jsonl")
    text, found = re.subn(r'"where":"\w+"', '"where":"before"', file.read_text())
    assert found
    file.write_text(text)


@pytest.mark.spec("A2", "T6")
@pytest.mark.parametrize("line", [0, 3, 4, 5])
def test_after_a_power_cut_no_call_begins_by_itself(program: Program, line: int) -> None:
    """The line that says that it had begun may be gone. This also holds if the first resume is killed."""
    live = program.talk(SCRIPT)
    live.say("go")
    live.question()
    killed(live)
    cut_power(program)
    ran = resumed_twice(program, SCRIPT, line)
    assert ran.rc == 0 and not (program.project / "log").exists()
    assert {event["content"][0]["text"] for event in events_of_ada(program, "tool_ended")} == {NEVER_BEGUN}


@pytest.mark.spec("A2", "T6")
def test_no_call_begins_by_itself_in_a_transcript_of_an_older_version(program: Program) -> None:
    live = program.talk(SCRIPT)
    live.say("go")
    live.question()
    killed(live)
    (file,) = (program.state / "projects").glob("*/*/agents/*.jsonl")
    file.write_text(re.sub(r',"where":"\w+"', "", file.read_text()))
    ran = resumed_twice(program, SCRIPT, 0)
    assert ran.rc == 0 and not (program.project / "log").exists()


@pytest.mark.spec("M6", "A2", "T6")
def test_what_a_person_has_refused_is_not_asked_again(program: Program) -> None:
    """Killed by a hook, between the word that it was denied and its result."""
    deadly = {"hooks": {"PermissionDenied": [{"hooks": [{"type": "command", "command": "kill -9 $PPID"}]}]}}
    live = program.talk(SCRIPT, "--settings", json.dumps(deadly))
    live.say("go")
    live.answer(live.question(), behavior="deny", message="not that one")
    live.process.wait(20)
    live = resumed(program, program.transcript().stem)
    for n in range(2):
        live.answer(asked := live.question(n), behavior="allow", updatedInput=asked["request"]["input"])
    assert live.end().rc == 0 and (program.project / "log").read_text().split() == ["two", "three"]
    (text, *_) = [event["content"][0]["text"] for event in events_of_ada(program, "tool_ended")]
    assert "not that one" in text


ONE = SCRIPT | {
    "ada": [bash("echo one >> log"), "ended"],
    "main": [*SCRIPT["main"], "more"],
    "note": [tool("SendMessage", to="ada", message="by the way", summary="a note"), "on", "more"],
}


@pytest.mark.spec("M6", "A2", "Q1")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_an_answer_to_a_teammate_whose_process_is_gone_lets_its_call_run_once(program: Program, number: int) -> None:
    live = program.talk(ONE, "--teammate-mode", "local")
    live.say("go")
    asked = live.question()
    for pid in teammates(program):
        os.kill(pid, number)
    live.seen(subtype="team_event", kind="died")
    live.answer(asked, behavior="allow", updatedInput=asked["request"]["input"])
    live.seen(subtype="team_event", kind="idle")
    assert live.end().rc == 0 and (program.project / "log").read_text() == "one\n"
    (told,) = events_of_ada(program, "letters_taken")[1:]
    text = told["message"]["blocks"][0]["text"]
    assert "was answered while your process was gone: allowed." in text and "again" not in text
    assert len(events_of_ada(program, "replied")) == 2


@pytest.mark.spec("M6", "M10", "T6")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_teammate_that_resumes_while_its_question_is_open_puts_no_second_one(program: Program, number: int) -> None:
    live = program.talk(ONE, "--teammate-mode", "local")
    live.say("go")
    asked = live.question()
    live.results(1)
    for pid in teammates(program):
        os.kill(pid, number)
    live.seen(subtype="team_event", kind="died")
    live.say("SCRIPT:note")
    until(lambda: events_of_ada(program, "resumed"), "ada does not resume")
    live.answer(asked, behavior="allow", updatedInput=asked["request"]["input"])
    live.seen(subtype="team_event", kind="idle")
    assert live.end().rc == 0 and (program.project / "log").read_text() == "one\n"
    assert [line["type"] for line in live.lines].count("control_request") == 1


@pytest.mark.spec("M6", "M10", "T6")
def test_a_teammate_that_resumes_in_its_leads_process_puts_no_second_question(program: Program) -> None:
    live = program.talk(ONE, "--teammate-mode", "local")
    live.say("go")
    live.question()
    killed(live)
    live = resumed(program, program.transcript().stem, "--teammate-mode", "in-process", script=ONE)
    live.answer(asked := live.question(), behavior="allow", updatedInput=asked["request"]["input"])
    live.seen(subtype="team_event", kind="idle")
    assert live.end().rc == 0 and (program.project / "log").read_text() == "one\n"
    assert [line["type"] for line in live.lines].count("control_request") == 1


@pytest.mark.spec("M6", "M10")
def test_an_answer_that_a_process_did_not_live_to_hear_wakes_its_teammate(program: Program) -> None:
    live = program.talk(ONE, "--teammate-mode", "local")
    live.say("go")
    asked = live.question()
    (pid,) = teammates(program)
    os.kill(pid, signal.SIGSTOP)
    live.answer(asked, behavior="allow", updatedInput=asked["request"]["input"])
    until(lambda: requests(program, "permission") == ["answered"], "the answer is not stored")
    os.kill(pid, signal.SIGKILL)
    live.seen(subtype="team_event", kind="idle")
    assert live.end().rc == 0 and (program.project / "log").read_text() == "one\n"


def requests(program: Program, kind: str) -> list[str]:
    """The states of the requests of this kind."""
    with closing(sqlite3.connect(program.state / "state.db")) as db:
        return [state for (state,) in db.execute("SELECT state FROM requests WHERE kind = ?", (kind,))]


@pytest.mark.spec("A2", "T6")
def test_a_turn_that_was_interrupted_while_its_process_hung_does_not_go_on(program: Program) -> None:
    live = program.talk(ONE, "--teammate-mode", "local")
    live.say("go")
    live.question()
    live.results(1)
    (pid,) = teammates(program)
    os.kill(pid, signal.SIGSTOP)
    assert live.ask("interrupt", agent_id="ada@crew")["subtype"] == "success"
    assert requests(program, "interrupt") == ["open"]
    os.kill(pid, signal.SIGKILL)
    live.seen(subtype="team_event", kind="died")
    killed(live)
    ran = resumed_twice(program, ONE, 0)
    assert ran.rc == 0 and not (program.project / "log").exists()
    (ended,) = events_of_ada(program, "turn_ended")
    assert ended["reason"] == "interrupted" and requests(program, "interrupt") == ["answered"]
    (result,) = events_of_ada(program, "tool_ended")
    assert result["content"][0]["text"] == NOT_RUN


@pytest.mark.spec("T6", "A9", "M3")
def test_a_call_whose_tool_is_denied_by_now_is_answered_in_words(program: Program) -> None:
    live = program.talk(SCRIPT)
    live.say("go")
    live.question()
    killed(live)
    flags = ["--resume", program.transcript().stem, "--disallowed-tools", "Bash"]
    ran = program.prompt(SCRIPT, *flags, text="SCRIPT:after")
    assert ran.rc == 0 and not (program.project / "log").exists()
    (text, *_) = [event["content"][0]["text"] for event in events_of_ada(program, "tool_ended")]
    assert text.startswith("There is no tool `Bash`. Tools: Read, Write,"), text
