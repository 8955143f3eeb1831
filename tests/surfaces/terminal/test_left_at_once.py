"""The app in a real terminal, opened and left without a prompt: no session is left behind."""

import os
import re
import shlex
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tmux_kit import LIMIT, Terminal

from engine_kit import Engines

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, (100, 30))
    yield terminal
    terminal.close()


def files(terminal: Terminal) -> list[Path]:
    place = terminal.home / ".teamwright" / "projects"
    return [path for path in place.rglob("*") if path.is_file()]


@pytest.mark.spec("SE8")
def test_an_app_that_is_opened_and_left_leaves_no_session(terminal: Terminal) -> None:
    terminal.start(["Hello."])
    terminal.shows("Ask, or type", "ask ·")
    terminal.keys("C-d")
    screen = terminal.shows("LEFT 0")
    assert "--resume" not in screen and files(terminal) == []


@pytest.mark.spec("SE8")
def test_one_in_which_something_was_said_stays(terminal: Terminal) -> None:
    terminal.start(["Hello."])
    terminal.shows("Ask, or type", "ask ·")
    terminal.type("hi")
    terminal.keys("Enter")
    terminal.shows("Hello.")
    terminal.keys("C-d")
    terminal.shows("teamwright --resume", "LEFT 0")
    assert any(path.suffix == ".jsonl" for path in files(terminal))


@pytest.mark.spec("SE8")
def test_a_third_ctrl_c_while_it_closes_does_not_lose_the_line(terminal: Terminal) -> None:
    stubborn = {"command": "trap '' TERM; echo begun > begun; while :; do sleep 1; done", "run_in_background": True}
    terminal.start([{"tool": "Bash", "input": stubborn}, "It runs."], "--permission-mode", "bypassPermissions")
    terminal.shows("Ask, or type", "bypass")
    terminal.type("go")
    terminal.keys("Enter")
    terminal.shows("It runs.")
    pid, end = terminal.pid, time.monotonic() + LIMIT
    while not (terminal.project / "begun").exists():
        assert time.monotonic() < end
    terminal.keys("C-d")
    while terminal.tmux("display-message", "-p", "-t", "one", "#{alternate_on}").strip() != "0":
        assert time.monotonic() < end
    os.kill(pid, signal.SIGINT)  # the terminal is the shell's again, so a key is a signal
    screen = terminal.shows("LEFT")
    assert "Resume this session with: teamwright --resume" in screen and "Traceback" not in screen


@pytest.mark.spec("Z16")
def test_the_line_names_the_engine_that_the_option_named(terminal: Terminal) -> None:
    engine = str(Engines.get().new_space())
    terminal.start(["Hello."], "--engine", engine)
    terminal.shows("Ask, or type", "ask ·")
    terminal.type("hi")
    terminal.keys("Enter")
    terminal.shows("Hello.")
    terminal.keys("C-d")
    terminal.shows("LEFT 0")
    said = terminal.tmux("capture-pane", "-p", "-J", "-t", "one")
    found = re.search(r"Resume this session with: teamwright (.+)", said)
    assert found and found[1].endswith(f"--engine {engine}")
    again = terminal.beside()
    again.run(*shlex.split(found[1]))
    again.shows("▌ hi", "Hello.")
