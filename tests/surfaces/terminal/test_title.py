"""The terminal's title: project and state, no unsafe words of a model, and the old title restored."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tmux_kit import Terminal
from tui_parts import EVIL, MAIN, ask, make_view, question, task

from place_kit import until
from teamwright.surfaces.terminal.margins.title import OFF, RESTORE, SAVE, TerminalTitle, title_of, wants_title
from teamwright.surfaces.view.view import SessionFold

SHOP = Path("/home/me/shop")
SLOW = {"text": "word " * 5_000, "pace": 100}


@pytest.mark.spec("SE6")
def test_the_title_says_project_and_state() -> None:
    assert title_of(SessionFold(MAIN), SHOP) == "teamwright · shop"
    view = make_view()
    assert title_of(view, SHOP) == "✳ teamwright · shop"
    doing = replace(task(1, "Fix it", "in_progress", "main"), agent=MAIN, active_form="Fixing the bug")
    view.tasks = [doing]
    assert title_of(view, SHOP) == "✳ teamwright · shop: Fixing the bug"
    view.tasks = [replace(doing, active_form=EVIL * 9)]
    assert title_of(view, SHOP).isprintable() and len(title_of(view, SHOP)) < 200
    ask(view, question())
    assert title_of(view, Path("/a\x1b]0;b")).isprintable()
    assert title_of(view, SHOP) == "? teamwright · shop: 1 question for you"


@pytest.mark.spec("SE6")
@pytest.mark.parametrize(
    ("env", "setting", "wanted"),
    [
        ({"TERM": "xterm-256color"}, True, True),
        ({"TERM": "xterm", OFF: "0"}, True, True),
        ({"TERM": "xterm", OFF: "1"}, True, False),
        ({"TERM": "xterm"}, False, False),
        ({"TERM": "linux"}, True, False),
        ({}, True, False),
    ],
)
def test_settings_variables_and_plain_terminals_have_none(env: dict[str, str], setting: bool, wanted: bool) -> None:
    assert wants_title(env, setting=setting) is wanted


@pytest.mark.spec("SE6")
def test_it_is_written_once_saved_first_and_put_back() -> None:
    written: list[str] = []
    title = TerminalTitle(written.append)
    title.show("one")
    assert not written
    title.allowed = True
    for words in ("one", "one", "two"):
        title.show(words)
    title.restore()
    title.restore()
    title.show("three")
    assert written == [f"{SAVE}\x1b]2;one\x1b\\", "\x1b]2;two\x1b\\", f"\x1b]2;\x1b\\{RESTORE}"]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, (100, 30))
    yield terminal
    terminal.close()


@pytest.mark.spec("SE6")
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_a_real_terminal_has_the_title_and_gets_its_own_back(terminal: Terminal) -> None:
    terminal.start([SLOW])
    terminal.tmux("select-pane", "-T", "mine")

    def title() -> str:
        return terminal.tmux("display-message", "-p", "-t", "one", "#{pane_title}").strip()

    until(lambda: title() == "teamwright · project", "the title")
    terminal.type("go")
    terminal.keys("Enter")
    until(lambda: title() == "✳ teamwright · project", "work in it")
    terminal.keys("Escape")
    until(lambda: title() == "teamwright · project", "rest in it")
    terminal.keys("C-d")
    terminal.shows("LEFT 0")
    until(lambda: title() == "mine", "the old title")
