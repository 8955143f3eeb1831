"""The app only watches: it is killed while teammates work in other processes, and returns to the same screen."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_attached import answer
from tmux_kit import LIMIT, Terminal

from place_kit import CREATE, mate, say, until
from program import bash, tool, wait_file

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
WAIT = "until [ -e go ]; do sleep 0.05; done; echo ada >> log"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, (130, 40))
    yield terminal
    terminal.close()
    for pid in terminal.family.teammates:
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def panes() -> Iterator[dict[str, str]]:
    """A directory for the teammates' tmux server; its sockets need a short path."""
    with tempfile.TemporaryDirectory(prefix="tw") as sockets:
        yield {"TMUX_TMPDIR": sockets}
        for socket in Path(sockets).glob("tmux-*/*"):
            subprocess.run(["tmux", "-S", str(socket), "kill-server"], capture_output=True, check=False, timeout=LIMIT)


STORY = {
    "main": [
        CREATE,
        [tool("TaskCreate", subject="Paint the fence", description="green"), mate("ada"), mate("ben")],
        "The team is at work.",
    ],
    "ada": [bash("sh wait.sh"), say("team-lead", "ada has painted"), "idle"],
    "ben": [bash("touch asked"), say("team-lead", "ben has asked"), "idle"],
}


@pytest.mark.spec("M6", "T7")
def test_killing_the_app_loses_nothing_of_a_team_in_other_processes(terminal: Terminal, panes: dict[str, str]) -> None:
    (terminal.project / "wait.sh").write_text(WAIT)
    places = ["--teammate-mode", "tmux", "--allowed-tools", "Bash(sh wait.sh)", "SendMessage"]
    terminal.start(STORY, "go on then", *places, env=panes)
    terminal.shows("■ ben", "Bash?", "touch asked")
    terminal.keys("C-l")
    terminal.shows("The team is at work.", "1 question for you")
    until(lambda: len(terminal.family.teammates) == 2, "two teammates")
    os.kill(terminal.pid, signal.SIGKILL)
    terminal.shows("LEFT 137")
    (terminal.project / "go").touch()
    until((terminal.project / "log").exists, "work that goes on alone")
    assert len(terminal.family.teammates) == 2

    again = terminal.beside()
    again.start(STORY, "--continue", *places, env=panes)
    again.shows("■ ben", "Bash?", "touch asked")  # the question waits for us
    again.keys("C-l")
    again.gone("Yes, this once")
    again.shows("▌ go on then", "The team is at work.", "ada has painted")
    again.keys("F2")
    again.shows("ada", "ben", "waits for your answer")
    again.keys("F2")
    again.shows("Paint the fence")
    again.keys("F2")
    again.shows("a note")
    again.keys("Escape")
    again.gone("Esc closes")
    again.keys("Enter")
    again.shows("Yes, this once")
    answer(again, "y")
    again.shows("ben has asked")
    until((terminal.project / "asked").exists, "what was answered")
    assert (terminal.project / "log").read_text() == "ada\n"


@pytest.mark.spec("T7", "A2")
def test_a_session_that_is_resumed_after_a_kill_is_at_rest(terminal: Terminal) -> None:
    """No model is asked, so the app does not say that it thinks, or that Esc interrupts."""
    script = [bash("echo $$ > pid; sleep 300"), "never"]
    terminal.start(script, "--dangerously-skip-permissions")
    terminal.shows("Ask, or type")
    terminal.type("begin")
    terminal.shows("› begin")
    terminal.keys("Enter")
    wait_file(terminal.project / "pid")
    terminal.shows("Esc interrupts")
    os.kill(terminal.pid, signal.SIGKILL)
    terminal.shows("LEFT 137")
    again = terminal.beside()
    again.start(script, "--dangerously-skip-permissions", "--continue")
    screen = again.shows("▌ begin", "✗ Bash", "Ask, or type", "F2 team")
    assert "thinking" not in screen and "Esc interrupts" not in screen
