"""Special cases of agents on workers: a worker for one agent, one that must leave at once, hooks, branches of the team,
and a message to an agent that has ended.
"""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from long_form import long_form
from program import bash, tool
from remote_stage import LIMIT, Stage, away, ended, notices, until
from teamwright.core.data.conversation.history import NEVER_BEGUN

TEAM = [tool("TeamCreate", team_name="crew")]


def mate(name: str) -> dict[str, Any]:
    return away(name, name=name, team_name="crew")


@pytest.mark.spec("Z3")
def test_a_worker_for_one_agent_ends_after_it(stage: Stage) -> None:
    """The second agent waits for another worker."""
    once = stage.worker("w1", "--once", lease="120")
    main = [[away("far"), away("far")], ["waiting"], ["one"], ["two"]]
    far = [[stage.mark("work", then="true")], ["done"]]
    process = stage.start(stage.script(main=main, far=far))
    assert once.process.wait(LIMIT) == 0, once.said
    assert once.said.count(" comes") == 1 and once.said.count("has finished") == 1
    second = stage.worker("w2")
    ran = ended(process)
    assert ran.rc == 0 and [told["status"] for told in notices(ran)] == ["completed"] * 2, ran.err
    assert stage.lines() == ["work", "work"] and second.said.count(" comes") == 1


@long_form
@pytest.mark.spec("Z21", "Z19")
def test_a_second_signal_means_now(stage: Stage) -> None:
    """It does not wait for the running call, ends its command, and no lease has to run out."""
    first = stage.worker("w1", lease="120")
    pid = stage.root / "pid"
    far = [[stage.mark("one", then=f"echo $$ > {pid}; {stage.gate('never')}")], [stage.mark("two")], ["both"]]
    process = stage.start(stage.script(main=[[away("far")], ["waiting"], ["end"]], far=far))
    until(lambda: stage.lines() == ["one"] and pid.exists(), "the call has not begun")
    stage.worker("w2", lease="120")
    first.process.send_signal(signal.SIGTERM)
    until(lambda: {w["name"]: w["state"] for w in stage.listing("workers")}["w1"] == "draining", "it does not leave")
    first.process.send_signal(signal.SIGTERM)
    assert first.process.wait(25) == 143  # less than the 30 s that it gives calls to end
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()
    ran = ended(process)
    assert ran.rc == 0 and stage.lines() == ["one", "two"], ran.err
    assert "unknown" in Path(notices(ran)[0]["output_file"]).read_text()


@long_form
@pytest.mark.spec("Z15", "Z5")
def test_task_hooks_of_the_lead_decide_what_a_teammate_on_a_worker_may_finish(stage: Stage) -> None:
    stage.worker("w1")
    seen, once = stage.root / "seen", stage.root / "once"
    command = f"cat >> {seen}; [ -e {once} ] || {{ touch {once}; echo not-tested-yet >&2; exit 2; }}"
    hook = [{"hooks": [{"type": "command", "command": command}]}]
    done = tool("TaskUpdate", taskId="1", status="completed")
    main = [TEAM, [tool("TaskCreate", subject="s", description="d")], [mate("ada")], ["waiting"], ["end"]]
    ada = [[tool("TaskUpdate", taskId="1", owner="ada")], [done], [stage.mark("test")], [done], ["idle"]]
    settings = json.dumps({"hooks": {"TaskCompleted": hook}})
    flags = ("--dangerously-skip-permissions", "--settings", settings)
    ran = ended(stage.start(stage.script(main=main, ada=ada), *flags))
    assert ran.rc == 0 and stage.lines() == ["test"], ran.err
    assert seen.read_text().count('"TaskCompleted"') == 2  # in the lead's process, each time
    (task,) = [task for task in stage.listing("tasks", "--team", "crew") if task["id"] in (1, "1")]
    assert task["status"] == "completed"


@long_form
@pytest.mark.spec("Z12", "Z13")
def test_a_teammate_finds_the_branches_of_its_team(stage: Stage) -> None:
    """As they were with its last letter; and the lead has both branches."""
    stage.worker("w1")
    stage.worker("w2")
    main = [TEAM, [mate("ada")], ["waiting"], [mate("bob")], ["waiting"], ["end"]]
    ada = [[bash("echo from-ada > made; git add made; git commit -qm made")], ["idle"]]
    bob = [[bash(f"git show team/ada:made >> {stage.log}; echo from-bob > more")], ["idle"]]
    ran = ended(stage.start(stage.script(main=main, ada=ada, bob=bob)))
    assert ran.rc == 0 and stage.lines() == ["from-ada"], ran.err
    assert stage.git("show", "worktree-ada:made") == "from-ada\n"
    assert stage.git("show", "worktree-bob:more") == "from-bob\n"  # left uncommitted, by its last turn


