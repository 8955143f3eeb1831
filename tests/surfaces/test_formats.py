"""The three output formats: what each prints, and what none of them ever prints."""

import json
from typing import Any

import pytest

from program import Program, bash, check_clean, tool
from teamwright.surfaces.headless.lines import encode_line

NASTY = "\x1b[31mred\x1b[0m \x07bell \u202egnp.exe \u200bzero \u2066iso\u2069 \x9b31m \x00nul \x7fdel \ufeffbom \rback"
HIDDEN = "\U000e0041\u3164\uffa0\u115f\u034f\u17b4\U0001d173"  # drawn as nothing


def test_text_is_the_answer_and_nothing_else(program: Program) -> None:
    ran = program.run("-p", "go", script=[["aloud", bash("echo noise")], "the answer"])
    assert (ran.rc, ran.out, ran.err) == (0, "the answer\n", "")


@pytest.mark.spec("M10")
def test_a_denial_tells_the_person_how_to_allow_it(program: Program) -> None:
    ran = program.run("-p", "go", script=[bash("touch no"), "over"])
    assert ran.err == (
        "teamwright: Bash was not run: no allow rule covers `touch no`. Nobody is there to approve it; --allowed-tools "
        "or --permission-mode can allow it. Allowed: commands that only read.\n"
    )
    settings = '{"permissions": {"deny": ["Read(.env)"]}}'
    ran = program.run("-p", "go", "--settings", settings, script=[bash("cat .env"), "over"])
    assert "denies reading" in ran.err and "Do without" not in ran.err


@pytest.mark.spec("O1")
def test_json_is_the_last_result_alone(program: Program) -> None:
    ran = program.run("-p", "go", "--output-format", "json", script=[["aloud", bash("echo noise")], "the answer"])
    (line,) = ran.lines
    want = {
        "subtype", "is_error", "result", "num_turns", "duration_ms", "duration_api_ms", "total_cost_usd", "usage",
        "modelUsage", "permission_denials", "session_id", "uuid", "errors", "api_error_status", "stop_reason",
        "structured_output",
    }  # fmt: skip
    assert want <= set(line) and line["result"] == "the answer" and line["subtype"] == "success"
    assert line["num_turns"] == 2 and line["is_error"] is False and line["total_cost_usd"] is None


LATE = tool("Bash", command="sleep 0.3", run_in_background=True)
CHILD = tool(
    "Agent", description="look", prompt="SCRIPT:child", subagent_type="general-purpose", run_in_background=True
)


@pytest.mark.spec("O1", "Q3")
@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
@pytest.mark.parametrize(
    ("work", "printed"),
    [(LATE, "the answer\n\nNothing is left."), (CHILD, "Nothing is left.")],
    ids=["command", "agent"],
)
def test_what_is_said_after_the_answer_is_added_to_it(program: Program, work: Any, printed: str, form: str) -> None:
    """An answer that agents still worked on is not the last word: what is said about their report takes its place."""
    script = {"main": [work, "the answer", "Nothing is left."], "child": [bash("sleep 0.3"), "the report"]}
    ran = program.run("-p", "go", "--output-format", form, "--verbose", "--allowed-tools", "Bash", script=script)
    assert (ran.out.strip() if form == "text" else ran.lines[-1]["result"]) == printed, ran.err


@pytest.mark.spec("O1")
def test_stream_json_is_every_step_in_order(program: Program) -> None:
    ran = program.prompt([["aloud", bash("echo noise")], "the answer"])
    kinds = [(line["type"], line.get("subtype")) for line in ran.lines]
    assert kinds == [
        ("system", "init"), ("assistant", None), ("user", None), ("assistant", None), ("result", "success"),
    ]  # fmt: skip
    assert len({line["uuid"] for line in ran.lines}) == 5 and len({line["session_id"] for line in ran.lines}) == 1
    init, said, user, *_ = ran.lines
    assert {"Bash", "Read", "Edit"} <= set(init["tools"]) and "AskUserQuestion" not in init["tools"]
    assert init["cwd"] == str(program.project) and init["permissionMode"] == "default"
    assert init["claude_code_version"] == "2.1.325" and init["version"] and init["apiKeySource"]
    assert {"agents", "skills", "slash_commands", "mcp_servers", "output_style"} <= set(init)
    assert said["message"]["model"] and said["message"]["id"] and isinstance(said["message"]["content"], list)
    assert user["tool_use_result"]["exitCode"] == 0 and user["parent_tool_use_id"] is None


