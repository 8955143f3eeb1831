"""Agents in the headless lines: what a driving program sees of them, and what it may do with them."""

import json
from typing import Any

import pytest

from program import Program, bash, wait_file

FIGURES = {"total_tokens", "tool_uses", "duration_ms"}


def child(script: str, **more: Any) -> dict[str, Any]:
    return {"tool": "Agent", "input": {"description": f"does {script}", "prompt": f"SCRIPT:{script}"} | more}


def tasks(lines: list[dict[str, Any]], subtype: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["type"] == "system" and line.get("subtype") == subtype]


@pytest.mark.spec("O1", "O3", "Y1", "B5")
@pytest.mark.parametrize("background", [False, True])
def test_the_lines_of_one_agent(program: Program, background: bool) -> None:
    more = {"run_in_background": True} if background else {}
    script = {"main": [child("one", **more), "end"], "one": [bash("echo hi"), "the report"]}
    ran = program.prompt(script, "--dangerously-skip-permissions", text="SCRIPT:main")
    (started,), (ended,) = tasks(ran.lines, "task_started"), tasks(ran.lines, "task_notification")
    id = started["task_id"]
    assert started["description"] == "does one" and started["task_type"] == "local_agent"
    assert ended["task_id"] == id and ended["status"] == "completed" and ended["summary"]
    assert ended["output_file"].endswith(f"{id}.output") and set(ended["usage"]) == FIGURES
    progress = tasks(ran.lines, "task_progress")
    assert progress and all(p["task_id"] == id and p["description"] and set(p["usage"]) == FIGURES for p in progress)
    assert progress[0]["last_tool_name"] == "Bash"
    call = next(
        b for x in ran.lines if x["type"] == "assistant" for b in x["message"]["content"] if b["type"] == "tool_use"
    )
    assert started["tool_use_id"] == ended["tool_use_id"] == call["id"]
    theirs = [x for x in ran.lines if x["type"] in ("assistant", "user") and x.get("agent_id") == id]
    assert len(theirs) == 3 and {x["parent_tool_use_id"] for x in theirs} == {call["id"]}
    mine = [x for x in ran.lines if x["type"] in ("assistant", "user") and x not in theirs]
    assert all(x["parent_tool_use_id"] is None for x in mine)
    result = next(x for x in mine if x["type"] == "user")["tool_use_result"]
    assert result["agentId"] == id and result["status"] == ("async_launched" if background else "completed")
    assert ran.rc == 0 and ran.result["subtype"] == "success"


@pytest.mark.spec("Q3")
def test_the_program_stays_until_its_agents_have_ended_and_leaves_with_no_wait(program: Program) -> None:
    script = {
        "main": [child("slow", run_in_background=True), "early", "late"],
        "slow": [bash("sleep 0.8; echo x > f"), "r"],
    }
    ran = program.run("-p", "SCRIPT:main", "--dangerously-skip-permissions", script=script)
    assert ran.out == "late\n" and (program.project / "f").exists()
    (program.project / "f").unlink()
    ran = program.run("-p", "SCRIPT:main", "--dangerously-skip-permissions", "--no-wait", script=script)
    assert ran.out == "early\n" and not (program.project / "f").exists()


@pytest.mark.spec("Q3", "O1")
def test_the_last_line_is_the_result_even_if_jobs_were_stopped_after_it(program: Program) -> None:
    script = {"main": [child("slow", run_in_background=True), "early"], "slow": [bash("touch f; sleep 60"), "r"]}
    ran = program.run(
        *("-p", "SCRIPT:main", "--dangerously-skip-permissions", "--no-wait", "--output-format", "stream-json"),
        script=script,
    )
    kinds = [line.get("subtype", line["type"]) for line in ran.lines]
    assert "task_notification" in kinds and ran.lines[-1]["type"] == "result" and ran.rc == 0
    assert [line["type"] for line in ran.lines].count("result") == 1
    assert ran.result["result"] == "early"


@pytest.mark.spec("D8")
@pytest.mark.parametrize(
    ("server", "why"),
    [
        ({"command": "/nowhere/at-all"}, ""),
        ({"command": 7}, ""),
        ({"command": "sleep", "args": ["100"]}, "it has not answered in time"),
    ],
)
def test_an_inline_server_that_cannot_start_is_told(program: Program, server: dict[str, Any], why: str) -> None:
    file = program.project / ".claude/agents/caller.md"
    file.parent.mkdir(parents=True)
    own = json.dumps([{"shouter": server}])
    file.write_text(f"---\nname: caller\ndescription: d\nmcpServers: {own}\n---\nYou call.\n")
    script = {"main": [child("caller", subagent_type="caller"), "end"], "caller": ["did without"]}
    ran = program.run("-p", "SCRIPT:main", "--trust", script=script, env={"MCP_TIMEOUT": "300"} if why else {})
    assert ran.out == "end\n" and ran.rc == 0
    (line,) = [line for line in ran.err.splitlines() if "shouter" in line]
    assert "an agent's definition" in line and line.endswith(f"{why}.")


