"""Agents' commands cannot read our keys, whoever runs us."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from program import ARGV, Program, Ran, bash, tool

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
CANARY = "CANARY-OF-THE-KEY-7x"
KEYS = {
    "ANTHROPIC_API_KEY": CANARY, "SOME_TOKEN": CANARY, "ANTHROPIC_BASE_URL": f"http://me:{CANARY}@127.0.0.1:9/",
    "HTTPS_PROXY": f"http://me:{CANARY}@127.0.0.1:9/",
}  # fmt: skip
NO_KEYS = {"GIT_AUTHOR_NAME": "ada", "GIT_AUTHOR_EMAIL": "ada@localhost"}
LOOK = "tr '\\0' '\\n' < /proc/$PPID/environ; grep -sao 'CANARY[-A-Za-z0-9]*' /proc/[0-9]*/environ; env"


@LINUX
@pytest.mark.spec("A10")
@pytest.mark.parametrize("mode", ["in-process", "local"])
def test_no_environment_shows_a_key_also_not_to_root(program: Program, mode: str):
    start = tool("Agent", description="look about", prompt="SCRIPT:child", name="mate")
    create = tool("TeamCreate", team_name="t", description="d")
    script = {"main": [[bash(LOOK)], [create], [start], ["end"]], "child": [[bash(LOOK)], ["done"]]}
    ran = program.prompt(
        script, "--permission-mode", "bypassPermissions", "--dangerously-skip-permissions", "--teammate-mode", mode,
        text="SCRIPT:main", env=KEYS,
    )  # fmt: skip
    assert ran.rc == 0, ran.err
    seen = [text for text, _ in ran.tool_results]
    assert any("PATH=" in text for text in seen), seen
    kept = [path for path in program.root.rglob("*") if path.is_file() and path.name != "script.json"]
    assert CANARY not in ran.out + ran.err
    assert [path for path in kept if CANARY.encode() in path.read_bytes()] == []


@LINUX
def test_what_is_no_key_stays_for_programs_that_we_start(program: Program):
    code = "import subprocess; from teamwright.host.process.secrecy import forget; forget(); subprocess.run(['env'])"
    ran = subprocess.run(
        [sys.executable, "-c", code], env=program.env | KEYS | NO_KEYS, capture_output=True, text=True, check=True
    )
    assert CANARY not in ran.stdout and "SOME_TOKEN=" in ran.stdout
    assert all(f"{name}={value}" in ran.stdout for name, value in NO_KEYS.items())


@LINUX
@pytest.mark.spec("A10")
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can become another user")
def test_a_plain_user_is_shut_out_and_everything_works(program: Program):
    """A protected process's /proc/self belongs to root: what we read there ourselves must still be readable."""
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=program.project, check=True)
    (program.project / "README.md").write_text("needle\n")
    for args in (["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x"]):
        subprocess.run(["git", *args], cwd=program.project, check=True)
    script = [
        [bash("cat /proc/$PPID/environ /proc/$PPID/mem; ls /proc/$PPID/fd")],
        [tool("Grep", pattern="needle", output_mode="content")],
        [bash("(setsid sleep 300 &) ; sleep 0.1; echo started")],
        [tool("EnterWorktree", name="w")],
        [tool("ExitWorktree", action="remove")],
        ["end"],
    ]
    model = program.model(script)
    for path in (program.root, *program.root.rglob("*")):
        os.chown(path, 65534, 65534)
    for above in program.root.parents:
        if above != Path("/") and above.stat().st_uid == os.geteuid() and str(above).startswith("/tmp/"):
            above.chmod(above.stat().st_mode | 0o111)
    argv = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *ARGV, "-p", "go", *model]
    more = ["--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions"]
    done = subprocess.run(
        [*argv, *more, "--dangerously-skip-permissions"], cwd=program.project, env=program.env | KEYS,
        capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if "Permission denied" in done.stderr and not done.stdout:
        pytest.skip("the interpreter lies where no other user can read it")
    assert done.returncode == 0, done.stderr
    assert CANARY not in done.stdout + done.stderr
    look, *rest = Ran(0, done.stdout, "").tool_results
    assert look[0].count("Permission denied") == 3
    assert len(rest) == 4 and not any(wrong for _, wrong in rest) and "needle" in rest[0][0], rest
    assert not (program.project / ".teamwright" / "worktrees" / "w").exists()


@pytest.mark.spec("A10")
def test_a_merge_by_hand_gives_its_hooks_no_key(program: Program):
    for args in (["init", "-q", "-b", "main"], ["config", "user.name", "a"], ["config", "user.email", "a@b"]):
        subprocess.run(["git", *args], cwd=program.project, check=True)
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "x"], cwd=program.project, check=True)
    program.prompt(
        [[tool("EnterWorktree", name="w")], [bash("echo 1 > a; git add a; git commit -qm y")], ["end"]],
        "--permission-mode", "bypassPermissions", "--dangerously-skip-permissions",
    )  # fmt: skip
    hook = program.project / ".git" / "hooks" / "post-merge"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nenv > {program.root}/seen\n")
    hook.chmod(0o755)
    ran = program.run("worktrees", "merge", "w", "--trust", env={"ANTHROPIC_API_KEY": CANARY, "MINE": "yes"})
    assert ran.rc == 0, ran.err
    seen = (program.root / "seen").read_text()
    assert "MINE=yes" in seen and CANARY not in seen


