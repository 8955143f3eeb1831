"""Sessions from outside: resume, continue, fork, ids; and the commands that list and remove them."""

import json
import os
import signal
import uuid
from typing import Any

import pytest

from program import Program, bash, tool_results, wait_file

MISSING = "6f2a2c1e-4b5d-4c0a-9d3e-1f2a3b4c5d6e"
SCRIPT = ["one", "two", "three", "four"]


def say(program: Program, *args: str, text: str = "go") -> dict[str, Any]:
    ran = program.run("-p", text, "--output-format", "json", *args, script=SCRIPT)
    assert ran.rc == 0, ran.err
    return ran.result


@pytest.mark.spec("O2")
def test_resume_continue_and_fork_go_on_where_the_session_was(program: Program) -> None:
    first = say(program)
    id = first["session_id"]
    again = say(program, "--resume", id)
    assert (again["result"], again["session_id"]) == ("two", id)  # the script counts the replies before
    fork = say(program, f"--resume={id}", "--fork-session")
    assert fork["result"] == "three" and fork["session_id"] != id
    last = say(program, "--continue")
    assert (last["result"], last["session_id"]) == ("four", fork["session_id"])
    assert say(program, "-r", id)["result"] == "three"  # the fork did not touch it


@pytest.mark.spec("CL2")
def test_the_beginning_of_an_id_is_enough(program: Program) -> None:
    one, two = "aaaa0001" + MISSING[8:], "aaaa0002" + MISSING[8:]
    for id in (one, two):
        say(program, "--session-id", id)
    assert say(program, "--resume", "AAAA0001")["session_id"] == one
    assert json.loads(program.run("cost", "aaaa0002", "--json").out)["agents"][0]["session"] == two
    assert one in program.run("jobs", "aaaa0001").out and one in program.run("tasks", "--session", one[:12]).out
    assert program.run("why", "aaaa0001").rc == 0
    for args in (["-p", "x", "--resume", "aaaa"], ["cost", "aaaa"], ["sessions", "delete", "aaaa000"]):
        ran = program.run(*args, *(program.model(SCRIPT) if "-p" in args else ()))
        assert ran.rc == 2 and "2 sessions" in ran.err and one in ran.err and two in ran.err, args
    short = program.run("sessions", "delete", "aaa")  # it could be a name
    assert short.rc == 1 and "'aaa' is too short for a session's id" in short.err
    assert "deleted 1 of 1" in program.run("sessions", "delete", "aaaa0002").out
    assert [entry["id"] for entry in json.loads(program.run("sessions", "--json").out)] == [one]


def test_a_session_id_names_a_new_session(program: Program) -> None:
    id = str(uuid.uuid4())
    assert say(program, "--session-id", id)["session_id"] == id
    taken = program.run("-p", "x", "--session-id", id, script=SCRIPT)
    assert taken.rc == 2 and "--resume" in taken.err and taken.out == ""
    other = str(uuid.uuid4())
    assert say(program, "--resume", id, "--fork-session", f"--session-id={other}")["session_id"] == other


def test_a_home_that_is_no_directory_is_one_sentence(program: Program) -> None:
    program.state.write_text("a file")
    ran = program.run("-p", "x", *program.model(SCRIPT))
    assert ran.rc == 1 and str(program.state) in ran.err and ran.err.count("\n") == 1 and ran.out == ""


