"""Helpers for stories about the real program with a team, wherever its teammates run."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from program import LIMIT, Program, tool

REQUEST_ID = "{{re:request_?[iI]d(?:&quot;|[^A-Za-z0-9])*([\\w-]+)}}"
CREATE = tool("TeamCreate", team_name="crew", description="a team")
AGREE = tool(
    "SendMessage", to="team-lead", message={"type": "shutdown_response", "request_id": REQUEST_ID, "approve": True}
)
APPROVE = {"type": "plan_approval_response", "request_id": REQUEST_ID, "approve": True}
FREE = "--dangerously-skip-permissions"


def mate(name: str, **more: Any) -> dict[str, Any]:
    return tool("Agent", **{"description": f"{name} works", "prompt": f"SCRIPT:{name}", "name": name} | more)


def say(to: str, text: str) -> dict[str, Any]:
    return tool("SendMessage", to=to, message=text, summary="a note")


def control(to: str, type: str, **more: Any) -> dict[str, Any]:
    return tool("SendMessage", to=to, message={"type": type, **more})


def roster(program: Program) -> dict[str, dict[str, Any]]:
    file = program.state / "teams/crew/config.json"
    return {m["name"]: m for m in json.loads(file.read_text())["members"]}


def until(check: Callable[[], Any], what: str) -> Any:
    limit = time.monotonic() + LIMIT
    while True:
        try:
            if found := check():
                return found
        except (OSError, ValueError, LookupError):
            pass  # half written
        assert time.monotonic() < limit, f"not seen: {what}"
        time.sleep(0.02)


def teammates(program: Program) -> list[int]:
    return program.family.teammates


def options(name: str, program: Program) -> Iterator[list[str]]:
    if name == "tmux" and not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    with tempfile.TemporaryDirectory(prefix="tw") as sockets:
        program.env["TMUX_TMPDIR"] = sockets
        yield ["--teammate-mode", name]
        for pid in teammates(program):
            os.kill(pid, signal.SIGKILL)
        if name == "tmux":
            for socket in Path(sockets).glob("tmux-*/*"):
                subprocess.run(["tmux", "-S", str(socket), "kill-server"], capture_output=True, check=False)


def serves(socket: Path) -> bool:
    words = ["tmux", "-S", str(socket), "list-panes", "-a"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0
