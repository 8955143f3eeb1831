"""Driving the program over pipes: prompts, control requests and permission questions, both ways."""

import json

import pytest

from program import Program, bash, tool, tool_results


def test_each_line_is_a_turn_of_one_conversation(program: Program) -> None:
    live = program.talk(["first", "second"])
    live.say("one")
    live.results(1)
    live.say([{"type": "text", "text": "two"}])
    first, second = live.results(2)
    ran = live.end()
    assert ran.rc == 0 and (first["result"], second["result"]) == ("first", "second")
    inits = [n for n, line in enumerate(ran.lines) if line.get("subtype") == "init"]
    ends = [n for n, line in enumerate(ran.lines) if line["type"] == "result"]
    assert len(inits) == 2 and inits[0] == 0 and inits[1] == ends[0] + 1  # init opens every turn


@pytest.mark.spec("Q5")
def test_the_end_of_input_is_no_stop_what_was_said_is_answered(program: Program) -> None:
    live = program.talk([bash("echo working"), "the answer"])
    live.say("go")
    ran = live.end()
    assert ran.rc == 0 and ran.result["result"] == "the answer"


def test_no_input_at_all_is_no_turn(program: Program) -> None:
    ran = program.talk(["never"]).end()
    assert ran.lines == [] and ran.rc in (0, 1)


def test_initialize_is_answered_before_any_turn(program: Program) -> None:
    live = program.talk(["x"])
    answer = live.ask("initialize", hooks=None, agents={}, unknownField=1)
    assert answer["subtype"] == "success" and live.lines[0]["type"] == "control_response"
    greeting = answer["response"]
    assert {"commands", "agents", "models", "output_style", "available_output_styles", "account"} <= set(greeting)
    assert greeting["pid"] == live.process.pid and greeting["hook_on_failure_supported"] is True
    assert {"name", "description"} <= set(greeting["agents"][0])
    assert {"value", "displayName", "description"} <= set(greeting["models"][0])
    assert [line for line in live.end().lines if line["type"] == "system"] == []  # no init before a user message


@pytest.mark.spec("A12")
def test_bad_lines_are_told_and_skipped(program: Program) -> None:
    live = program.talk(["still here"])
    bad = [
        b"not json", b"{", b"\xff\xfe", b"[1]", b'"x"', b'{"type":"unknown"}', b'{"type":"user"}',
        b'{"type":"user","message":{"content":""}}', b'{"type":"user","message":{"content":[{"type":"nope"}]}}',
        b'{"type":"control_request"}', b'{"type":"control_response","response":{"subtype":"success","request_id":"q"}}',
        b"[" * 100_000, b'{"type":"user","message":{"content":"\\ud800"}}', b"",
    ]  # fmt: skip
    for line in bad:
        live.send(line)
    live.say("go")
    live.results(1)
    ran = live.end()
    assert ran.rc == 0 and ran.result["result"] == "still here" and "Traceback" not in ran.err
    told = [line for line in ran.err.splitlines() if line.startswith("teamwright: line ")]
    assert len(told) == len(bad) - 1 and told[0].startswith("teamwright: line 1 of standard input: ")
    assert len([line for line in ran.lines if line["type"] == "result"]) == 1


def test_an_unknown_control_request_is_an_error_answer(program: Program) -> None:
    live = program.talk(["x"])
    answer = live.ask("fly_to_the_moon", how="fast")
    assert answer["subtype"] == "error" and "fly_to_the_moon" in answer["error"]
    assert live.ask("set_permission_mode", mode="nonsense")["subtype"] == "error"
    assert live.ask("set_permission_mode")["subtype"] == "error"
    assert live.ask("set_model", model="no/such/provider")["subtype"] == "error"
    assert live.ask("stop_task", task_id="t9")["subtype"] == "error"
    assert live.ask("background", task_id="t9")["subtype"] == "error"
    assert live.ask("stop_all")["subtype"] == "success"  # nothing runs: nothing to stop
    assert live.ask("initialize")["subtype"] == "success"
    assert live.end().lines[0]["type"] == "control_response"


@pytest.mark.parametrize("request_", [None, [], "interrupt", {}, {"subtype": 7}, {"subtype": ["interrupt"]}])
def test_a_control_request_that_is_none_is_an_error_answer(program: Program, request_: object) -> None:
    """Whoever sent it waits for an answer."""
    live = program.talk(["x"])
    live.send({"type": "control_request", "request_id": "r", "request": request_})
    answer = live.seen(type="control_response")["response"]
    assert answer["request_id"] == "r" and answer["subtype"] == "error" and answer["error"]