@pytest.mark.parametrize(
    ("args", "rc", "words"),
    [
        (["--resume", MISSING], 1, MISSING),
        (["--resume", "../../etc"], 1, "no session"),
        (["--resume"], 2, "needs a session"),
        (["--continue"], 1, "no session to continue"),
        (["--fork-session"], 2, "--fork-session needs"),
        (["--session-id", "me"], 2, "not a UUID"),
        (["--resume", MISSING, "--continue"], 2, "cannot be combined"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_resumed_is_one_sentence(program: Program, args: list[str], rc: int, words: str) -> None:
    ran = program.run("-p", "x", *program.model(SCRIPT), *args)
    assert ran.rc == rc and words in ran.err and ran.err.count("\n") == 1 and ran.out == ""
    assert not (program.state / "projects").exists()


@pytest.mark.spec("O2")
def test_two_processes_cannot_run_one_session(program: Program) -> None:
    live = program.talk(["one", "two"])
    live.say("go")
    id = live.results(1)[0]["session_id"]
    second = program.run("-p", "x", "--resume", id, script=SCRIPT)
    assert second.rc == 1 and "another process" in second.err
    gone = program.run("sessions", "delete", id)
    assert gone.rc == 1 and "still running" in gone.err and program.transcript().exists()
    live.say("still mine")
    assert live.results(2)[1]["result"] == "two"
    assert live.end().rc == 0
    assert say(program, "--resume", id)["result"] == "three"


@pytest.mark.spec("A2")
def test_after_kill_9_in_mid_command_the_outcome_is_unknown_and_it_is_not_run_again(program: Program) -> None:
    live = program.start("-p", "go", "--output-format", "stream-json", "--dangerously-skip-permissions",
                         script=[bash("echo ran >> ran; echo $$ > pid; exec sleep 1000"), "after"])  # fmt: skip
    live.wait_for(lambda line: line["type"] == "assistant")
    left = int(wait_file(program.project / "pid"))
    live.process.kill()
    live.process.wait()
    program.run("-p", "x", "--continue", "--output-format", "stream-json", script=["-", "after"])
    sent = program.transcript().read_text()
    assert "its outcome is unknown" in sent and (program.project / "ran").read_text() == "ran\n"
    os.kill(left, signal.SIGKILL)  # a program that is killed cannot take its commands with it


def test_sessions_are_listed_for_people_and_for_programs(program: Program) -> None:
    assert "no sessions" in program.run("sessions").out
    assert json.loads(program.run("sessions", "--json").out) == []
    id = say(program, text="fix \x1b[31m the\nbug")["session_id"]
    (entry,) = json.loads(program.run("sessions", "--json").out)
    assert entry["id"] == id and entry["cwd"] == str(program.project) and entry["fault"] is None
    assert entry["prompt"] == "fix \x1b[31m the bug" and entry["path"] == str(program.transcript())
    table = program.run("sessions").out
    assert id in table and r"fix \x1b[31m the bug" in table
    elsewhere = program.run("sessions", cwd=program.home).out
    assert id not in elsewhere and "--all" in elsewhere
    assert id in program.run("sessions", "--all", cwd=program.home).out


@pytest.mark.spec("S2")
def test_a_session_that_began_with_a_command_is_listed_by_what_was_typed(program: Program) -> None:
    (program.home / ".claude" / "commands").mkdir(parents=True)
    (program.home / ".claude" / "commands" / "greet.md").write_text("Say hello to $ARGUMENTS.")
    assert program.run("-p", "/greet ada", script=["hello"]).rc == 0
    assert "Say hello to ada." in program.transcript().read_text()
    (listed,) = json.loads(program.run("sessions", "--json").out)
    assert listed["prompt"] == "/greet ada"


def test_sessions_are_removed_with_all_that_belongs_to_them(program: Program) -> None:
    one, two = say(program)["session_id"], say(program)["session_id"]
    assert program.run("sessions", "delete").rc == 2
    missing = program.run("sessions", "delete", one, MISSING)
    assert missing.rc == 1 and "nothing was deleted" in missing.err
    assert "deleted 1 of 1" in program.run("sessions", "delete", one).out
    assert [e["id"] for e in json.loads(program.run("sessions", "--json").out)] == [two]
    assert not [p for p in program.state.rglob("*") if one in p.name and p.suffix != ".lock"]
    assert [a["session"] for a in json.loads(program.run("cost", "--json").out)["agents"]] == [two]
    assert "deleted 0 of 0" in program.run("sessions", "delete", "--older-than", "1").out
    assert "deleted 1 of 1" in program.run("sessions", "delete", "--older-than", "0").out
    assert program.run("-p", "x", "--resume", two, script=SCRIPT).rc == 1


@pytest.mark.parametrize("days", ["-1", "nan", "-inf"])
def test_an_age_that_makes_no_sense_removes_nothing(program: Program, days: str) -> None:
    id = say(program)["session_id"]
    ran = program.run("sessions", "delete", f"--older-than={days}")
    assert ran.rc == 2 and "nothing was deleted" in ran.err
    assert program.run("sessions", "--older-than", "1").rc == program.run("sessions", "list", id).rc == 2
    assert [e["id"] for e in json.loads(program.run("sessions", "--json").out)] == [id]


@pytest.mark.spec("A2")
def test_a_torn_end_is_reported_and_the_rest_is_there(program: Program) -> None:
    id = say(program)["session_id"]
    with program.transcript().open("ab") as file:
        file.write(b'{"at":1,"event":{"ty')
    ran = program.prompt(SCRIPT, "--resume", id)
    assert ran.rc == 0 and ran.result["result"] == "two"
    assert "half-written" in ran.err and str(program.transcript()) in ran.err


def test_a_resumed_session_keeps_its_model(program: Program) -> None:
    id = say(program)["session_id"]
    ran = program.run("-p", "x", "--resume", id, "--output-format", "stream-json")
    assert ran.rc == 0 and ran.result["result"] == "two" and tool_results(ran.lines) == []