@pytest.mark.spec("A10")
@pytest.mark.parametrize(
    "address",
    ["http://me:{}@127.0.0.1:9", "ftp://me:{}@127.0.0.1:9", "me:{}@127.0.0.1", "http://127.0.0.1:9/?token={}"],
)
def test_no_word_about_a_fault_shows_the_password_of_an_address(program: Program, address: str):
    env = {"ANTHROPIC_API_KEY": CANARY, "ANTHROPIC_BASE_URL": address.format(CANARY), "TEAMWRIGHT_MAX_RETRIES": "0"}
    for args in (("-p", "go"), ("-p", "go", "--output-format", "stream-json", "--verbose"), ("doctor",), ("config",)):
        ran = program.run(*args, env=env)
        assert CANARY not in ran.out + ran.err, (args, ran)
        assert ran.rc or args == ("config",)
    kept = [path for path in program.root.rglob("*") if path.is_file()]
    assert [path for path in kept if CANARY.encode() in path.read_bytes()] == []


@LINUX
@pytest.mark.spec("A10")
@pytest.mark.parametrize("source", ["settings", "environment"])
def test_a_key_by_any_name_is_for_its_provider_alone(program: Program, source: str):
    """The settings name the variable that holds it; a provider's address may contain one too."""
    keys = {
        "CORP_LLM": CANARY, "OPENAI_BASE_URL": f"http://127.0.0.1:9/v1?token={CANARY}",
        "ANTHROPIC_BASE_URL": f"http://me:{CANARY}@127.0.0.1:9/", "ANTHROPIC_CUSTOM_HEADERS": f"X-Any: {CANARY}",
    }  # fmt: skip
    told = {"teamwright": {"providers": {"corp": {"baseUrl": "http://127.0.0.1:9/v1", "keyEnv": "CORP_LLM"}}}}
    hook = {"type": "command", "command": f"env > {program.root}/seen-by-hook; {LOOK} >> {program.root}/seen-by-hook"}
    told |= {"hooks": {"PreToolUse": [{"hooks": [hook]}]}} | ({"env": keys} if source == "settings" else {})
    program.state.mkdir(exist_ok=True)
    file = program.state / "settings.json"
    file.write_text(json.dumps(told))
    ran = program.prompt(
        [[bash(LOOK)], ["end"]], "--permission-mode", "bypassPermissions", "--dangerously-skip-permissions",
        env=keys if source == "environment" else {},
    )  # fmt: skip
    assert ran.rc == 0 and "PATH=" in ran.tool_results[0][0], ran.err
    kept = [path for path in program.root.rglob("*") if path.is_file() and path != file]
    assert [path for path in kept if CANARY.encode() in path.read_bytes()] == []
