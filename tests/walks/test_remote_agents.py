"""Agents on other machines: a worker is killed, stopped or asked to leave, and the work continues where it was."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from program import bash, tool
from remote_stage import LIMIT, Stage, away, ended, notices, until


@pytest.mark.spec("Z3", "Z4", "Z9", "Z11", "Z12", "P3", "R6")
def test_an_agent_runs_on_a_worker_and_its_work_comes_back_as_a_branch(stage: Stage) -> None:
    worker = stage.worker("w1", "--slots", "2", "--label", "zone=b")
    (known,) = stage.listing("workers")
    assert (known["name"], known["slots"], known["state"], known["labels"]) == ("w1", 2, "ready", {"zone": "b"})
    far = [[bash("cat file; echo new > made; git add made; git commit -qm made; pwd")], ["the far report"]]
    ran = ended(stage.start(stage.script(main=[[away("far")], ["waiting"], ["end"]], far=far)))
    assert ran.rc == 0, ran.err
    started = [line for line in ran.lines if line.get("subtype") == "task_started"]
    assert [line["task_type"] for line in started] == ["remote_agent"]
    (told,) = notices(ran)
    assert told["status"] == "completed"
    output = Path(told["output_file"]).read_text()
    assert "hello" in output and str(stage.program.project) not in output and str(worker.home) in output
    (branch,) = [name for name in stage.git("branch", "--format=%(refname:short)").split() if name != "main"]
    assert branch.startswith("worktree-") and stage.git("show", f"{branch}:made") == "new\n"
    (transcript,) = worker.home.glob(".teamwright/engines/*/projects/*/*/agents/*.jsonl")
    said = [json.loads(line)["event"]["type"] for line in transcript.read_text().splitlines()]
    begun = said.index("tool_started")
    assert said[begun : begun + 3] == ["tool_started", "tree_saved", "tool_ended"]  # files count before their result


@pytest.mark.spec("Z8", "Z9", "Z10")
def test_a_killed_worker_costs_no_finished_call(stage: Stage) -> None:
    """A call was running: its outcome is unknown, and it is not started again. Files of finished calls are there."""
    first = stage.worker("w1")
    far = [
        [bash("echo kept > made")],
        [stage.mark("one", then=stage.gate("never"))],
        [stage.mark("two", then="cat made")],
        ["both"],
    ]
    process = stage.start(stage.script(main=[[away("far")], ["waiting"], ["end"]], far=far))
    until(lambda: stage.lines() == ["one"], "the call has not begun")
    stage.worker("w2")
    first.kill()
    ran = ended(process)
    assert ran.rc == 0 and stage.lines() == ["one", "two"], ran.err
    (told,) = notices(ran)
    output = Path(told["output_file"]).read_text()
    assert told["status"] == "completed" and "unknown" in output and "kept" in output


@pytest.mark.spec("Z21")
def test_a_worker_that_leaves_lets_a_call_end_and_hands_over(stage: Stage) -> None:
    first = stage.worker("w1", lease="120")
    far = [[stage.mark("one", then=stage.gate("go"))], [stage.mark("two")], ["both"]]
    process = stage.start(stage.script(main=[[away("far")], ["waiting"], ["end"]], far=far))
    until(lambda: stage.lines() == ["one"], "the call has not begun")
    stage.worker("w2", lease="120")
    first.process.send_signal(signal.SIGTERM)
    until(lambda: {w["name"]: w["state"] for w in stage.listing("workers")}["w1"] == "draining", "it does not leave")
    (stage.root / "go").touch()
    assert first.process.wait(LIMIT) == 143 and "handed over" in first.said
    ran = ended(process)
    assert ran.rc == 0 and stage.lines() == ["one", "two"] and len(notices(ran)) == 1
    assert "unknown" not in Path(notices(ran)[0]["output_file"]).read_text()


@pytest.mark.spec("Z19", "Z20", "Z6")
def test_an_agent_goes_on_without_its_lead_and_is_stopped_from_anywhere(stage: Stage) -> None:
    process = stage.start(stage.script(main=[[away("far")], ["waiting"]], far=[[stage.mark("one", then="sleep 600")]]))
    waits = until(lambda: [j for j in stage.listing("jobs") if j.get("waiting_for")], "it is not shown as waiting")
    assert waits[0]["waiting_for"] == "a worker: none is there" and waits[0]["url"].endswith(waits[0]["id"])
    worker = stage.worker("w1")
    until(lambda: stage.lines() == ["one"], "the call has not begun")
    process.send_signal(signal.SIGTERM)
    ran = ended(process)
    assert waits[0]["url"] in ran.err.splitlines()[-1] and "jobs --stop" in ran.err.splitlines()[-1]
    (job,) = stage.listing("jobs")
    assert (job["status"], job["worker"]) == ("running", "w1")
    argv = [sys.executable, "-m", "teamwright", "jobs", "--stop", job["id"], "--engine", str(stage.space)]
    subprocess.run(argv, cwd=stage.root, env=stage.program.env, check=True, timeout=LIMIT)
    (job,) = stage.listing("jobs")
    assert job["status"] == "killed"
    until(lambda: "was stopped" in worker.said, "the worker does not say so")


@pytest.mark.spec("Z3", "Z23")
@pytest.mark.parametrize("url", ["nats://tw:hush-hush@127.0.0.1:9/main", "nonsense", "nats://tw:hush@h:99999/main"])
def test_a_worker_that_cannot_join_says_so_in_one_sentence(stage: Stage, url: str) -> None:
    argv = [sys.executable, "-m", "teamwright", "worker", "--join", url]
    ran = subprocess.run(argv, env=stage.program.env, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert ran.returncode in (1, 2) and len(ran.stderr.strip().splitlines()) == 1 and "hush" not in ran.stderr


@pytest.mark.spec("Z5", "Z15", "Z13", "E4")
@pytest.mark.parametrize("answer", ["allow", "deny"])
def test_a_teammate_on_a_worker_asks_where_the_person_is(stage: Stage, answer: str) -> None:
    """Its question appears in the lead's process, the answer goes back, and so does a message."""
    stage.worker("w1")
    main = [[tool("TeamCreate", team_name="crew")], [away("ada", name="ada", team_name="crew")], ["waiting"], ["end"]]
    ada = [[stage.mark("work")], [tool("SendMessage", to="team-lead", message="SCRIPT:heard", summary="s")], ["idle"]]
    live = stage.program.talk({"main": main, "ada": ada, "heard": [["i-heard-it"]]}, "--engine", str(stage.space))
    try:
        live.say("SCRIPT:main")
        question = live.question()
        assert question["request"]["tool_name"] == "Bash"
        yes = {"behavior": "allow", "updatedInput": question["request"]["input"]}
        live.answer(question, **(yes if answer == "allow" else {"behavior": "deny", "message": "not-today"}))
        live.wait_for(lambda line: line["type"] == "assistant" and "i-heard-it" in json.dumps(line))
        assert stage.lines() == (["work"] if answer == "allow" else [])
    finally:
        stage.program.close()


