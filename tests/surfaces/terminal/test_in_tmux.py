"""The program in a real terminal at three sizes: start it, type, look, leave."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tmux_kit import LIMIT, SIZES, Terminal

from program import alive, wait_file

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture(params=SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def terminal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, request.param)
    yield terminal
    terminal.close()


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, SIZES[1])
    yield terminal
    terminal.close()


def test_a_stranger_asks_answers_a_question_reads_and_leaves(terminal: Terminal) -> None:
    script = [
        ["I make it.", {"tool": "Bash", "input": {"command": "echo made > made.txt; cat made.txt"}}],
        "All **done** 字字.",
    ]
    terminal.start(script)
    terminal.shows("Ask, or type", "ask ·")
    terminal.type("make the file")
    terminal.shows("› make the file")
    terminal.keys("Enter")
    terminal.shows("main: Bash?", "echo made > made.txt", "Yes, this once")
    terminal.press_until("y", "Yes, this once", gone=True)
    screen = terminal.shows("All done 字字.", "▌ make the file", "✓ Bash")
    assert (terminal.project / "made.txt").read_text() == "made\n"
    assert "**" not in screen
    terminal.keys("C-u")
    terminal.keys("C-o")
    terminal.shows("│ made")
    terminal.leave()
    terminal.shows("teamwright --resume", "LEFT 0")


def test_lines_history_interrupt_and_the_draft_after_a_kill(narrow: Terminal) -> None:
    narrow.start([{"text": "word " * 5_000, "pace": 200}])
    narrow.shows("Ask, or type")
    narrow.type("one")
    narrow.keys("M-Enter")
    narrow.type("two")
    narrow.keys("C-j")
    narrow.type("three")
    narrow.shows("› one", "  two", "  three")
    narrow.keys("Enter")
    narrow.shows("word word", "Esc interrupts")
    narrow.keys("Escape")
    narrow.shows("Interrupted")
    narrow.keys("Up")
    narrow.shows("│ › one")
    narrow.keys("C-c")
    narrow.type("kept for later")
    narrow.shows("kept for later")
    folder = narrow.home / ".teamwright" / "input"
    end = time.monotonic() + LIMIT
    while not any("kept for later" in path.read_text() for path in folder.glob("*.json")):
        assert time.monotonic() < end
        time.sleep(0.05)
    os.kill(narrow.pid, 9)
    narrow.shows("LEFT 137")
    narrow.tmux("respawn-pane", "-k")
    narrow.shows("› kept for later")


@pytest.mark.spec("A12")
def test_hostile_words_change_neither_title_nor_clipboard_nor_screen(narrow: Terminal) -> None:
    evil = "\x1b]0;pwned\x07\x1b]52;c;aGk=\x07\x1b[2J\x1b[1;1Hgone\u202e"
    narrow.start([evil])
    narrow.tmux("set-option", "-g", "set-clipboard", "on")
    narrow.shows("Ask, or type")
    narrow.type("say it")
    narrow.keys("Enter")
    narrow.shows("\\x1b]52;c;aGk=", "▌ say it", "ask ·")
    assert "pwned" not in narrow.tmux("display-message", "-p", "#{pane_title}")
    assert narrow.tmux("list-buffers") == ""


def test_a_signal_leaves_the_terminal_in_order(narrow: Terminal) -> None:
    narrow.start([{"text": "word " * 5_000, "pace": 200}], "go")
    narrow.shows("word word")
    os.kill(narrow.pid, 15)
    screen = narrow.shows("LEFT 143")
    assert "word word" not in screen
    assert narrow.tmux("display-message", "-p", "#{alternate_on}#{mouse_any_flag}").strip() == "00"


def test_without_a_terminal_there_are_words_and_status_2(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TEAMWRIGHT_HOME": str(tmp_path / "h")}
    ran = subprocess.run(
        [sys.executable, "-m", "teamwright", "hello"], env=env, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, check=False, timeout=LIMIT,
    )  # fmt: skip
    assert ran.returncode == 2 and "needs a terminal" in ran.stderr and "teamwright -p" in ran.stderr


def test_no_colour_means_no_colour(narrow: Terminal) -> None:
    narrow.start(["# Hi\n\n`code`"], "hello", env={"NO_COLOR": "1"})
    narrow.shows("code", "ask ·")
    coloured = narrow.tmux("capture-pane", "-p", "-e")
    assert "38;2" not in coloured and "48;2" not in coloured and "38;5" not in coloured


@pytest.mark.parametrize("told", [True, False])
def test_the_program_ends_in_good_order_when_its_terminal_is_closed(tmp_path: Path, told: bool) -> None:
    """Also if its parent process ignores the signal."""
    (tmp_path / "script.json").write_text('["done"]')
    argv = [sys.executable, "-m", "teamwright", "--model", f"script/{tmp_path}/script.json"]
    argv = argv if told else ["/bin/sh", "-c", 'trap "" HUP; "$@"; exit $?', "sh", *argv]
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    env |= {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "LINES": "40", "COLUMNS": "100"}
    env |= {"TEAMWRIGHT_SANDBOX": "off"}  # so that the start offers nothing
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execve(argv[0], argv, env)
    seen, end = b"", time.monotonic() + LIMIT
    while b"type" not in seen:
        assert time.monotonic() < end, seen
        seen += os.read(terminal, 65536) if select.select([terminal], [], [], 1.0)[0] else b""
    os.close(terminal)
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        assert time.monotonic() < end, "the program outlives its terminal"
        time.sleep(0.05)
    assert os.waitstatus_to_exitcode(ended[1]) == 129


def test_a_terminal_that_is_closed_while_the_app_closes_leaves_nothing_behind(tmp_path: Path) -> None:
    """Shutting down may take a while; the signal must not end the program in the middle of it."""
    stubborn = "trap '' TERM HUP; echo $$ > pid; while :; do sleep 1; done"
    script = [{"tool": "Bash", "input": {"command": stubborn, "run_in_background": True}}, "It runs."]
    (tmp_path / "script.json").write_text(json.dumps(script))
    argv = [sys.executable, "-m", "teamwright", "--model", f"script/{tmp_path}/script.json"]
    argv += ["--permission-mode", "bypassPermissions", "go"]
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    env |= {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "LINES": "40", "COLUMNS": "100"}
    env |= {"TEAMWRIGHT_SANDBOX": "off"}
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execve(argv[0], argv, env)
    end = time.monotonic() + LIMIT

    def read_until(words: bytes) -> None:
        seen = b""
        while words not in seen:
            assert time.monotonic() < end, seen
            seen += os.read(terminal, 65536) if select.select([terminal], [], [], 1.0)[0] else b""

    read_until(b"It runs.")
    started = int(wait_file(tmp_path / "pid"))
    assert list((tmp_path / ".teamwright" / "run").glob("session-*.door"))
    os.write(terminal, b"\x04")  # Ctrl+D
    read_until(b"\x1b[?1049l")  # the screen is the shell's again
    while list((tmp_path / ".teamwright" / "run").glob("session-*.door")):  # the app is closed, its session not yet
        assert time.monotonic() < end
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 129 and not alive(started)
