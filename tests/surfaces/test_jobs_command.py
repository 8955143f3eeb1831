"""`teamwright jobs` and `teamwright why`: what ran, what runs, and what the rest waits for."""

import json
import os
import signal
from typing import Any

import pytest

from program import Program, bash, wait_file


def child(script: str, **more: Any) -> dict[str, Any]:
    return {"tool": "Agent", "input": {"description": f"does {script}", "prompt": f"SCRIPT:{script}"} | more}


SLOW = bash("echo $$ > pid; while :; do sleep 0.05; done")


def rows(program: Program, command: str, *args: str) -> list[dict[str, Any]]:
    ran = program.run(command, *args, "--json")
    assert ran.rc == 0, ran.err
    return json.loads(ran.out)


@pytest.mark.spec("B1")
def test_jobs_that_have_ended(program: Program) -> None:
    fails = {"error": {"fault": "auth", "message": "no"}}
    script = {"main": [[child("good"), child("bad", run_in_background=True)], "end"], "good": ["r"], "bad": [fails]}
    assert program.run("-p", "SCRIPT:main", script=script).rc == 0
    found = {job["description"]: job for job in rows(program, "jobs")}
    assert {d: (j["kind"], j["status"]) for d, j in found.items()} == {
        "does good": ("agent", "completed"), "does bad": ("agent", "failed"),
    }  # fmt: skip
    assert all(
        set(j) == {"id", "kind", "status", "description", "since"} and j["since"] > 10**12 for j in found.values()
    )
    table = program.run("jobs").out
    assert "does good" in table and "completed" in table and found["does bad"]["id"] in table


@pytest.mark.spec("O7", "B8")
def test_why_while_it_runs_and_after_its_program_was_killed(program: Program) -> None:
    script = {"main": [child("boss", run_in_background=True), "on"], "boss": [child("slow")], "slow": [SLOW]}
    live = program.start("-p", "SCRIPT:main", "--dangerously-skip-permissions", script=script)
    wait_file(program.project / "pid")
    (boss, slow) = rows(program, "jobs")
    assert boss["status"] == slow["status"] == "running" and "waiting_for" not in boss
    why = {row["agent"]: row for row in rows(program, "why")}
    assert len(why) == 3 and "Agent" in why[boss["id"]]["waiting_for"] and "Bash" in why[slow["id"]]["waiting_for"]
    main = next(row for id, row in why.items() if id not in (boss["id"], slow["id"]))
    assert boss["id"] in main["waiting_for"] and all(row["since"] > 10**12 for row in why.values())
    assert [row["agent"] for row in rows(program, "why", boss["id"])] == [boss["id"]]
    os.kill(live.process.pid, signal.SIGKILL)
    live.process.wait(10)
    assert all("gone" in job["waiting_for"] for job in rows(program, "jobs"))
    assert all(row["state"] == "gone" for row in rows(program, "why"))


@pytest.mark.spec("O7", "M10")
def test_why_tells_a_question_from_a_tool_at_work(program: Program) -> None:
    live = program.talk([bash("touch no"), SLOW, "end"])
    live.say("go")
    question = live.question()
    assert rows(program, "why")[0]["waiting_for"] == "a person's answer, or its calls: Bash"
    live.answer(question, behavior="deny", message="no")
    live.answer(live.question(1), behavior="allow", updatedInput=SLOW["input"])
    wait_file(program.project / "pid")
    assert rows(program, "why")[0]["waiting_for"] == "its calls: Bash (running)"


@pytest.mark.spec("O7")
def test_why_of_a_session_at_rest(program: Program) -> None:
    def state() -> tuple[str, str]:
        (main,) = rows(program, "why")
        return main["state"], main["waiting_for"]

    live = program.talk(["end"])
    live.ask("initialize")
    assert state() == ("idle", "a message")
    live.say("go")
    live.results(1)
    live.ask("set_permission_mode", mode="acceptEdits")
    assert state() == ("idle", "a message")


@pytest.mark.spec("O7", "A2")
def test_why_of_a_session_that_is_resumed_after_a_kill(program: Program) -> None:
    """Nobody asks its model until something is said."""
    script = {"main": [SLOW, "never"], "more": [SLOW, "never"]}
    live = program.talk(script, "--dangerously-skip-permissions")
    live.say("SCRIPT:main")
    wait_file(program.project / "pid")
    os.kill(live.process.pid, signal.SIGKILL)
    live.process.wait(10)
    (program.project / "pid").unlink()
    (main,) = rows(program, "why")
    later = program.talk(script, "--dangerously-skip-permissions", "--resume", main["agent"])
    later.ask("initialize")
    assert [(row["state"], row["waiting_for"]) for row in rows(program, "why")] == [("idle", "a message")]
    later.say("SCRIPT:more")
    wait_file(program.project / "pid")
    assert rows(program, "why")[0]["waiting_for"] == "its calls: Bash (running)"


@pytest.mark.spec("O7")
def test_why_of_what_has_ended_and_of_nobody(program: Program) -> None:
    assert program.run("-p", "SCRIPT:main", script={"main": [child("one"), "end"], "one": ["r"]}).rc == 0
    (main, one) = rows(program, "why")
    assert one["state"] == "completed" and "SendMessage" in one["waiting_for"] and main["state"] == "gone"
    ran = program.run("why", "nobody")
    assert ran.rc != 0 and "nobody" in ran.err


@pytest.mark.spec("B1")
def test_no_jobs_and_no_session(program: Program) -> None:
    assert rows(program, "jobs") == rows(program, "why") == []
    assert "no session" in program.run("jobs").out and program.run("why", "nobody").rc == 1
    assert program.run("-p", "go", script=["done"]).rc == 0
    assert rows(program, "jobs") == [] and "no jobs" in program.run("jobs").out