@pytest.mark.spec("Y3", "B2")
def test_a_driving_program_sends_it_to_the_background_and_stops_it(program: Program) -> None:
    wait = "echo $$ > pid; while :; do sleep 0.05; done"
    live = program.talk(
        {"main": [child("slow"), "gone on", "heard"], "slow": [bash(wait)]}, "--dangerously-skip-permissions"
    )
    assert live.ask("background")["subtype"] == "error"  # nothing runs yet
    live.say("SCRIPT:main")
    id = live.seen(type="system", subtype="task_started")["task_id"]
    wait_file(program.project / "pid")
    assert live.ask("background", task_id="nobody")["subtype"] == "error"
    assert live.ask("background", task_id=id)["subtype"] == "success"
    live.wait_for(lambda x: x["type"] == "assistant" and x["message"]["content"][0].get("text") == "gone on")
    assert live.ask("stop_task", task_id=id)["subtype"] == "success"
    ended = live.seen(type="system", subtype="task_notification")
    assert (ended["task_id"], ended["status"]) == (id, "stopped")
    live.wait_for(lambda x: x["type"] == "result" and x["result"] == "heard")
    assert live.ask("stop_task", task_id=id)["subtype"] == "error"
    assert live.end().rc == 0


@pytest.mark.spec("Y4")
def test_one_in_the_foreground_that_is_stopped_returns_what_it_had_said_as_partial(program: Program) -> None:
    wait = [{"text": "The leak is in pump 7."}, bash("echo $$ > pid; while :; do sleep 0.05; done")]
    live = program.talk({"main": [child("slow"), "gone on"], "slow": [wait]}, "--dangerously-skip-permissions")
    live.say("SCRIPT:main")
    id = live.seen(type="system", subtype="task_started")["task_id"]
    wait_file(program.project / "pid")
    assert live.ask("stop_task", task_id=id)["subtype"] == "success"
    live.results(1)
    text, _ = live.end().tool_results[-1]
    assert text.startswith("Partial report") and "it was stopped" in text and "pump 7" in text


@pytest.mark.spec("B2", "Y4")
def test_an_interrupt_ends_the_turn_and_its_agents_and_the_session_goes_on(program: Program) -> None:
    wait = "echo $$ > pid; while :; do sleep 0.05; done"
    live = program.talk(
        {"main": [child("slow")], "slow": [bash(wait)], "next": ["still here"]}, "--dangerously-skip-permissions"
    )
    live.say("SCRIPT:main")
    wait_file(program.project / "pid")
    assert live.ask("interrupt")["subtype"] == "success"
    (result,) = live.results(1)
    assert result["subtype"] == "error_during_execution"
    assert live.seen(type="system", subtype="task_notification")["status"] == "stopped"
    live.say("SCRIPT:next")
    live.wait_for(lambda x: x["type"] == "result" and x["result"] == "still here")
    assert live.end().rc == 0


@pytest.mark.spec("B2", "B8")
def test_stop_all_stops_every_one(program: Program) -> None:
    script = {
        "main": [[child("slow", run_in_background=True) for _ in range(3)], "on"],
        "slow": [bash("echo x >> begun; while :; do sleep 0.05; done")],
    }
    live = program.talk(script, "--dangerously-skip-permissions")
    live.say("SCRIPT:main")
    for _ in range(3):
        live.seen(type="system", subtype="task_started")
    wait_file(program.project / "begun")
    assert live.ask("stop_all")["subtype"] == "success"
    ran = live.end()
    assert [x["status"] for x in tasks(ran.lines, "task_notification")] == ["stopped"] * 3 and ran.rc == 0


@pytest.mark.spec("O1", "D3")
def test_init_and_initialize_name_the_agents(program: Program) -> None:
    given = json.dumps({"judge": {"description": "Judges.", "prompt": "You judge."}})
    live = program.talk({"main": ["hi"]}, "--agents", given)
    named = {a["name"]: a["description"] for a in live.ask("initialize")["response"]["agents"]}
    assert named["judge"] == "Judges." and "general-purpose" in named
    live.say("SCRIPT:main")
    assert "judge" in live.seen(type="system", subtype="init")["agents"] and live.end().rc == 0