def test_thinking_has_a_signature_and_partial_messages_add_up(program: Program) -> None:
    ran = program.prompt([[{"thinking": "hm"}, "some words of text"]], "--include-partial-messages")
    events = [line["event"] for line in ran.lines if line["type"] == "stream_event"]
    assert events[0]["type"] == "message_start" and events[-1]["type"] == "message_stop"
    deltas = [e["delta"] for e in events if e["type"] == "content_block_delta"]
    assert "".join(d["text"] for d in deltas if d["type"] == "text_delta") == "some words of text"
    (said,) = [line["message"] for line in ran.lines if line["type"] == "assistant"]
    assert said["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "scripted"}


def test_without_being_asked_for_there_are_no_partial_messages(program: Program) -> None:
    assert not [line for line in program.prompt(["words"]).lines if line["type"] == "stream_event"]


@pytest.mark.spec("A12")
@pytest.mark.parametrize("format", ["text", "json", "stream-json"])
def test_control_and_invisible_characters_never_come_out_raw(program: Program, format: str) -> None:
    """The helper checks every byte of both streams; this gives it something to find."""
    (program.project / "nasty.txt").write_text(NASTY, newline="")
    (program.project / "\x1b[31mfile").touch()
    script = [
        [{"thinking": NASTY}, NASTY, bash(f"printf '%s' '{NASTY.replace(chr(0), '')}'"), bash("cat nasty.txt; ls")],
        [tool("Read", file_path=str(program.project / "nasty.txt")), tool("No\x1bSuch", x=NASTY), bash(NASTY)],
        NASTY,
    ]
    more = ["--include-partial-messages"] if format == "stream-json" else []
    ran = program.run("-p", f"say {NASTY.replace(chr(0), '')}", "--output-format", format, *more, script=script)
    assert ran.rc == 0
    if format == "text":
        assert r"\x1b[31mred" in ran.out and r"\u202egnp" in ran.out
    else:
        assert ran.result["result"] == NASTY  # a program that reads the JSON gets it as it was said


@pytest.mark.spec("A12")
@pytest.mark.parametrize("format", ["text", "json", "stream-json"])
def test_characters_that_are_drawn_as_nothing_are_escaped_too(program: Program, format: str) -> None:
    script = [[f"words {HIDDEN}", bash(f"echo 'a{HIDDEN}'")], f"a{HIDDEN}b"]
    ran = program.run("-p", "go", "--output-format", format, script=script)
    assert ran.rc == 0 and not set(HIDDEN).intersection(ran.out + ran.err)
    assert format == "text" or ran.result["result"] == f"a{HIDDEN}b"


@pytest.mark.spec("A12")
def test_an_error_of_the_model_is_printed_safely(program: Program) -> None:
    script = [{"error": {"fault": "bad_request", "message": f"refused {NASTY}", "status": 400}}]
    ran = program.run("-p", "go", script=script)
    assert ran.rc == 1 and ran.out == "" and r"refused \x1b[31mred" in ran.err


@pytest.mark.spec("A5")
def test_no_line_is_longer_than_a_mebibyte_and_the_transcript_is_whole(program: Program) -> None:
    big = "x" * 1_500_000 + "END"
    write = tool("Write", file_path=str(program.project / "big"), content=big)
    quotes = '"\\\u202e' * 200_000  # each of these gets longer when it is written in JSON
    ran = program.prompt([[write, bash("head -c 3000000 /dev/zero | tr '\\0' y")], quotes], "--permission-mode",
                         "acceptEdits", "--allowed-tools", "Bash")  # fmt: skip
    assert ran.rc == 0 and max(len(line.encode()) for line in ran.out.splitlines()) <= 1_048_576
    assert (program.project / "big").read_text() == big
    transcript = program.transcript().read_text()
    assert big in transcript and json.dumps(quotes, ensure_ascii=False)[1:-1] in transcript
    assert "characters cut in this line" in ran.lines[1]["message"]["content"][0]["input"]["content"]


@pytest.mark.spec("A7")
def test_a_failure_for_good_is_an_assistant_line_with_an_error_and_a_result(program: Program) -> None:
    script = [{"error": {"fault": "auth", "message": "the key was refused", "status": 401}}]
    ran = program.prompt(script)
    said, result = ran.lines[-2:]
    assert (said["type"], said["error"]) == ("assistant", "authentication_failed")
    assert said["message"]["content"] == [{"type": "text", "text": "the key was refused"}]
    assert ran.rc == 1 and result["is_error"] and result["subtype"] == "error_during_execution"
    assert result["errors"] == ["the key was refused"] and result["api_error_status"] == 401


@pytest.mark.spec("A5", "A12")
@pytest.mark.parametrize(
    "input",
    [
        {"x": "\u202e" * 340_000},  # short enough by itself, but not when escaped
        {"x": [0] * 600_000},
        {"x": {str(n): "" for n in range(150_000)}},
        {"k" * 1_100_000: 1},
        {"x": [["y" * 50] * 300] * 100},
        {"x": [[[["y"] * 24] * 24] * 24] * 24},
    ],
    ids=["escapes", "many items", "many keys", "one key", "nested", "wide at every level"],
)
def test_any_input_fits_its_line(input: dict[str, Any]) -> None:
    block = {"type": "tool_use", "id": "c" * 200, "name": "Read", "input": input}
    line = {"type": "assistant", "message": {"content": [block]}, "session_id": "s" * 36, "uuid": "u" * 36}
    data = encode_line(line)
    assert len(data) <= 1_048_576 and data.endswith(b"\n")
    check_clean(data.decode().rstrip("\n"))
    read = json.loads(data)
    assert read["message"]["content"][0]["id"] == "c" * 200 and (read["session_id"], read["type"]) == (
        "s" * 36,
        "assistant",
    )


@pytest.mark.spec("M2", "Q3")
def test_the_last_result_is_for_all_that_was_asked(program: Program) -> None:
    launch = tool("Agent", description="tries", prompt="SCRIPT:child", run_in_background=True)
    script = {"main": [launch, "waiting", "heard"], "child": [bash("touch no"), "refused"]}
    ran = program.run("-p", "SCRIPT:main", "--output-format", "json", script=script)
    assert ran.result["result"] == "heard" and ran.result["num_turns"] == 3
    assert [denied["tool_input"] for denied in ran.result["permission_denials"]] == [{"command": "touch no"}]
