"""Keys and tokens: never in a tool's environment, a transcript, a log, or on a stream."""

import json
from pathlib import Path

import pytest

from program import Program, bash, tool

CANARY = "sk-ant-canary-4f1e8b"
NAMES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GH_TOKEN", "MY_OWN")


def holding(root: Path, word: str) -> list[Path]:
    return [p for p in root.rglob("*") if p.is_file() and word.encode() in p.read_bytes()]


@pytest.mark.spec("A10")
@pytest.mark.parametrize("format", ["text", "stream-json"])
def test_no_key_reaches_a_tool_a_file_or_a_stream(program: Program, format: str) -> None:
    keys = {name: f"{CANARY}-{name}" for name in NAMES}
    look = ["env", "cat /proc/self/environ | tr '\\0' '\\n'", "echo $ANTHROPIC_API_KEY; set"]
    ran = program.run(
        "-p", "go", "--output-format", format, "--debug", "--dangerously-skip-permissions",
        script=[[bash(command) for command in look], tool("No", such="tool"), {"error": {"fault": "auth"}}], env=keys,
    )  # fmt: skip
    assert ran.rc == 1
    assert CANARY not in ran.out + ran.err and holding(program.root, CANARY) == []
    transcript = program.transcript().read_text()
    assert "TEAMWRIGHT_AGENT_ID=" in transcript and "PATH=" in transcript  # it did look


@pytest.mark.spec("A10")
def test_a_variable_that_the_settings_give_is_one_that_tools_see(program: Program) -> None:
    settings = json.dumps({"env": {"MY_OWN": "given on purpose"}})
    ran = program.prompt([bash("echo $MY_OWN"), "x"], "--settings", settings, "--allowed-tools", "Bash(echo *)")
    assert ran.tool_results == [("given on purpose", False)]


def test_the_log_holds_no_words_of_the_conversation(program: Program) -> None:
    ran = program.prompt([["secret-answer", bash("echo secret-output")], "x"], "--debug", text="secret-prompt")
    assert ran.rc == 0
    logs = [p.read_text() for p in (program.state / "logs").rglob("*") if p.is_file()]
    assert not [text for text in logs if "secret-" in text]