@pytest.mark.spec("M2")
def test_the_mode_can_be_changed_and_holds_from_then_on(program: Program) -> None:
    write = tool("Write", file_path=str(program.project / "f"), content="x")
    live = program.talk([write, "one", write, "two"])
    assert live.ask("set_permission_mode", mode="dontAsk")["subtype"] == "success"
    live.say("one")
    assert len(live.results(1)[0]["permission_denials"]) == 1 and not (program.project / "f").exists()
    assert live.ask("set_permission_mode", mode="acceptEdits")["subtype"] == "success"
    live.say("two")
    live.results(2)
    ran = live.end()
    assert (program.project / "f").exists()
    modes = [line["permissionMode"] for line in ran.lines if line.get("subtype") == "init"]
    assert modes == ["dontAsk", "acceptEdits"]


@pytest.mark.spec("M2", "M9")
def test_bypass_cannot_be_switched_on_from_outside(program: Program) -> None:
    live = program.talk([bash("touch f"), "done"])
    answer = live.ask("set_permission_mode", mode="bypassPermissions")
    assert answer["subtype"] == "error" and "--dangerously-skip-permissions" in answer["error"]
    live.say("go")
    update = {"type": "setMode", "mode": "bypassPermissions", "destination": "session"}
    live.answer(live.question(), behavior="allow", updatedInput={"command": "touch g"}, updatedPermissions=[update])
    live.results(1)  # the answer counts, but nothing else that it asks for
    ran = live.end()
    assert "--dangerously-skip-permissions" in ran.err and ran.rc == 0
    assert (program.project / "g").exists() and not (program.project / "f").exists()


def test_the_model_can_be_changed_and_back(program: Program) -> None:
    other = program.root / "other.json"
    other.write_text(json.dumps(["-", "from the other"]))
    live = program.talk(["one", "-", "three"])
    live.say("1")
    live.results(1)
    assert live.ask("set_model", model=f"script/{other}")["subtype"] == "success"
    live.say("2")
    live.results(2)
    assert live.ask("set_model", model=None)["subtype"] == "success"
    live.say("3")
    results = live.results(3)
    assert [r["result"] for r in results] == ["one", "from the other", "three"]
    assert live.end().rc == 0


# --- questions


@pytest.mark.spec("M10")
def test_a_question_has_everything_that_a_person_needs_and_allow_runs_it(program: Program) -> None:
    live = program.talk([bash("touch f"), "done"])
    live.say("go")
    question = live.question()
    asked = question["request"]
    assert asked["subtype"] == "can_use_tool" and asked["tool_name"] == "Bash"
    assert asked["input"] == {"command": "touch f"} and asked["tool_use_id"] and asked["decision_reason"]
    assert asked["permission_suggestions"][0]["rules"] == [{"toolName": "Bash", "ruleContent": "touch f"}]
    assert not (program.project / "f").exists() and "agent_id" not in asked  # the main agent has none
    live.answer(question, behavior="allow", updatedInput={"command": "touch f"})
    assert live.end().rc == 0 and (program.project / "f").exists()


@pytest.mark.spec("M5", "D2")
def test_a_question_of_a_sub_agent_has_the_color_of_its_definition(program: Program) -> None:
    painter = json.dumps({"painter": {"description": "d", "prompt": "p", "color": "purple"}})
    asked = tool("Agent", description="d", prompt="SCRIPT:child", subagent_type="painter")
    live = program.talk({"main": [asked, "done"], "child": [bash("touch f"), "painted"]}, "--agents", painter)
    live.say("SCRIPT:main")
    question = live.question()
    assert question["request"]["agent_color"] == "purple" and question["request"]["agent_id"]
    live.answer(question, behavior="deny", message="no")
    assert live.end().rc == 0


@pytest.mark.spec("M10")
def test_one_yes_to_a_change_of_files_covers_the_next(program: Program) -> None:
    """Inside the working directories the mode covers it; outside, the directory as well."""
    outside = program.root / "elsewhere"
    outside.mkdir()
    files = [program.project / "a.txt", program.project / "b.txt", outside / "c.txt", outside / "d.txt"]
    live = program.talk([*({"tool": "Write", "input": {"file_path": str(f), "content": "x\n"}} for f in files), "done"])
    live.say("go")
    first = live.question(0)
    accept = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
    assert first["request"]["permission_suggestions"] == [accept]
    live.answer(first, behavior="allow", updatedPermissions=[accept])
    second = live.question(1)
    assert second["request"]["input"]["file_path"] == str(files[2])
    suggested = second["request"]["permission_suggestions"]
    assert suggested[0] == {"type": "addDirectories", "directories": [str(outside)], "destination": "session"}
    live.answer(second, behavior="allow", updatedPermissions=suggested)
    live.results(1)
    assert live.end().rc == 0 and all(file.exists() for file in files)


