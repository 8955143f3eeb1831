"""`teamwright why` and `teamwright jobs` of a team: who waits for whom, and for what."""

import json
import os
import signal
from typing import Any

import pytest

from place_kit import CREATE, FREE, control, mate, options, until
from program import LIMIT, Program, bash, tool, wait_file

BUSY = bash("echo $$ > busy; while :; do sleep 0.05; done")


def rows(program: Program, command: str, *args: str) -> dict[str, dict[str, Any]]:
    """Rows by name; jobs by the name in their address."""
    ran = program.run(command, *args, "--json")
    assert ran.rc == 0, ran.err
    return {row.get("name") or row["id"].partition("@")[0]: row for row in json.loads(ran.out)}


def told(program: Program, name: str, words: str) -> dict[str, Any]:
    """Wait until somebody waits for this, and return that row."""
    return until(lambda: (row := rows(program, "why")[name]) and words in row["waiting_for"] and row, words)


def task(subject: str, **more: Any) -> dict[str, Any]:
    return tool("TaskCreate", subject=subject, description="to do", **more)


@pytest.mark.spec("O7", "H1", "H2")
def test_who_waits_for_whom_in_a_team_that_lives_and_in_one_that_was_killed(program: Program) -> None:
    script = {
        "main": [
            CREATE, [task("first"), task("second", blockedBy=["1"]), tool("TaskUpdate", taskId="1", owner="team-lead")],
            [mate("ada"), mate("bob"), mate("cyd", mode="plan")],
            *["on"] * 20,
        ],
        "ada": ["ready"],
        "bob": [BUSY],
        "cyd": [tool("ExitPlanMode", plan="first this, then that"), "on"],
        "close": [control("bob", "shutdown_request", reason="enough"), *["on"] * 20],
    }  # fmt: skip
    live = program.talk(script, FREE)
    live.say("go")
    wait_file(program.project / "busy")
    ada = told(program, "ada", "a message, or a task: #2 waits for #1 (team-lead's)")
    assert ada["state"] == "idle" and ada["agent"] == "ada@crew" and ada["since"] > 10**12
    cyd = told(program, "cyd", "the lead's answer to its plan (plan-")
    assert cyd["state"] == "waiting"
    main = told(program, "main", "its teammates: bob")
    assert "its own answer to cyd's plan (plan-" in main["waiting_for"]
    assert "Bash" in rows(program, "why")["bob"]["waiting_for"]
    live.say("SCRIPT:close")
    told(program, "main", "bob's answer to its shutdown request (shutdown-")
    jobs = rows(program, "jobs")
    assert {name: (job["kind"], job["status"]) for name, job in jobs.items()} == {
        "ada": ("teammate", "idle"), "bob": ("teammate", "running"), "cyd": ("teammate", "idle"),
    }  # fmt: skip
    assert "waiting_for" not in jobs["bob"] and "#2 waits for #1" in jobs["ada"]["waiting_for"]
    assert "ada@crew" in program.run("why", "ada").out and "bob" not in program.run("why", "ada@crew").out
    assert rows(program, "why", roster_id(program, "ada")).keys() == {"ada"}
    os.kill(live.process.pid, signal.SIGKILL)
    live.process.wait(LIMIT)
    why = rows(program, "why")
    assert why["ada"]["state"] == "parked" and "--resume" in why["ada"]["waiting_for"]
    assert why["bob"]["state"] == why["main"]["state"] == "gone" and "1 message is unread" in why["bob"]["waiting_for"]


def roster_id(program: Program, name: str) -> str:
    """The id of a teammate's agent, from its transcript."""
    for file in (program.state / "projects").glob("*/*/agents/*.jsonl"):
        if f'"name":"{name}"' in file.read_text().splitlines()[0]:
            return file.stem
    raise AssertionError(name)


@pytest.mark.spec("O7", "B8")
def test_one_that_waits_for_a_free_place_and_one_that_has_shut_down(program: Program) -> None:
    script = {
        "main": [CREATE, mate("ada"), mate("bob"), *["on"] * 20],
        "ada": [BUSY], "bob": [BUSY],
        "stop": [tool("TaskStop", task_id="{{re:STOP:(\\w+@crew)}}"), *["on"] * 20],
    }  # fmt: skip
    live = program.talk(script, FREE, env={"TEAMWRIGHT_MAX_AGENTS": "1"})
    live.say("go")
    wait_file(program.project / "busy")
    waits = until(
        lambda: [n for n, row in rows(program, "why").items() if "a free slot" in row["waiting_for"]], "one that waits"
    )
    (works,) = {"ada", "bob"} - set(waits)
    live.say(f"SCRIPT:stop STOP:{waits[0]}@crew")
    row = told(program, waits[0], "it has shut down")
    assert row["state"] == "shutdown" and rows(program, "jobs")[waits[0]]["status"] == "shutdown"
    assert "Bash" in rows(program, "why")[works]["waiting_for"]


@pytest.mark.spec("O7", "M6")
def test_a_question_between_processes_is_named_on_both_sides(program: Program) -> None:
    for place in options("local", program):
        script = {"main": [CREATE, mate("ada"), *["on"] * 20], "ada": [bash("touch one"), "on"]}
        live = program.talk(script, *place)
        live.say("go")
        question = live.question()
        assert told(program, "ada", "may it use Bash?")["state"] == "waiting"
        told(program, "main", "a person's answer: may ada use Bash?")
        live.answer(question, behavior="allow", updatedInput=question["request"]["input"])
        until((program.project / "one").exists, "its work")
        assert "Bash" not in told(program, "ada", "a message, or a task")["waiting_for"]
        assert live.end().rc == 0
