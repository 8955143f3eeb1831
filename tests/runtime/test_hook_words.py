"""Hooks' standard error, which the model reads."""

import os
from pathlib import Path

import pytest

from teamwright.core.ids import AgentId, SessionId
from teamwright.library.hooks import read_hooks
from teamwright.runtime.extensions.hooks import Hooks, HookSession


@pytest.mark.anyio
@pytest.mark.spec("D9", "A10")
async def test_what_a_hook_complains_of_reaches_the_model_without_secrets(tmp_path: Path) -> None:
    words = f"key hunter2hunter2, then sk-{'x' * 20} and https://me:pw0rd@host/x"
    run = {"type": "command", "command": f"printf '%s' '{words}' >&2; exit 2"}
    book, _ = read_hooks([("settings.json", {"PreToolUse": [{"hooks": [run]}]})])
    env = {"PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": "hunter2hunter2"}
    session = HookSession(SessionId("s"), tmp_path / "s.jsonl", tmp_path)
    hooks = Hooks(book, session, env=env, log=lambda _: None)
    fired = await hooks.fire("PreToolUse", subject="Bash", agent=AgentId("s"), cwd=tmp_path, mode="default")
    assert fired.reason == "key [secret], then [secret] and https://me:[secret]@host/x"