@long_form
@pytest.mark.spec("Z12", "K4")
def test_whoever_hears_that_a_task_is_done_finds_its_work(stage: Stage) -> None:
    """ada is still in the turn in which she completed it: bob reads her branch with his first call, and so does the
    lead when she writes to it."""
    stage.worker("w1")
    stage.worker("w2")
    look = [bash(f"git show team/ada:made >> {stage.log} 2>/dev/null || true")]
    wait = bash(f"for i in $(seq 600); do [ -s {stage.log} ] && break; sleep 0.1; done; cat {stage.log} > seen")
    tasks = [tool("TaskCreate", subject="a", description="d", owner="ada"),
             tool("TaskCreate", subject="b", description="d", owner="bob", blockedBy=["1"])]  # fmt: skip
    main = [TEAM, tasks, [mate("ada"), mate("bob")], ["waiting"], [bash(f"git show worktree-ada:made >> {stage.log}")]]
    ada = [
        [bash("echo from-ada > made; git add made; git commit -qm made"), tool("TaskUpdate", taskId="1", owner="ada")],
        [tool("TaskUpdate", taskId="1", status="completed"), wait],
        [tool("SendMessage", to="team-lead", message="it is on my branch", summary="done")],
        [bash(f"for i in $(seq 600); do [ $(wc -l < {stage.log}) -gt 1 ] && break; sleep 0.1; done")],
        ["idle"],
    ]
    ran = ended(stage.start(stage.script(main=main, ada=ada, bob=[look, ["idle"], look, ["idle"]])))
    assert ran.rc == 0 and stage.lines() == ["from-ada", "from-ada"], ran.err
    assert stage.git("show", "worktree-ada:seen") == "from-ada\n"
    told = [json.dumps(line["message"]) for line in ran.lines if line["type"] == "user"]
    assert any("on the machine w" in text and "on the branch worktree-ada" in text for text in told), told
    prompts = [file.read_text() for file in stage.root.glob("w*/.teamwright/**/prompts/*")]
    assert any("on the branch worktree-bob" in text and "team/NAME" in text for text in prompts)


@long_form
@pytest.mark.spec("Z8", "Z21")
def test_watchers_are_told_that_a_teammate_has_moved_and_the_model_is_not(stage: Stage) -> None:
    first = stage.worker("w1", lease="120")
    ada = [[stage.mark("one", then=stage.gate("go"))], [stage.mark("two")], ["idle"]]
    process = stage.start(stage.script(main=[TEAM, [mate("ada")], ["waiting"], ["end"]], ada=ada))
    until(lambda: stage.lines() == ["one"], "the call has not begun")
    stage.worker("w2", lease="120")
    first.process.send_signal(signal.SIGTERM)
    (stage.root / "go").touch()
    assert first.process.wait(LIMIT) == 143
    ran = ended(process)
    assert ran.rc == 0 and stage.lines() == ["one", "two"], ran.err
    moved = [line for line in ran.lines if line.get("subtype") == "team_event" and line.get("kind") == "moved"]
    assert len(moved) == 1 and "w2" in json.dumps(moved), moved
    told = [line for line in ran.lines if line["type"] == "user" and "moved" in json.dumps(line["message"])]
    assert not told


@pytest.mark.spec("B4", "Z8")
def test_an_agent_hears_of_its_command_that_died_with_a_worker(stage: Stage) -> None:
    first = stage.worker("w1")
    command = stage.mark("one", then=stage.gate("never"))["input"] | {"run_in_background": True, "description": "waits"}
    far = [[tool("Bash", **command)], ["waiting"], ["I heard of it"]]
    process = stage.start(stage.script(main=[[away("far")], ["waiting"], ["end"]], far=far))
    until(lambda: stage.lines() == ["one"], "the command has not begun")
    stage.worker("w2")
    first.kill()
    ran = ended(process)
    assert ran.rc == 0 and "I heard of it" in Path(notices(ran)[0]["output_file"]).read_text(), ran.err
    assert stage.lines() == ["one"]


@pytest.mark.spec("T6", "Z21", "Z9")
def test_calls_that_had_not_begun_do_not_begin_on_another_machine(stage: Stage) -> None:
    """Paths in them may mean other files there: its model reads first that it has moved."""
    first = stage.worker("w1", lease="120")
    ada = [[stage.mark("one", then=stage.gate("go")), stage.mark("two")], [stage.mark("three")], ["idle"]]
    process = stage.start(stage.script(main=[TEAM, [mate("ada")], ["waiting"], ["end"]], ada=ada))
    until(lambda: stage.lines() == ["one"], "the call has not begun")
    stage.worker("w2", lease="120")
    first.process.send_signal(signal.SIGTERM)
    (stage.root / "go").touch()
    assert first.process.wait(LIMIT) == 143
    ran = ended(process)
    assert ran.rc == 0 and stage.lines() == ["one", "three"], ran.err
    assert any(text == NEVER_BEGUN for text, _ in ran.tool_results)