@pytest.mark.spec("M10")
def test_a_changed_input_is_what_runs_and_is_recorded(program: Program) -> None:
    live = program.talk([bash("touch f"), "done"])
    live.say("go")
    live.answer(live.question(), behavior="allow", updatedInput={"command": "touch other; echo changed"})
    ran = live.end()
    assert not (program.project / "f").exists() and (program.project / "other").exists()
    assert ran.tool_results == [("changed", False)]
    assert '"args":{"command":"touch other; echo changed"}' in program.transcript().read_text()


@pytest.mark.spec("M3")
def test_a_changed_input_cannot_get_around_a_rule_that_denies(program: Program) -> None:
    live = program.talk([bash("touch f"), "done"], "--disallowed-tools", "Bash(curl *)")
    live.say("go")
    live.answer(live.question(), behavior="allow", updatedInput={"command": "curl http://127.0.0.1:1/"})
    ((text, is_error),) = live.end().tool_results
    assert is_error and "curl" in text


@pytest.mark.spec("M5", "M10")
def test_no_with_a_reason_is_what_the_model_reads(program: Program) -> None:
    live = program.talk([bash("touch f"), "done"])
    live.say("go")
    live.answer(live.question(), behavior="deny", message="Use Write instead.")
    ran = live.end()
    assert ran.rc == 0 and ran.tool_results == [("Use Write instead.", True)]
    assert [d["tool_input"] for d in ran.result["permission_denials"]] == [{"command": "touch f"}]


@pytest.mark.spec("M10")
def test_no_and_stop_ends_the_turn_and_the_session_goes_on(program: Program) -> None:
    live = program.talk([[bash("touch f"), bash("touch g")], "second"])
    live.say("one")
    live.answer(live.question(), behavior="deny", message="Stop.", interrupt=True)
    (first,) = live.results(1)
    assert first["subtype"] == "error_during_execution" and first["is_error"]
    live.say("two")
    assert live.results(2)[1]["result"] == "second"
    ran = live.end()
    assert ran.rc == 0 and len(ran.tool_results) == 2 and all(is_error for _, is_error in ran.tool_results)


