"""Keys in the environment and in settings: after a session with hooks, servers, commands and errors no file has one."""

import json
import sys
from pathlib import Path

import pytest

from hook_kit import hook
from program import Program, bash, tool

SMALL = Path(__file__).parents[1] / "servers" / "small_mcp.py"
CANARY = "sk-ant-canary-77d0c1"
NAMES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "GH_TOKEN", "MY_PASSWORD", "SOMETHING_ELSE")
LOOKS = ("hook", "server", "bash", "background", "child")


def holding(root: Path, word: str) -> list[Path]:
    return [p for p in root.rglob("*") if p.is_file() and not p.is_symlink() and word.encode() in p.read_bytes()]


@pytest.mark.spec("A10", "D8", "D9")
@pytest.mark.parametrize("format", ["text", "stream-json"])
def test_no_key_reaches_a_child_a_file_or_a_stream(program: Program, format: str) -> None:
    seen = program.root / "seen"  # what each kind of child has in its environment
    seen.mkdir()

    def look(name: str) -> str:
        return f"env > {seen}/{name}; tr '\\0' '\\n' < /proc/self/environ >> {seen}/{name}"

    (program.state).mkdir(exist_ok=True)
    near = {
        "command": "bash",
        "args": ["-c", f"{look('server')}; exec {sys.executable} {SMALL} {program.root}/near.log"],
    }
    settings = {
        "env": {"ANTHROPIC_API_KEY": f"{CANARY}-settings", "MINE": "on purpose"},
        "hooks": {
            "PreToolUse": [hook(look("hook"), "Bash")],
            "PostToolUse": [hook("echo broken >&2; exit 1")],
            "Stop": [hook("/no/such/program")],
        },
        "mcp": {"near": near, "gone": {"command": "/no/such/program"}, "web": {"url": "http://127.0.0.1:1/mcp"}},
    }
    mine = program.state / "settings.json"
    mine.write_text(json.dumps(settings))
    keys = {name: f"{CANARY}-{name}" for name in NAMES}
    script = {
        "main": [
            [bash(look("bash")), tool("mcp__near__env", text="ANTHROPIC_API_KEY"), tool("mcp__near__crash")],
            tool("Bash", command=look("background"), run_in_background=True),
            tool("Agent", description="looks", prompt="SCRIPT:child", subagent_type="general-purpose"),
            [tool("No", such="tool"), tool("Read", file_path="/no/such/file"), bash("exit 3")],
            {"error": {"fault": "auth", "message": "401"}},
        ],
        "child": [bash(look("child")), "looked"],
    }
    ran = program.run(
        "-p", "SCRIPT:main", "--output-format", format, "--debug", "--dangerously-skip-permissions", script=script,
        env=keys,
    )  # fmt: skip
    assert ran.rc == 1, ran.err
    mine.unlink()  # the only place where a key was written, by its owner
    assert CANARY not in ran.out + ran.err and holding(program.root, CANARY) == []
    for name in LOOKS:
        assert "PATH=" in (seen / name).read_text(), name  # it did look
    assert "MINE=on purpose" in (seen / "bash").read_text() and "(not set)" in program.transcript().read_text()


@pytest.mark.spec("A10")
def test_a_key_that_a_server_needs_reaches_that_server_alone(program: Program) -> None:
    server = {"command": sys.executable, "args": [str(SMALL), str(program.root / "near.log")]}
    config = json.dumps({"mcpServers": {"near": server | {"env": {"GH_TOKEN": "${GH_TOKEN}"}}}})
    script = [tool("mcp__near__env", text="GH_TOKEN"), bash('echo "[$GH_TOKEN]"'), "end"]
    ran = program.prompt(
        script, "--mcp-config", config, "--allowed-tools", "mcp__near Bash(echo *)", env={"GH_TOKEN": CANARY}
    )
    assert ran.tool_results == [(CANARY, False), ("[]", False)]
