"""Lost teammates: a pane that somebody closes, a server that goes away, a process that never starts."""

import os
import signal
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest
from team_steps import create, home
from team_steps import mate as a_mate

from conftest import Walker
from crew import bash as run
from crew import crew
from place_kit import CREATE, FREE, mate, options, roster, say, serves, teammates, until
from program import Live, Program, alive, bash, tool, wait_file

BUSY = bash("echo $$ > busy; while :; do sleep 0.05; done")
CLAIM = tool("TaskUpdate", taskId="1", owner="ada")
SCRIPT: dict[str, Any] = {
    "main": [CREATE, tool("TaskCreate", subject="the job", description="x"), mate("ada"), *["on"] * 20],
    "ada": [CLAIM, BUSY],
    "back": [say("ada", "SCRIPT:again"), *["on"] * 20],
    "again": [bash("echo again >> log"), "done"],
}


def died(live: Live) -> dict[str, Any]:
    return live.wait_for(lambda line: line.get("subtype") == "team_event" and line["kind"] == "died")


def tmux(program: Program, *words: str) -> str:
    (socket,) = [s for s in Path(program.env["TMUX_TMPDIR"]).glob("tmux-*/*") if serves(s)]
    return subprocess.run(["tmux", "-S", str(socket), *words], capture_output=True, text=True, check=True).stdout


def comes_back(program: Program, live: Live) -> None:
    """Its end was reported, its task is free, and a message resumes it in a process of its own."""
    assert died(live)["agent"] == "ada@crew"
    until(lambda: "Free again: #1" in program.transcript().read_text(), "the word about its task")
    until(lambda: not teammates(program), "the end of its process")
    live.say("SCRIPT:back")
    until(lambda: (program.project / "log").read_text() == "again\n", "it works again")
    assert len(teammates(program)) == 1 and roster(program)["ada"]["backendType"] == "tmux"
    assert live.end().rc == 0
    until(lambda: not teammates(program), "the end of all")


@pytest.mark.spec("E7", "K6", "X6")
def test_a_pane_that_a_person_closes_while_its_teammate_works(program: Program) -> None:
    for place in options("tmux", program):
        live = program.talk(SCRIPT, FREE, *place)
        live.say("go")
        command = int(wait_file(program.project / "busy"))
        tmux(program, "kill-pane", "-t", tmux(program, "list-panes", "-a", "-F", "#{pane_id}").split()[0])
        comes_back(program, live)
        assert not alive(command)


@pytest.mark.spec("E7", "K6", "X6")
def test_a_tmux_server_that_is_killed(program: Program) -> None:
    for place in options("tmux", program):
        live = program.talk(SCRIPT, FREE, *place)
        live.say("go")
        wait_file(program.project / "busy")
        tmux(program, "kill-server")
        comes_back(program, live)


@pytest.mark.spec("E8", "T6", "T11")
def test_a_pane_that_outlived_its_lead_is_adopted_and_no_second_one_is_started(program: Program) -> None:
    script = SCRIPT | {"ada": [bash("echo first >> log"), "ready"]}
    for place in options("tmux", program):
        live = program.talk(script, FREE, *place)
        live.say("go")
        live.wait_for(lambda line: line.get("subtype") == "team_event" and line["kind"] == "idle")
        (pid,) = teammates(program)
        os.kill(live.process.pid, signal.SIGKILL)
        live.process.wait(20)
        again = program.talk(script, FREE, *place, "--resume", program.transcript().stem)
        again.say("SCRIPT:back")
        until(lambda: (program.project / "log").read_text() == "first\nagain\n", "it works for its new lead")
        assert teammates(program) == [pid] and len(list(tmux(program, "list-panes", "-a").splitlines())) == 1
        assert again.end().rc == 0
        until(lambda: not teammates(program), "its end with the new lead")


@pytest.mark.spec("E8", "T11")
def test_a_lead_that_comes_back_elsewhere_looks_after_the_panes_all_the_same(program: Program) -> None:
    script = SCRIPT | {"ada": [bash("echo first >> log"), "ready"]}
    for place in options("tmux", program):
        live = program.talk(script, FREE, *place)
        live.say("go")
        live.wait_for(lambda line: line.get("subtype") == "team_event" and line["kind"] == "idle")
        os.kill(live.process.pid, signal.SIGKILL)
        live.process.wait(20)
        back = ["--teammate-mode", "in-process", "--resume", program.transcript().stem]
        ran = program.prompt(script, FREE, *back, text="SCRIPT:back")
        assert ran.rc == 0 and (program.project / "log").read_text() == "first\nagain\n", ran.err
        until(lambda: not teammates(program), "the end of all")


@pytest.mark.spec("X6", "E7")
def test_a_peer_in_another_process_wakes_one_that_nobody_runs(program: Program) -> None:
    script = SCRIPT | {
        "main": [CREATE, mate("ada"), mate("bob"), *["on"] * 20],
        "ada": [bash("echo $PPID > ada"), "ready"],
        "bob": [bash("while [ ! -e go ]; do sleep 0.02; done"), say("ada", "SCRIPT:again"), "done"],
    }  # fmt: skip
    for place in options("local", program):
        live = program.talk(script, FREE, *place)
        live.say("go")
        live.wait_for(lambda line: line.get("subtype") == "team_event" and line["kind"] == "idle")
        os.kill(int(wait_file(program.project / "ada")), signal.SIGKILL)
        died(live)
        (program.project / "go").touch()
        assert live.end().rc == 0 and (program.project / "log").read_text() == "again\n"