@pytest.mark.spec("M5")
def test_always_is_a_rule_for_the_rest_of_the_session(program: Program) -> None:
    live = program.talk([bash("touch a"), bash("touch b"), bash("mkdir c"), "done"])
    live.say("go")
    rule = {"toolName": "Bash", "ruleContent": "touch *"}
    add = {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"}
    live.answer(live.question(), behavior="allow", updatedInput={"command": "touch a"}, updatedPermissions=[add])
    second = live.question(1)
    assert second["request"]["input"] == {"command": "mkdir c"}  # `touch b` was not asked
    live.answer(second, behavior="deny", message="no")
    assert live.end().rc == 0 and (program.project / "b").exists()


@pytest.mark.spec("M5")
def test_an_answer_can_add_a_directory(program: Program) -> None:
    outside = program.root / "outside"
    outside.mkdir()
    (outside / "f").write_text("hidden words")
    read = tool("Read", file_path=str(outside / "f"))
    live = program.talk([read, read, "done"])
    live.say("go")
    question = live.question()
    assert question["request"]["blocked_path"] == str(outside / "f")
    add = {"type": "addDirectories", "directories": [str(outside)], "destination": "session"}
    live.answer(question, behavior="allow", updatedInput=question["request"]["input"], updatedPermissions=[add])
    ran = live.end()
    assert [("hidden words" in text, error) for text, error in ran.tool_results] == [(True, False)] * 2
    assert len([line for line in ran.lines if line["type"] == "control_request"]) == 1


@pytest.mark.spec("M10")
@pytest.mark.parametrize(
    "body",
    [
        {"subtype": "error", "error": "the window was closed"},
        {"subtype": "success", "response": {"behavior": "perhaps"}},
        {"subtype": "success"},
        {"subtype": "success", "response": {"behavior": "allow", "updatedInput": "text"}},
        {"subtype": "success", "response": "yes"},
        {"subtype": "success", "response": ["yes"]},
        {"subtype": "error", "error": 5},
        {"response": {"behavior": "allow"}},
    ],
)
def test_an_answer_that_cannot_be_read_denies(program: Program, body: dict) -> None:
    live = program.talk([bash("touch f"), "done"])
    live.say("go")
    question = live.question()
    live.send({"type": "control_response", "response": body | {"request_id": question["request_id"]}})
    live.results(1)  # the end of input would deny it, too
    ran = live.end()
    assert ran.rc == 0 and ran.tool_results[0][1] and not (program.project / "f").exists()


BROKEN = [b"[" * 100_000 + b"]" * 100_000, b'{"n":1e400}', b'"\xff"']


@pytest.mark.spec("M10")
@pytest.mark.parametrize("value", BROKEN, ids=["depth", "number", "bytes"])
def test_an_answer_that_is_no_json_denies(program: Program, value: bytes) -> None:
    live = program.talk([bash("touch f"), "done"])
    live.say("go")
    id = live.question()["request_id"].encode()
    answer = b'{"subtype":"success","request_id":"%b","response":%b}' % (id, value)
    live.send(b'{"type":"control_response","response":%b}' % answer)
    live.results(1)  # the end of input would deny it, too
    ran = live.end()
    assert ran.rc == 0 and "cannot be read" in ran.tool_results[0][0] and not (program.project / "f").exists()


@pytest.mark.spec("A12")
@pytest.mark.parametrize("value", BROKEN, ids=["depth", "number", "bytes"])
def test_a_request_that_is_no_json_is_an_error_answer(program: Program, value: bytes) -> None:
    live = program.talk(["x"])
    live.send(b'{"type": "control_request", "request_id": "r-1", "request": {"subtype": "x", "y": %b}}' % value)
    answer = live.seen(type="control_response")["response"]
    assert answer["request_id"] == "r-1" and answer["subtype"] == "error" and answer["error"]
    live.say("go")
    live.results(1)
    assert live.end().result["result"] == "x"


@pytest.mark.spec("M10")
def test_an_interrupt_withdraws_the_question_and_the_session_goes_on(program: Program) -> None:
    live = program.talk([bash("touch f"), "second"])
    live.say("one")
    question = live.question()
    assert live.ask("interrupt")["subtype"] == "success"
    live.seen(type="control_cancel_request", request_id=question["request_id"])
    assert live.results(1)[0]["subtype"] == "error_during_execution"
    live.answer(question, behavior="allow", updatedInput={"command": "touch f"})  # too late
    live.say("two")
    assert live.results(2)[1]["result"] == "second"
    ran = live.end()
    assert ran.rc == 0 and not (program.project / "f").exists() and "no question" in ran.err


@pytest.mark.spec("M10")
def test_the_end_of_input_with_a_question_open_denies_it_and_the_turn_ends(program: Program) -> None:
    live = program.talk([bash("touch f"), bash("touch g"), "the end"])
    live.say("go")
    live.question()
    ran = live.end()
    assert ran.rc == 0 and ran.result["result"] == "the end" and len(ran.result["permission_denials"]) == 2
    assert all(error and "nobody can approve this" in text for text, error in ran.tool_results)


@pytest.mark.spec("A3")
def test_an_interrupt_in_mid_command_and_one_without_a_turn(program: Program) -> None:
    live = program.talk([bash("echo $$ > pid; sleep 100"), "second"], "--dangerously-skip-permissions")
    assert live.ask("interrupt")["subtype"] == "success"  # nothing runs: nothing happens
    live.say("one")
    live.wait_for(lambda line: line["type"] == "assistant")
    assert live.ask("interrupt")["subtype"] == "success"
    assert live.results(1)[0]["subtype"] == "error_during_execution"
    live.say("two")
    assert live.results(2)[1]["result"] == "second"
    ran = live.end()
    ((text, is_error),) = tool_results(ran.lines)
    assert is_error and ("Interrupted" in text or "Not run" in text) and ran.rc == 0


@pytest.mark.spec("O6")
def test_turns_count_anew_for_each_user_message(program: Program) -> None:
    live = program.talk([bash("echo"), bash("echo"), bash("echo"), "done"], "--max-turns", "2",
                        "--dangerously-skip-permissions")  # fmt: skip
    live.say("one")
    assert live.results(1)[0]["subtype"] == "error_max_turns"
    live.say("two")
    assert live.results(2)[1]["subtype"] == "success"
    assert live.end().rc == 0  # the status is that of the last result


def test_a_driver_that_asks_for_nothing_is_no_error(program: Program) -> None:
    assert program.talk(["x"]).end().rc == 0
    live = program.talk(["x"])
    live.ask("initialize")
    assert live.end().rc == 0
    live = program.talk(["x"])
    live.send(b"what is this")
    ran = live.end()
    assert ran.rc == 1 and "line 1" in ran.err
