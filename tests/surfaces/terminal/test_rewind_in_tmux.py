"""Rewind in a real terminal, where two presses of Esc may arrive as one piece."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tmux_kit import Terminal

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
SCRIPT = ["hello", [{"tool": "Bash", "input": {"command": "echo two > a.txt"}}], "changed it"]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, (100, 30))
    yield terminal
    terminal.close()


@pytest.mark.spec("RW6")
def test_two_presses_of_escape_and_a_resume(terminal: Terminal) -> None:
    (terminal.project / "a.txt").write_text("one\n")
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=terminal.project, check=True, timeout=30)
    terminal.start(SCRIPT, "--dangerously-skip-permissions")
    terminal.shows("Ask, or type")
    for prompt, answer in (("first", "hello"), ("change it", "changed it")):
        terminal.type(prompt)
        terminal.keys("Enter")
        terminal.shows(f"▌ {prompt}", answer, "/help")
    terminal.tmux("send-keys", "-t", "one", "Escape", "Escape")
    terminal.shows("which prompt?", "1 file +1 -1")
    terminal.keys("Enter")
    terminal.shows("what goes back?", "put back  a.txt")
    terminal.keys("Enter")
    terminal.shows("Went back to here", "› change it")
    assert (terminal.project / "a.txt").read_text() == "one\n"
    terminal.leave()
    screen = terminal.shows("LEFT 0", "--resume")
    session = screen.split("--resume")[1].split()[0]
    again = terminal.beside()
    again.run("--resume", session, "--model", f"script/{terminal.home}/script.json")
    screen = again.shows("▌ first", "hello", "Went back to here")
    assert "changed it" not in screen