@pytest.mark.spec("M6", "H4")
def test_an_answer_for_one_that_is_gone_is_kept_wakes_it_and_holds_for_that_call(program: Program) -> None:
    """The call that waited for the answer runs, once; the model need not make it again."""
    script = {"main": [CREATE, mate("ada"), *["on"] * 20], "ada": [bash("echo x >>one"), "done"]}
    for place in options("local", program):
        live = program.talk(script, *place)
        live.say("go")
        question = live.question()
        (pid,) = teammates(program)
        os.kill(pid, signal.SIGKILL)
        died(live)
        live.answer(question, behavior="allow", updatedInput=question["request"]["input"])
        until((program.project / "one").exists, "it goes on")
        ran = live.end()
        assert ran.rc == 0 and sum(line["type"] == "control_request" for line in ran.lines) == 1
        assert (program.project / "one").read_text() == "x\n"


@pytest.mark.spec("H1", "T12")
@pytest.mark.parametrize("end", ["TaskStop", "TeamDelete"])
def test_of_one_that_was_stopped_on_purpose_nobody_says_that_it_ended_unexpectedly(program: Program, end: str) -> None:
    see = "while [ ! -e up ]; do sleep 0.02; done"
    last = tool("TeamDelete") if end == "TeamDelete" else tool("TaskStop", task_id="ada@crew")
    ada = [bash("touch up"), "ready"] if end == "TeamDelete" else [bash("touch up; sleep 60"), "ready"]
    again = [last, bash("sleep 0.1")] * (20 if end == "TeamDelete" else 1)  # refused until ada is idle
    script = {"main": [CREATE, mate("ada"), bash(see), *again, bash("sleep 0.5"), *["on"] * 9], "ada": ada}
    for place in options("local", program):
        ran = program.prompt(script, FREE, *place)
        told = program.transcript().read_text()
        assert ran.rc == 0 and ("has shut down" in told or "The team crew" in told), ran.err
        assert "ended unexpectedly" not in told and "A message brings it back" not in told


@pytest.mark.spec("T12", "X6", "X2")
def test_what_a_killed_process_had_not_read_brings_it_back_and_the_program_ends_by_itself(program: Program) -> None:
    """Nobody writes to it any more: the waiting message is enough."""
    see = "while [ ! -e {} ]; do sleep 0.02; done"
    script = {
        "main": [
            CREATE, mate("ada"), bash(see.format("up")), say("ada", "SCRIPT:again"), bash("touch told"), *["on"] * 20,
        ],
        "ada": [bash(f"touch up; {see.format('told')}; kill -9 $PPID; sleep 60"), "ready"],
        "again": [bash("echo again >> log"), "done"],
    }  # fmt: skip
    for place in options("local", program):
        ran = program.prompt(script, FREE, *place)
        assert ran.rc == 0 and (program.project / "log").read_text() == "again\n", ran.err
        assert "has ended unexpectedly" in program.transcript().read_text()


@pytest.mark.spec("T12", "E7", "X2", "T6")
def test_one_that_never_reads_its_mail_is_left_alone_and_tried_again_at_the_next_start(program: Program) -> None:
    script = {"main": [CREATE, mate("ada"), *["on"] * 20], "ada": [bash("echo up >> log"), "ready"]}
    broken = {"TEAMWRIGHT_TEAMMATE_CRASHPOINT": "letters.taken"}
    for place in options("local", program):
        ran = program.prompt(script, FREE, *place, env=broken)
        assert ran.rc == 0, ran.err
        assert "ada has ended 3 times before it could read what waits for it" in program.transcript().read_text()
        kinds = [line["kind"] for line in ran.lines if line.get("subtype") == "team_event"]
        assert kinds == ["spawn", "died", "died", "died"] and not (program.project / "log").exists()
        again = program.prompt(script, FREE, *place, "--resume", program.transcript().stem, text="on")
        assert again.rc == 0 and (program.project / "log").read_text() == "up\n", again.err


@pytest.mark.one_machine
@pytest.mark.spec("T12", "L4")
async def test_a_bug_of_ours_holds_up_no_end(walker: Walker) -> None:
    """Its state cannot even be written: the program ends all the same, and a resume finds it at work."""

    def forbid(_: Any) -> str:
        db = sqlite3.connect(home(walker) / "state.db")
        with db:
            db.execute(
                "CREATE TRIGGER stuck BEFORE UPDATE OF state ON members WHEN NEW.state = 'idle' "
                "BEGIN SELECT RAISE(ABORT, 'stuck'); END"
            )
        db.close()
        return "ready"

    async with crew(walker, {"main": [create(), a_mate("ada"), "on"], "ada": [run("true"), forbid]}) as play:
        await play.play()
    log = "\n".join(file.read_text() for file in (home(walker) / "logs").glob("*"))
    assert "ada@crew" in log and "stuck" in log