@long_form
@pytest.mark.spec("Z4", "Z13")
def test_a_message_to_an_ended_remote_agent_resumes_it(stage: Stage) -> None:
    """On whatever worker there is, with everything that it knew and made."""
    first = stage.worker("w1")
    more = tool("SendMessage", to=r"{{re:taskId: (\w+)}}", message="and now?", summary="more")
    main = [[away("far")], ["waiting"], [more], ["waiting again"], ["end"]]
    far = [[bash("echo kept > made")], ["the first report"], [bash(f"cat made >> {stage.log}")], ["the second report"]]
    process = stage.start(stage.script(main=main, far=far))
    until(lambda: "has finished" in first.said, "it does not end")
    stage.worker("w2")
    first.process.send_signal(signal.SIGTERM)
    ran = ended(process)
    assert ran.rc == 0 and stage.lines() == ["kept"], (ran.err, first.said)
    assert [told["status"] for told in notices(ran)] == ["completed"] * 2
    assert "the second report" in json.dumps(notices(ran)[1]) + ran.out


@pytest.mark.spec("E7", "K6", "Z1")
def test_a_teammate_in_a_process_of_its_own_that_is_killed_is_missed_at_once(stage: Stage) -> None:
    """The kernel knows that it is dead, whatever the engine knows: its lease is longer than this test."""
    stage.program.env["TEAMWRIGHT_LEASE_SECONDS"] = "300"
    held = tool("TaskUpdate", taskId="1", owner="ada", status="in_progress")
    ada = [[held], [stage.mark("one", then=stage.gate("never"))]]
    local = tool("Agent", description="work", prompt="SCRIPT:ada", name="ada", team_name="crew")
    main = [TEAM, [tool("TaskCreate", subject="job", description="a job")], [local], ["waiting"], ["I know"]]
    lead = stage.start(stage.script(main=main, ada=ada), "--dangerously-skip-permissions", "--teammate-mode", "local")
    until(lambda: stage.lines() == ["one"], "the call has not begun")
    found = Path(f"/proc/{lead.pid}/task/{lead.pid}/children").read_text().split()
    for pid in found:
        os.kill(int(pid), signal.SIGKILL)
    until(lambda: stage.listing("tasks", "--team", "crew")[0]["status"] == "pending", "its task is not free")
    lead.send_signal(signal.SIGINT)
    assert "its process has ended" in ended(lead).out


@pytest.mark.spec("Z28")
def test_a_worker_fetches_the_code_from_a_remote_that_its_person_allows(stage: Stage) -> None:
    """Nothing of the repository goes through the engine."""
    up = stage.root / "up.git"
    stage.git("clone", "-q", "--bare", ".", str(up))
    stage.git("remote", "add", "origin", str(up))
    stage.git("fetch", "-q", "origin")
    home = stage.root / "w1" / ".teamwright"
    home.mkdir(parents=True)
    (home / "settings.json").write_text(json.dumps({"teamwright": {"engine": {"fetchFrom": [f"{stage.root}/"]}}}))
    stage.worker("w1")
    big = {"big": {"description": "big", "prompt": "work", "isolation": "remote", "remote": {"fetch": "origin"}}}
    main = [[away("far", subagent_type="big")], ["waiting"], ["end"]]
    far = [[bash("cat file > copy")], ["done"]]
    model = stage.script(main=main, far=far)
    ran = ended(stage.start(model, "--dangerously-skip-permissions", "--agents", json.dumps(big)))
    assert ran.rc == 0 and [told["status"] for told in notices(ran)] == ["completed"], ran.err
    branch = next(line.strip() for line in stage.git("branch", "--list", "worktree-*").splitlines())
    assert stage.git("show", f"{branch}:copy") == "hello\n"


@pytest.mark.spec("B11", "Z8")
def test_what_a_sub_agent_had_said_on_a_lost_worker_is_told(stage: Stage) -> None:
    first = stage.worker("w1")
    helps = tool("Agent", description="helps", prompt="SCRIPT:help", run_in_background=True)
    far = [[helps], [stage.mark("one", then=stage.gate("never"))], ["I know"], ["the end"]]
    help = [["half of the report", stage.mark("two", then=stage.gate("never"))]]
    process = stage.start(stage.script(main=[[away("far")], ["waiting"], ["end"]], far=far, help=help))
    until(lambda: sorted(stage.lines()) == ["one", "two"], "they do not work")
    second = stage.worker("w2")
    first.kill()
    ran = ended(process)
    taken = [
        line
        for path in second.home.glob(".teamwright/engines/*/projects/*/*/agents/*.jsonl")
        for line in path.read_text().splitlines()
        if '"letters_taken"' in line and "task-notification" in line
    ]
    assert ran.rc == 0 and len(taken) == 1 and "half of the report" in taken[0], (ran.err, taken)
