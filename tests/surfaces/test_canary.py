"""Keys in the environment and in settings: no file has one after hooks, servers, commands and errors."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from hook_kit import hook
from program import Program, bash, tool

SMALL = Path(__file__).parents[1] / "servers" / "small_mcp.py"
CANARY = "sk-ant-canary-77d0c1"
NAMES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "GH_TOKEN", "MY_PASSWORD", "SOMETHING_ELSE")
LOOKS = ("hook", "server", "bash", "background", "child")


def holding(root: Path, word: str) -> list[Path]:
    return [p for p in root.rglob("*") if p.is_file() and not p.is_symlink() and word.encode() in p.read_bytes()]


def look(program: Program, name: str) -> str:
    """A command that writes its environment to a file."""
    file = program.root / f"seen-{name}"
    return f"env > {file}; tr '\\0' '\\n' < /proc/self/environ >> {file}"


def settings_of(program: Program) -> dict[str, Any]:
    serve = f"{look(program, 'server')}; exec {sys.executable} {SMALL} {program.root}/near.log"
    return {
        "env": {"ANTHROPIC_API_KEY": f"{CANARY}-settings", "MINE": "on purpose"},
        "hooks": {
            "PreToolUse": [hook(look(program, "hook"), "Bash")],
            "PostToolUse": [hook("echo broken >&2; exit 1")],
            "Stop": [hook("/no/such/program")],
        },
        "mcp": {
            "near": {"command": "bash", "args": ["-c", serve]},
            "gone": {"command": "/no/such/program"},
            "web": {"url": "http://127.0.0.1:1/mcp"},
        },
    }


def script_of(program: Program) -> dict[str, Any]:
    asked = [tool("mcp__near__env", text="ANTHROPIC_API_KEY"), tool("mcp__near__crash")]
    return {
        "main": [
            [bash(look(program, "bash")), *asked],
            tool("Bash", command=look(program, "background"), run_in_background=True),
            tool("Agent", description="looks", prompt="SCRIPT:child", subagent_type="general-purpose"),
            [tool("No", such="tool"), tool("Read", file_path="/no/such/file"), bash("exit 3")],
            {"error": {"fault": "auth", "message": "401"}},
        ],
        "child": [bash(look(program, "child")), "looked"],
    }


@pytest.mark.spec("A10", "D8", "D9")
@pytest.mark.parametrize("format", ["text", "stream-json"])
def test_no_key_reaches_a_child_a_file_or_a_stream(program: Program, format: str) -> None:
    program.state.mkdir()
    mine = program.state / "settings.json"
    mine.write_text(json.dumps(settings_of(program)))
    keys = {name: f"{CANARY}-{name}" for name in NAMES}
    options = ("--output-format", format, "--debug", "--dangerously-skip-permissions")
    ran = program.run("-p", "SCRIPT:main", *options, script=script_of(program), env=keys)
    assert ran.rc == 1, ran.err
    mine.unlink()  # the only place where its owner wrote a key
    assert CANARY not in ran.out + ran.err and holding(program.root, CANARY) == []
    seen = {name: (program.root / f"seen-{name}").read_text() for name in LOOKS}
    assert all("PATH=" in text for text in seen.values())  # they did look
    assert "MINE=on purpose" in seen["bash"] and "(not set)" in program.transcript().read_text()


@pytest.mark.spec("A10")
def test_a_key_that_a_server_needs_reaches_that_server_alone(program: Program) -> None:
    server = {"command": sys.executable, "args": [str(SMALL), str(program.root / "near.log")]}
    config = json.dumps({"mcpServers": {"near": server | {"env": {"GH_TOKEN": "${GH_TOKEN}"}}}})
    script = [tool("mcp__near__env", text="GH_TOKEN"), bash('echo "[$GH_TOKEN]"'), "end"]
    ran = program.prompt(
        script, "--mcp-config", config, "--allowed-tools", "mcp__near Bash(echo *)", env={"GH_TOKEN": CANARY}
    )
    assert ran.tool_results == [(CANARY, False), ("[]", False)]