@pytest.mark.spec("Z15")
def test_what_a_hook_of_the_lead_refuses_is_not_run_on_a_worker(stage: Stage) -> None:
    worker = stage.worker("w1")
    settings = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "exit 2"}]}]}}
    model = stage.script(main=[[away("far")], ["waiting"], ["end"]], far=[[stage.mark("work")], ["end"]])
    ran = ended(stage.start(model, "--dangerously-skip-permissions", "--settings", json.dumps(settings)))
    assert ran.rc == 0 and not stage.lines(), ran.err
    assert "hook" in Path(notices(ran)[0]["output_file"]).read_text()
    until(lambda: "has finished" in worker.said, "the worker does not say so")


@pytest.mark.spec("Z26")
def test_agents_on_different_workers_count_against_one_limit(stage: Stage) -> None:
    """The second waits in a call until the first has used up their shared limit, and learns of that within a second."""
    stage.worker("w1", "--slots", "1")
    stage.worker("w2", "--slots", "1")
    spends = [stage.mark("spent") for _ in range(400)]
    scripts = {
        "main": [[away("waits")], [away("spends")], ["waiting"], ["end"]],
        "waits": [
            [stage.mark("waits", then=stage.gate("go"))],
            *[[stage.mark("too-much")] for _ in range(400)],
            ["done"],
        ],
        "spends": [
            [bash(f"while ! grep -q waits {stage.log}; do sleep 0.02; done")],
            *[[one] for one in spends],
            ["done"],
        ],
    }
    process = stage.start(stage.script(**scripts), "--dangerously-skip-permissions", "--task-budget", "900000")
    until(lambda: [j for j in stage.listing("jobs") if j["status"] != "running"], "nothing ends at the limit")
    (stage.root / "go").touch()
    ran = ended(process)
    output = "".join(Path(told["output_file"]).read_text() for told in notices(ran))
    assert output.count("limit of 900,000 tokens") == 2, (stage.lines(), ran.out, ran.err)
    assert stage.lines().count("too-much") < stage.lines().count("spent")  # alone it would have used up as much
