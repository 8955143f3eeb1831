"""The person is alerted if something waits and they look elsewhere; untrusted words never get into the alert."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tmux_kit import LIMIT, Terminal

from place_kit import until
from teamwright.surfaces.terminal.margins.alert import BELL, WORDS, alert

FOCUS_OUT = "\x1b[O"
OSC = "\x1b]9;Teamwright: A question is waiting for you."


@pytest.mark.parametrize(
    ("env", "note"),
    [
        ({"TERM_PROGRAM": "WezTerm"}, "\x1b]9;"),
        ({"KITTY_WINDOW_ID": "1", "TERM": "xterm-kitty"}, "\x1b]9;"),
        ({"VTE_VERSION": "7000", "TERM": "xterm-256color"}, "\x1b]777;notify;"),
        ({"TERM": "foot-extra"}, "\x1b]777;notify;"),
        ({"TERM_PROGRAM": "WezTerm", "TMUX": "/tmp/x,1,0"}, ""),
        ({"TERM": "xterm-256color"}, ""),
        ({}, ""),
    ],
)
def test_terminals_are_called_in_their_own_way(env: dict[str, str], note: str) -> None:
    for reason in WORDS:
        told = alert(reason, "desktop", env)
        assert told.endswith(BELL) and told.startswith(note) and (bool(note) == (WORDS[reason] in told))
        assert alert(reason, "bell", env) == BELL and alert(reason, "off", env) == ""


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, (100, 30))
    yield terminal
    terminal.close()


def frame(terminal: Terminal) -> str:
    """The upper edge of the input, with its colour."""
    return next(line for line in terminal.tmux("capture-pane", "-p", "-e", "-t", "one").split("\n") if "╭" in line)


def ask(terminal: Terminal, settings: dict[str, object], *, look_away: bool) -> bytes:
    """Everything that the program writes until the question appears."""
    folder = terminal.home / ".teamwright"
    folder.mkdir(exist_ok=True)
    (folder / "settings.json").write_text(json.dumps({"teamwright": settings}))
    (terminal.project / "wait.sh").write_text("until [ -e go ]; do sleep 0.05; done")
    raw = terminal.home / "raw"
    script = [
        {"tool": "Bash", "input": {"command": "sh wait.sh"}},
        {"tool": "Bash", "input": {"command": "echo '\x1b]9;evil\x07'"}},
    ]
    terminal.start(script, "go", "--allowed-tools", "Bash(sh wait.sh)", env={"TERM_PROGRAM": "WezTerm"})
    terminal.tmux("pipe-pane", "-t", "one", f"cat > {raw}")
    terminal.shows("Esc interrupts", "Bash  sh wait.sh")
    if look_away:
        before, end = frame(terminal), time.monotonic() + LIMIT
        terminal.type(FOCUS_OUT)
        while frame(terminal) == before:
            assert time.monotonic() < end
            time.sleep(0.05)
    (terminal.project / "go").touch()
    terminal.shows("Bash?", "\\x1b]9;evil")
    if look_away and settings.get("notify") != "off":
        until(lambda: OSC.encode() in raw.read_bytes(), "a call")
    return raw.read_bytes()


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_a_question_calls_whoever_looks_elsewhere(terminal: Terminal) -> None:
    written = ask(terminal, {}, look_away=True)
    assert OSC.encode() in written and b"\x07" in written and b"]9;evil\x07" not in written


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_whoever_looks_is_not_called(terminal: Terminal) -> None:
    assert b"\x1b]9;" not in ask(terminal, {}, look_away=False)


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_who_wants_no_calls_gets_none(terminal: Terminal) -> None:
    written = ask(terminal, {"notify": "off"}, look_away=True)
    assert b"\x1b]9;" not in written and b"\x1b\\\x07" not in written
