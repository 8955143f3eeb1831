"""The demo in the app: a newcomer watches a team, answers its question, reads a teammate's work, and leaves."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tmux_kit import SIZES, Terminal

from teamwright.core.data.message import Message, Text, ToolResult, user
from teamwright.core.ids import CallId
from teamwright.models.scripted import call
from teamwright.surfaces.demo.advice import advice
from teamwright.surfaces.demo.story import DEAF, PARTS, PROMPT, only_spoken_to, parts, replies
from teamwright.surfaces.view.newcomer import Newcomer


@pytest.fixture(params=SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def terminal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, request.param)
    yield terminal
    terminal.close()


@pytest.mark.spec("T7", "M5")
def test_a_stranger_watches_a_team_answers_and_reads(terminal: Terminal) -> None:
    with TemporaryDirectory() as temp:
        terminal.run("demo", "--fast", env={"TMPDIR": temp})
        terminal.shows("ada (general-purpose) of shop: Bash?", "print(cheapest([]))")
        terminal.press_until("y", "Bash?", gone=True)
        terminal.shows("F2 shows the team")
        terminal.keys("F2")
        terminal.shows("agents", "ada", "ben", "Enter opens")
        terminal.press_until("Down", "ada  general-purpose")  # either of the two may have been quicker to start
        terminal.keys("Enter")
        terminal.shows("to ada ›", "#1 is done", "✉ team-lead  asks for a shutdown")
        terminal.keys("C-o")
        terminal.press_until("PPage", "+     return min(prices, default=None)")
        terminal.press_until("Escape", "to ada ›", gone=True)
        terminal.press_until("Escape", "F2 next", gone=True)
        terminal.shows("the story is over")
        terminal.keys("C-c")
        terminal.shows("Ctrl+C again")
        terminal.keys("C-c")
        terminal.shows("its tests pass", "LEFT 0")
        assert list(Path(temp).iterdir()) == [] and not (terminal.home / ".teamwright").exists()


def test_it_can_be_printed_in_a_terminal_too(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, SIZES[1])
    try:
        with TemporaryDirectory() as temp:
            terminal.run("demo", "--fast", "--plain", env={"TMPDIR": temp})
            terminal.shows("Three commits of two teammates", "The tests pass.", "LEFT 0")
    finally:
        terminal.close()


def test_the_line_says_the_next_thing_to_do_until_it_was_tried() -> None:
    seen = Newcomer()
    assert "a script plays the model" in advice(seen)
    seen.team = True
    assert advice(seen).startswith("F2 shows the team")
    seen.asked = "ada"
    assert advice(seen) == "ada waits for your answer: Enter opens the question"
    seen.asked, seen.page, seen.tried_side = "", "agents", True
    assert "Down and Enter" in advice(seen)
    seen.page, seen.elsewhere, seen.tried_reading = "", "ada", True
    assert "Esc: back to the lead" in advice(seen)
    seen.elsewhere = ""
    assert "Ctrl+C twice leaves" in advice(seen, over=True)


def test_only_with_somebody_to_ask_there_is_a_question() -> None:
    live, printed = parts(live=True), parts(live=False)
    assert len(live["ada"]) == len(PARTS["ada"]) + 1 and printed == PARTS
    assert live["lead"] == PARTS["lead"] and live["ben"] == PARTS["ben"]


def said(text: str, *calls: object) -> Message:
    return Message("assistant", (Text(text), *calls))  # type: ignore[arg-type]


def test_words_that_the_script_has_no_line_for_do_not_move_the_story() -> None:
    first, rested = user(PROMPT), said("They are at work.")
    assert not only_spoken_to([first])
    assert only_spoken_to([first, rested, user("hello")])
    assert only_spoken_to([first, rested, user("<shell-input>ls</shell-input>")])
    mail = user('<teammate-message teammate_id="ben">\nhi\n</teammate-message>')
    assert not only_spoken_to([first, rested, user("hello"), mail])
    cut = said("I look.", call("Bash", command="ls"))
    assert not only_spoken_to([first, cut, Message("user", (ToolResult(CallId("c"), (Text("x"),)),)), user("go on")])
    assert only_spoken_to([first, cut, user("<side-question>\nwhat?\n</side-question>")])
    assert replies([first, rested, user("hello"), said(DEAF)]) == 1
