"""Hooks of the lead speak about calls on a worker as about any other: what they change is judged, what they add is
read, and they may answer a question.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from program import bash, tool
from remote_stage import Stage, away, ended, notices


def hooks(stage: Stage, event: str, **said: Any) -> str:
    """Settings with one hook that answers every call of Bash."""
    answer = stage.root / f"{event}.json"
    answer.write_text(json.dumps({"hookSpecificOutput": {"hookEventName": event} | said}))
    command = {"type": "command", "command": f"cat {answer}"}
    return json.dumps({"hooks": {event: [{"matcher": "Bash", "hooks": [command]}]}})


def play(stage: Stage, settings: str, *flags: str) -> str:
    """What is in the output file of an agent on a worker."""
    stage.worker("w1")
    model = stage.script(main=[[away("far")], ["waiting"], ["end"]], far=[[bash("ls")], ["end"]])
    ran = ended(stage.start(model, "--settings", settings, *flags))
    assert ran.rc == 0, ran.err
    return Path(notices(ran)[0]["output_file"]).read_text()


@pytest.mark.spec("Z15", "M6")
@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
def test_what_a_hook_makes_of_a_call_on_a_worker_is_judged(stage: Stage, mode: str) -> None:
    """A rule allows the call, but not what it has become; no hook has allowed that."""
    changed = hooks(stage, "PreToolUse", updatedInput={"command": f"touch {stage.log}; echo changed"})
    output = play(stage, changed, "--permission-mode", mode)
    assert stage.log.exists() == (mode == "bypassPermissions")
    if mode == "default":
        assert "nobody is attached" in output and "hook refused" not in output
    else:
        assert "changed" in output


@pytest.mark.spec("Z15", "M6")
def test_what_a_hook_wants_asked_about_a_worker_is_asked(stage: Stage) -> None:
    """In every mode, and about what it made of the call."""
    stage.worker("w1")
    said = {"permissionDecision": "ask", "updatedInput": {"command": f"touch {stage.log}"}}
    settings = hooks(stage, "PreToolUse", **said)
    scripts = {"main": [[away("far")], ["waiting"], ["end"]], "far": [[bash("ls")], ["far-end"]]}
    more = ("--settings", settings, "--dangerously-skip-permissions")
    live = stage.program.talk(scripts, "--engine", str(stage.space), *more)
    try:
        live.say("SCRIPT:main")
        question = live.question()
        assert question["request"]["input"]["command"] == f"touch {stage.log}" and not stage.log.exists()
        live.answer(question, behavior="deny", message="not-today")
        live.wait_for(lambda line: line["type"] == "user" and "not-today" in json.dumps(line))
        assert not stage.log.exists()
    finally:
        stage.program.close()


@pytest.mark.spec("Z15")
def test_what_a_hook_adds_to_a_call_on_a_worker_is_read_there(stage: Stage) -> None:
    assert "mind-the-gap" in play(stage, hooks(stage, "PreToolUse", additionalContext="mind-the-gap"))


@pytest.mark.spec("A6", "Z15")
def test_a_rule_on_a_whole_tool_does_not_cover_the_state_of_a_worker(stage: Stage) -> None:
    """The lead decides, but what is protected there only the worker knows."""
    state = stage.worker("w1", TEAMWRIGHT_HOME=str(stage.root / "w1/mine")).home / "mine"
    writes = [[tool("Write", file_path=str(place / "made"), content="x")] for place in (state, stage.root)]
    model = stage.script(main=[[away("far")], ["waiting"], ["end"]], far=[*writes, ["end"]])
    ran = ended(stage.start(model, "--permission-mode", "acceptEdits", "--allowed-tools", "Write"))
    assert ran.rc == 0 and (stage.root / "made").exists() and not (state / "made").exists(), ran.err


@pytest.mark.spec("Z15", "M6")
@pytest.mark.parametrize("decision", ["allow", "deny"])
def test_a_hook_of_the_lead_answers_a_question_from_a_worker(stage: Stage, decision: str) -> None:
    made = {"command": f"touch {stage.log}"}
    settings = hooks(stage, "PermissionRequest", permissionDecision=decision, permissionDecisionReason="because")
    stage.worker("w1")
    model = stage.script(main=[[away("far")], ["waiting"], ["end"]], far=[[bash(made["command"])], ["end"]])
    ran = ended(stage.start(model, "--settings", settings, "--permission-mode", "default"))
    assert ran.rc == 0 and stage.log.exists() == (decision == "allow"), ran.err
    if decision == "deny":
        assert "a hook refused it: because" in Path(notices(ran)[0]["output_file"]).read_text()
