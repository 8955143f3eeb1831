"""The app's commands, in a session that has something for each of them."""

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from stage import Stage, staged

from crew import agent, bash, stage
from teamwright.core.policies.budget import Limits
from teamwright.models.scripted import ScriptedModel, call

pytestmark = pytest.mark.anyio
WIDE = (150, 60)


def settle(walker: Any, **settings: Any) -> None:
    folder = walker.home / ".teamwright"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(json.dumps(settings))


async def ask(stage: Stage, command: str, *shown: str) -> None:
    await stage.say(command)
    for text in shown:
        await stage.shows(text)


@pytest.mark.spec("O7", "B5")
async def test_jobs_why_cost_and_the_budget_of_agents_at_work(walker: Any) -> None:
    scripts = {
        "main": [[agent("child", run_in_background=True), agent("asker", run_in_background=True)], "on"],
        "child": [bash("sleep 60"), "x"],
        "asker": [call("Write", file_path="made.txt", content="x"), "y"],
    }
    more = {"allowed_tools": ["Bash(sleep *)"], "limits": Limits(usd=5.0)}
    async with staged(walker, stage(scripts), size=WIDE, **more) as seen:
        await seen.say("go")
        await seen.shows(": Write made.txt?")
        await seen.press("ctrl+l")
        await seen.until(lambda: any(fold.steps for fold in seen.view.folds.values()), "a command at work")
        await seen.shows("$5.00 of $5.00 left")
        await ask(seen, "/jobs", "DESCRIPTION", "running")
        await ask(seen, "/why", "WAITS FOR", "Bash")
        await ask(seen, "/cost", "main")
        await seen.press("f2")
        await seen.shows("waits for your answer: Write made")
        await seen.shows("waits for its jobs: does child, does asker")
        await seen.shows("budget left: $5.00 of $5.00")
        seen.session.hurry()


async def test_permissions_hooks_memory_and_servers_of_the_settings(walker: Any) -> None:
    server = "import sys; sys.exit(0)"
    settle(
        walker,
        permissions={"allow": ["Bash(git log *)"], "deny": ["Read(./secret)"]},
        hooks={"Stop": [{"hooks": [{"type": "command", "command": "echo stopped-by-a-hook"}]}]},
        mcp={"shelf": {"command": sys.executable, "args": ["-c", server]}},
    )
    (walker.project / "AGENTS.md").write_text("Use tabs.")
    async with staged(walker, size=WIDE, trust=True) as seen:
        await ask(seen, "/permissions", "Bash(git log *)", "Read(./secret)", "Mode default")
        await ask(seen, "/permissions acceptedits", "Mode acceptEdits", "accept edits")
        await ask(seen, "/hooks", "stopped-by-a-hook")
        await ask(seen, "/memory", "AGENTS.md", "9 characters")
        await ask(seen, "/mcp", "MCP server: type to search", "shelf")
        await seen.press("escape")
        await seen.until(lambda: len(seen.app.screen_stack) == 1, "no list")
        await ask(seen, "/keys", "Shift+Enter")


async def test_worktrees_and_doctor(walker: Any) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(walker.project), *words], check=True, capture_output=True, timeout=20)

    git("init", "-b", "trunk")
    git("-c", "user.name=x", "-c", "user.email=x@x", "commit", "--allow-empty", "-m", "first")
    script = ScriptedModel({
        "main": [[call("Agent", description="look", prompt="SCRIPT:child", isolation="worktree")], "started"],
        "child": {"steps": [[call("Bash", command="echo kept > kept.txt")], "done"]},
    })  # fmt: skip
    async with staged(walker, script, size=WIDE, mode="bypassPermissions") as seen:
        await seen.shows("trunk")
        await seen.say("go")
        await seen.rests()
        await ask(seen, "/worktrees", "general-purpose  changed", "+1 -0")
        await seen.say("/doctor")
        await seen.until(lambda: "/doctor …" in seen.screen or "Python" in seen.screen, "a word that it is at work")
        await seen.shows("Python")


async def test_what_takes_long_says_so_and_for_how_long(walker: Any) -> None:
    async with staged(walker) as seen:
        await seen.say("! until [ -e go ]; do sleep 0.05; done; echo over")
        await seen.shows("! until [ -e go ]; do sleep 0.05; done")
        await seen.until(lambda: "…  1." in seen.screen or "…  2." in seen.screen, "seconds")
        (walker.project / "go").touch()
        await seen.shows("over")
        assert not seen.app.clerk.doing


@pytest.mark.spec("N1")
async def test_the_session_is_shown_in_the_browser(walker: Any) -> None:
    walker.env["BROWSER"] = "true"
    note = walker.home / ".teamwright" / "run" / "web.json"
    try:
        async with staged(walker, ["hello"], size=WIDE) as seen:
            await seen.say("hi")
            await seen.shows("hello")
            await ask(seen, "/web", "Opened in the browser", f"/s/{seen.session.id}/a/")
            assert json.loads(note.read_text())["base"].startswith("http://127.0.0.1:")
    finally:
        if note.exists():
            os.kill(json.loads(note.read_text())["pid"], signal.SIGTERM)
