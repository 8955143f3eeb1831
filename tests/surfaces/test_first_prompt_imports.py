"""A first prompt does not pay for parts that it does not use: they are not imported."""

import os
import subprocess
import sys
from pathlib import Path

UNUSED = {
    "aiohttp",
    "mcp",
    "tempfile",
    "teamwright.app.extensions.judge",
    "teamwright.core.permissions.judge",
    "teamwright.host.git.run",
    "teamwright.host.ipc.wakeup",
    "teamwright.runtime.agents.sub_agents",
    "teamwright.runtime.extensions.hooks",
    "teamwright.runtime.sandbox.fence",
    "teamwright.runtime.teams.mail",
    "teamwright.runtime.teams.service",
    "teamwright.runtime.worktrees",
    "teamwright.store.files.checkpoints",
    "teamwright.store.tables.tasks",
    "tree_sitter",
    "yaml",
}


def imported(tmp_path: Path, script: str) -> set[str]:
    """Modules imported by a prompt whose model plays this script and ends with a hello."""
    file = tmp_path / "say.json"
    file.write_text(script)
    argv = [sys.executable, "-X", "importtime", "-m", "teamwright", "-p", "hi", "--model", f"script/{file}"]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(
        argv, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "hello\n"
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


def test_a_one_word_prompt_imports_no_teams_tools_of_git_or_judges(tmp_path: Path) -> None:
    loaded = imported(tmp_path, '["hello"]')
    assert "teamwright.core.loop" in loaded
    assert not UNUSED & loaded


def test_a_look_at_the_task_list_imports_neither_teams_nor_what_judges_commands(tmp_path: Path) -> None:
    loaded = imported(tmp_path, '[{"tool": "TaskList", "input": {}}, "hello"]')
    assert "teamwright.store.tables.tasks" in loaded
    unused = UNUSED - {"teamwright.core.permissions.judge", "teamwright.store.tables.tasks"}
    assert not (unused | {"teamwright.core.permissions.shell_rules", "teamwright.runtime.jobs.schedule"}) & loaded
