"""A driving program that brings its own hooks, servers and agents, and calls commands."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from program import Live, Program, bash, tool

SMALL = Path(__file__).parents[1] / "servers" / "small_mcp.py"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def asked(live: Live, subtype: str, after: int = 0) -> dict[str, Any]:
    """What the program asks of us."""
    return live.wait_for(
        lambda line: line["type"] == "control_request" and line["request"]["subtype"] == subtype, after=after
    )


def near(program: Program) -> str:
    config = {"command": sys.executable, "args": [str(SMALL), str(program.root / "near.log")]}
    return json.dumps({"mcpServers": {"near": config}})


# --- hooks


@pytest.mark.spec("D9", "M10")
def test_a_hook_of_the_driver_refuses_a_call_and_changes_another(program: Program) -> None:
    live = program.talk([bash("touch a"), bash("touch b"), "end"], "--dangerously-skip-permissions")
    hooks = {"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["hook_0"]}], "NoSuchEvent": []}
    assert live.ask("initialize", hooks=hooks)["subtype"] == "success"
    live.say("go")
    first = asked(live, "hook_callback")
    request = first["request"]
    assert request["callback_id"] == "hook_0" and request["tool_use_id"] == request["input"]["tool_use_id"]
    assert request["input"]["tool_input"] == {"command": "touch a"}
    no = {"permissionDecision": "deny", "permissionDecisionReason": "not a"}
    live.answer(first, hookSpecificOutput={"hookEventName": "PreToolUse"} | no)
    second = asked(live, "hook_callback", after=live.lines.index(first) + 1)
    other = {"permissionDecision": "allow", "updatedInput": {"command": "touch c"}}
    live.answer(second, hookSpecificOutput={"hookEventName": "PreToolUse"} | other)
    ran = live.end()
    assert ran.rc == 0 and sorted(p.name for p in program.project.iterdir()) == ["c"]
    assert "not a" in ran.tool_results[0][0] and "NoSuchEvent" in ran.err


@pytest.mark.parametrize(("failure", "runs"), [(None, True), ("block", False)])
def test_a_hook_that_fails_blocks_only_if_it_should(program: Program, failure: str | None, runs: bool) -> None:
    live = program.talk([bash("touch a"), "end"], "--dangerously-skip-permissions")
    entry = {"matcher": None, "hookCallbackIds": ["h"], "onFailure": failure}
    live.ask("initialize", hooks={"PreToolUse": [entry]})
    live.say("go")
    question = asked(live, "hook_callback")
    error = {"subtype": "error", "request_id": question["request_id"], "error": "broken"}
    live.send({"type": "control_response", "response": error})
    live.end()
    assert (program.project / "a").exists() == runs


@pytest.mark.parametrize("answer", ["yes", [], 5])
@pytest.mark.parametrize(("event", "runs"), [("PreToolUse", False), ("UserPromptSubmit", True)])
def test_an_answer_of_a_hook_that_is_no_object(program: Program, answer: object, event: str, runs: bool) -> None:
    """A guard's counts as no answer: the call is refused. Nothing waits for the hook's time limit."""
    live = program.talk([bash("touch a"), "end"], "--dangerously-skip-permissions")
    live.ask("initialize", hooks={event: [{"hookCallbackIds": ["h"]}]})
    live.say("go")
    id = asked(live, "hook_callback")["request_id"]
    body = {"subtype": "success", "request_id": id, "response": answer}
    live.send({"type": "control_response", "response": body})
    live.results(1)
    live.end()
    assert (program.project / "a").exists() == runs


def test_of_two_answers_of_a_guard_the_first_counts(program: Program) -> None:
    live = program.talk([bash("touch a"), "end"], "--dangerously-skip-permissions")
    live.ask("initialize", hooks={"PreToolUse": [{"hookCallbackIds": ["h"]}]})
    live.say("go")
    id = asked(live, "hook_callback")["request_id"]
    bodies = [{"subtype": "success", "request_id": id, "response": said} for said in ({"decision": "block"}, {})]
    lines = [json.dumps({"type": "control_response", "response": body}).encode() for body in bodies]
    live.send(b"\n".join(lines))
    live.results(1)
    live.end()
    assert not (program.project / "a").exists()


@pytest.mark.spec("A12")
def test_a_guard_that_does_not_answer_in_time_refuses_and_is_withdrawn(program: Program) -> None:
    live = program.talk([bash("touch a"), "end"], "--dangerously-skip-permissions")
    live.ask("initialize", hooks={"PreToolUse": [{"hookCallbackIds": ["h"], "timeout": 0.2}]})
    live.say("go")
    question = asked(live, "hook_callback")
    live.seen(type="control_cancel_request", request_id=question["request_id"])
    live.results(1)
    ran = live.end()
    assert ran.tool_results[0][1] and not (program.project / "a").exists()


def test_after_the_end_of_input_hooks_of_the_driver_hold_nothing_up(program: Program) -> None:
    live = program.talk(["end"])
    live.ask("initialize", hooks={"Stop": [{"hookCallbackIds": ["h"]}], "SessionEnd": [{"hookCallbackIds": ["h"]}]})
    live.say("go")
    asked(live, "hook_callback")
    ran = live.end()
    assert ran.rc == 0 and ran.result["result"] == "end"


GUARD = {"hookCallbackIds": ["guard"]}


@pytest.mark.spec("M10", "D9")
@pytest.mark.parametrize(
    "fields",
    [
        {"hooks": {"PreToolUse": [GUARD], "Stop": [{"hookCallbackIds": ["s"], "timeout": "5"}]}},
        {"hooks": {"PreToolUse": [GUARD | {"matcher": "("}]}},
        {"hooks": 7},
        {"hooks": {"PreToolUse": [GUARD]}, "agents": [1]},
    ],
)
def test_a_greeting_that_cannot_be_read_is_an_error_and_nothing_runs_unguarded(program: Program, fields: Any) -> None:
    """Even for a driver that does not wait for the answer."""
    live = program.talk([bash("touch made"), "end"], "--dangerously-skip-permissions")
    request = {"subtype": "initialize"} | fields
    said = {"type": "user", "message": {"role": "user", "content": "go"}}
    lines = [{"type": "control_request", "request_id": "r", "request": request}, said]
    live.send(b"\n".join(json.dumps(line).encode() for line in lines))
    answer = live.seen(type="control_response")["response"]
    assert answer["subtype"] == "error" and answer["error"]
    live.seen(type="END")  # by itself, with its input still open
    ran = live.end()
    assert ran.rc == 1 and answer["error"] in ran.err and not (program.project / "made").exists()


@pytest.mark.spec("M10", "D9")
def test_a_greeting_that_is_no_json_ends_the_session_too(program: Program) -> None:
    live = program.talk([bash("touch made"), "end"], "--dangerously-skip-permissions")
    guard = b'{"PreToolUse":[{"hookCallbackIds":["guard"],"timeout":1e400}]}'
    request = b'{"type":"control_request","request_id":"r","request":{"subtype":"initialize","hooks":%b}}' % guard
    live.send(request + b'\n{"type":"user","message":{"role":"user","content":"go"}}')
    assert live.seen(type="control_response")["response"]["subtype"] == "error"
    live.seen(type="END")
    assert live.end().rc == 1 and not (program.project / "made").exists()


# --- agents, skills, commands


@pytest.mark.spec("D1")
def test_agents_that_come_with_the_greeting_can_be_started(program: Program) -> None:
    call = tool("Agent", description="d", prompt="p", subagent_type="helper")
    live = program.talk([call, "end"], "--dangerously-skip-permissions")
    answer = live.ask("initialize", agents={"helper": {"description": "helps much", "prompt": "You help."}})
    assert {"name": "helper", "description": "helps much"} in answer["response"]["agents"]
    live.say("go")
    started = live.seen(type="system", subtype="task_started")
    assert "helper" in live.seen(type="system", subtype="init")["agents"] and started["description"] == "d"
    live.end()


@pytest.mark.spec("S1", "S2", "S4")
def test_a_command_is_expanded_told_of_and_may_ask(program: Program) -> None:
    """Its `!` line waits for an approval that comes over the same pipe."""
    write(program.home / ".claude/commands/look.md", "---\ndescription: looks\n---\nSeen: !`touch a; echo 42`")
    live = program.talk(["one", "two", "three"])
    greeting = live.ask("initialize")["response"]
    assert {"name": "look", "description": "looks", "argumentHint": ""} in greeting["commands"]
    live.say("/look")
    live.answer(live.question(), behavior="allow", updatedInput={"command": "echo 43"})
    live.results(1)
    said = {"role": "user", "content": "/look"}
    live.send({"type": "user", "message": said, "client_composed": True})  # as it is: no command
    live.results(2)
    live.say("/nothing of that name")
    assert "no command /nothing" in live.results(3)[-1]["result"]
    ran = live.end()
    assert "look" in next(line for line in ran.lines if line.get("subtype") == "init")["slash_commands"]
    transcript = program.transcript().read_text()
    assert "Seen: 43" in transcript and '"/look"' in transcript and "/nothing" not in transcript


@pytest.mark.spec("S3")
def test_a_command_of_its_own_context_answers_without_the_main_model(program: Program) -> None:
    write(program.home / ".claude/skills/audit/SKILL.md", "---\nname: audit\ncontext: fork\n---\nLook at $0.")
    ran = program.prompt(["all shut"], text="/audit doors")
    assert ran.rc == 0 and ran.result["result"] == "all shut"
    kinds = [line.get("subtype") or line["type"] for line in ran.lines]
    assert kinds[0] == "init" and kinds.count("init") == kinds.count("success") == 1
    write(program.home / ".claude/skills/mine/SKILL.md", "---\nname: mine\nuser-invocable: false\n---\nx")
    ran = program.prompt(["never"], text="/mine")
    assert ran.rc == 1 and "for the model alone" in ran.result["result"]


def test_only_the_chosen_skills_are_told_of(program: Program) -> None:
    for name in ("one", "two"):
        write(program.home / f".claude/skills/{name}/SKILL.md", f"---\nname: {name}\n---\nx")
    live = program.talk(["end"])
    live.ask("initialize", skills=["two"])
    live.say("go")
    assert live.seen(type="system", subtype="init")["skills"] == ["two"]
    live.end()


# --- servers


@pytest.mark.spec("D8")
def test_servers_are_shown_switched_off_and_on(program: Program) -> None:
    live = program.talk(
        [tool("mcp__near__echo", text="hi"), "end"], "--mcp-config", near(program), "--allowed-tools", "mcp__near"
    )
    live.say("go")
    assert live.seen(type="system", subtype="init")["mcp_servers"] == [{"name": "near", "status": "connected"}]
    live.results(1)
    (status,) = live.ask("mcp_status")["response"]["mcpServers"]
    assert status["status"] == "connected" and {"name": "echo"} in status["tools"]
    assert live.ask("mcp_toggle", serverName="near", enabled=False)["subtype"] == "success"
    assert live.ask("mcp_status")["response"]["mcpServers"][0]["status"] == "disabled"
    assert live.ask("mcp_reconnect", serverName="near")["subtype"] == "success"
    assert live.ask("mcp_status")["response"]["mcpServers"][0]["status"] == "connected"
    assert live.ask("mcp_reconnect", serverName="far")["subtype"] == "error"
    assert live.ask("mcp_toggle", serverName=7)["subtype"] == "error"
    assert "hi" in live.end().tool_results[0][0]


def test_without_servers_there_is_nothing_to_switch(program: Program) -> None:
    live = program.talk(["end"])
    assert live.ask("mcp_status")["response"] == {"mcpServers": []}
    assert live.ask("mcp_reconnect", serverName="x")["subtype"] == "error"
    live.end()


@pytest.mark.spec("D8")
def test_a_server_inside_the_driver_is_spoken_to_through_the_pipes(program: Program) -> None:
    config = json.dumps({"mcpServers": {"calc": {"type": "sdk", "name": "calc"}}})
    live = program.talk(
        [tool("mcp__calc__add", a=2, b=3), "end"], "--mcp-config", config, "--allowed-tools", "mcp__calc__add"
    )
    schema = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}
    answers = {
        "initialize": {
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "c", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "add", "description": "adds", "inputSchema": schema}]},
        "tools/call": {"content": [{"type": "text", "text": "sum 5"}]},
    }  # fmt: skip
    live.say("go")
    seen, before = list[str](), 0
    while "tools/call" not in seen:
        line = asked(live, "mcp_message", after=before)
        before = live.lines.index(line) + 1
        message = line["request"]["message"]
        seen.append(message["method"])
        assert line["request"]["server_name"] == "calc"
        answer = {"jsonrpc": "2.0", "id": message.get("id"), "result": answers.get(message["method"], {})}
        live.answer(line, mcp_response=answer)
    live.results(1)
    ran = live.end()
    assert ran.rc == 0 and ran.tool_results[0] == ("sum 5", False)


@pytest.mark.spec("A12")
def test_a_driver_that_knows_nothing_of_its_server_goes_without_it(program: Program) -> None:
    config = json.dumps({"mcpServers": {"calc": {"type": "sdk", "name": "calc"}}})
    live = program.talk(["end"], "--mcp-config", config)
    live.say("go")
    line = asked(live, "mcp_message")
    error = {"subtype": "error", "request_id": line["request_id"], "error": "no such server"}
    live.send({"type": "control_response", "response": error})
    live.results(1)
    ran = live.end()
    init = next(line for line in ran.lines if line.get("subtype") == "init")
    assert ran.rc == 0 and init["mcp_servers"] == [{"name": "calc", "status": "failed"}]


@pytest.mark.spec("A12", "D8")
@pytest.mark.parametrize("answer", [[], "x", 7, {"mcp_response": [1]}, {"mcp_response": "x"}, {"mcp_response": 7}])
def test_an_answer_that_is_no_message_costs_its_server_alone(program: Program, answer: object) -> None:
    config = json.dumps({"mcpServers": {"calc": {"type": "sdk", "name": "calc"}}})
    live = program.talk(["end"], "--mcp-config", config)
    live.say("go")
    body = {"subtype": "success", "request_id": asked(live, "mcp_message")["request_id"], "response": answer}
    live.send({"type": "control_response", "response": body})
    live.results(1)
    ran = live.end()
    init = next(line for line in ran.lines if line.get("subtype") == "init")
    assert ran.rc == 0 and ran.result["result"] == "end" and "Traceback" not in ran.err
    assert init["mcp_servers"] == [{"name": "calc", "status": "failed"}]


@pytest.mark.parametrize(
    "flag", [["--mcp-config", "{"], ["--mcp-config", "/no/such/file"], ["--system-prompt-file", "/no"]]
)
def test_wrong_use_is_told(program: Program, flag: list[str]) -> None:
    ran = program.run("-p", "go", *flag, script=["never"])
    assert ran.rc == 2 and flag[0] in ran.err
