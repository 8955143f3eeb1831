"""Two terminals, one session: `teamwright attach` opens the app at the door of a session that runs elsewhere."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tmux_kit import Terminal

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture
def first(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, (100, 30))
    yield terminal
    terminal.close()


def answer(terminal: Terminal, key: str) -> None:
    terminal.press_until(key, "Yes, this once", gone=True)


def leave(terminal: Terminal, *texts: str) -> None:
    terminal.leave()
    terminal.shows("LEFT 0", *texts)


STORY = [
    ["I make it.", {"tool": "Bash", "input": {"command": "touch made"}}],
    "All **done**.",
    {"text": "word " * 5_000, "pace": 100},
]


@pytest.mark.spec("M5", "Q1")
def test_both_terminals_see_and_do_the_same(first: Terminal) -> None:
    first.start(STORY)
    first.shows("Ask, or type")
    first.type("make it")
    first.keys("Enter")
    first.shows("main: Bash?")
    second = first.beside()
    second.run("attach")
    second.shows("main: Bash?", "touch made", "make it")
    answer(second, "y")
    for each in (first, second):
        screen = each.shows("All done.", "▌ make it", "✓ Bash")
        assert "Yes, this once" not in screen
    assert (first.project / "made").exists()
    second.type("go on")
    second.keys("Enter")
    for each in (first, second):
        each.shows("▌ go on", "word word", "Esc interrupts")
    second.type("later one")
    second.keys("Enter")
    for each in (first, second):
        each.shows("queued  later one")
    first.keys("Up")
    first.shows("› later one")
    for each in (first, second):
        each.gone("queued  later one")
    second.keys("Escape")
    for each in (first, second):
        each.shows("Interrupted")
    second.keys("BTab")
    for each in (first, second):
        each.shows("accept edits")
    leave(second, "The session is still running", "teamwright attach")
    first.shows("Interrupted", "accept edits")
    third = first.beside("three")
    third.run("attach")
    third.shows("▌ go on", "Interrupted", "accept edits")
    leave(first, "teamwright --resume")
    third.shows("The session has ended", "teamwright --resume", "LEFT 0")


def test_a_session_that_is_killed_closes_the_second_terminal_with_a_word(first: Terminal) -> None:
    first.start(["hello there"], "hi")
    first.shows("hello there")
    second = first.beside()
    second.run("attach")
    second.shows("hello there")
    first.tmux("kill-session", "-t", "one")
    second.shows("The session has ended", "LEFT 0")


@pytest.mark.spec("AP6")
def test_a_session_that_runs_elsewhere_is_attached_to_from_the_list(first: Terminal) -> None:
    first.start(["hello there"], "say hello")
    first.shows("hello there")
    second = first.beside()
    second.run("--resume", "--model", f"script/{first.home / 'script.json'}")
    second.shows("running elsewhere", "say hello")
    second.keys("Enter")
    second.shows("hello there", "runs in another terminal")
    second.type("/status")
    second.keys("Enter")
    second.shows("(in another process)", "sandbox", "servers")
    leave(second, "The session is still running")
