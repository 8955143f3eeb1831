"""Aids for typing: search of earlier prompts, an editor, pictures from the clipboard; suspending the app."""

import os
import signal
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stage import Stage, staged
from tmux_kit import LIMIT, Terminal

from conftest import Walker
from pictures import png
from teamwright.core.data.message import Image
from teamwright.core.errors import UsageError
from teamwright.models.scripted import ScriptedModel
from teamwright.store.files.paths import home_from
from teamwright.surfaces.terminal.dialogs.prompt_search import PromptSearch
from teamwright.surfaces.terminal.prompt import aids, editor
from teamwright.surfaces.terminal.prompt.drafts import Drafts
from teamwright.surfaces.view.shapes import Spoken

pytestmark = [pytest.mark.spec("AP4")]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path, (100, 30))
    yield made
    made.close()


def remember(walker: Walker, project: str, *prompts: str) -> None:
    drafts = Drafts(home_from(walker.env), Path(project))
    for prompt in prompts:
        drafts.remember(prompt)
    assert not drafts.save()


async def searching(stage: Stage) -> None:
    await stage.press("ctrl+r")
    await stage.until(lambda: isinstance(stage.app.screen, PromptSearch))


@pytest.mark.anyio
async def test_prompts_of_all_projects_are_searched(walker: Any) -> None:
    remember(walker, "/other/shop", "mend the till", "paint the shelf\nin green\nand well")
    remember(walker, str(walker.project), "count the stars")
    async with staged(walker) as stage:
        await searching(stage)
        await stage.shows("3 of 3 prompts")
        await stage.shows("/other/shop")
        await stage.type("shop paint")
        await stage.shows("1 of 3 prompts")
        await stage.shows("and well")  # the whole of it
        await stage.press("enter")
        await stage.until(lambda: stage.app.prompt.text == "paint the shelf\nin green\nand well")
        await stage.press("ctrl+c")
        await searching(stage)
        await stage.shows("3 of 3 prompts")  # what was cleared here now counts as a prompt of this session
        await stage.press("ctrl+r", "ctrl+r", "escape")
        await stage.until(lambda: len(stage.app.screen_stack) == 1)
        assert not stage.app.prompt.text


@pytest.mark.anyio
async def test_a_broken_file_costs_its_prompts_only(walker: Any) -> None:
    remember(walker, "/other/shop", "mend the till")
    (home_from(walker.env).root / "input" / "broken.json").write_text("{")
    async with staged(walker) as stage:
        await searching(stage)
        await stage.shows("1 of 1 prompts")


def program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.anyio
@pytest.mark.parametrize(("name", "display"), [("wl-paste", "WAYLAND_DISPLAY"), ("xclip", "DISPLAY")])
async def test_a_picture_of_the_clipboard_is_attached(walker: Any, tmp_path: Path, name: str, display: str) -> None:
    (tmp_path / "copied.png").write_bytes(png())
    program(tmp_path / "bin", name, f"exec cat {tmp_path}/copied.png")
    walker.env |= {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", display: "0"}
    model = ScriptedModel(["a dot"])
    async with staged(walker, model) as stage:
        await stage.type("what is ")
        await stage.press("ctrl+v")
        await stage.shows("what is [picture 1: 1 kB]")
        await stage.press("enter")
        await stage.shows("a dot")
        request = model.requests[-1]
        assert any(isinstance(part, Image) for message in request.messages for part in message.blocks)
        (words,) = (item.text for item in stage.items if isinstance(item, Spoken) and item.role == "person")
        assert words.startswith("what is [picture]")


@pytest.mark.anyio
async def test_what_is_missing_for_a_picture_is_said(walker: Any, tmp_path: Path) -> None:
    walker.env |= {"DISPLAY": "", "WAYLAND_DISPLAY": "", "PATH": f"{tmp_path}/bin"}
    async with staged(walker, size=(200, 20)) as stage:
        await stage.press("ctrl+v")
        await stage.shows("install wl-clipboard (Wayland), xclip (X11) or pngpaste (macOS), or name the file with @")
        program(tmp_path / "bin", "xclip", "exit 1")
        await stage.press("ctrl+v")
        await stage.shows("xclip cannot read the clipboard: DISPLAY is not set in this terminal.")
    walker.env |= {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "DISPLAY": "0"}
    async with staged(walker) as stage:
        await stage.press("ctrl+v")
        await stage.shows("The clipboard holds no picture")


def test_pasted_pictures_do_not_pile_up(tmp_path: Path) -> None:
    for n in range(aids.MOST_PICTURES + 3):
        newest = aids.keep_picture(tmp_path / "pictures", png(n + 1))
    assert len(list((tmp_path / "pictures").iterdir())) == aids.MOST_PICTURES and newest.exists()


def test_the_editor_is_split_like_a_command_line_and_nothing_else(tmp_path: Path) -> None:
    path = program(tmp_path, "my editor", "true")
    env = {"PATH": os.environ["PATH"], "EDITOR": "sh"}
    assert editor.command_of(env) == ["sh"]
    assert editor.command_of({**env, "VISUAL": f"'{path}' --wait '$(touch x);'"}) == [
        str(path),
        "--wait",
        "$(touch x);",
    ]
    for wrong, words in (("no-such-editor -w", "no-such-editor was not found"), ("'open", "cannot be read")):
        with pytest.raises(UsageError, match=words):
            editor.command_of({**env, "VISUAL": wrong})


def test_the_input_is_edited_outside_while_the_session_goes_on(terminal: Terminal, tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "ed it", 'cat "$2"; echo "EDITING $1"; read line; echo "$line" >> "$2"')
    terminal.start(["an answer", "more"], env={"EDITOR": f"'{path}' -w"})
    terminal.shows("Ask, or type")
    terminal.type("some words")
    terminal.keys("C-g")
    terminal.shows("some words", "EDITING -w")
    terminal.type("and more")
    terminal.keys("Enter")
    terminal.shows("› some words", "and more", "/help")
    terminal.keys("Enter")
    terminal.shows("an answer")


def test_an_editor_that_fails_changes_nothing(terminal: Terminal, tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "fails", 'echo lost > "$1"; exit 3')
    terminal.start(["an answer"], env={"EDITOR": str(path)})
    terminal.shows("Ask, or type")
    terminal.type("some words")
    terminal.keys("C-g")
    terminal.shows("status 3; the input is as it was", "› some words")


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def test_it_is_suspended_and_comes_back(terminal: Terminal) -> None:
    terminal.start(["an answer"])
    terminal.shows("Ask, or type")
    terminal.type("some words")
    terminal.shows("› some words")
    pid = terminal.pid
    terminal.keys("C-z")
    end = time.monotonic() + LIMIT
    while state(pid) != "T":
        assert time.monotonic() < end, terminal.screen
        time.sleep(0.05)
    assert "› some words" not in terminal.screen  # the shell has the terminal
    os.kill(pid, signal.SIGCONT)
    terminal.shows("› some words", "/help")
    terminal.keys("M-d", "C-a", "M-d")
    terminal.shows("›  words")
    terminal.keys("C-_")
    terminal.shows("› some words")


@pytest.mark.anyio
async def test_a_deletion_is_undone_and_a_word_ahead_is_deleted(walker: Any) -> None:
    async with staged(walker) as stage:
        await stage.type("mend the till")
        await stage.press("ctrl+w")
        await stage.until(lambda: stage.app.prompt.text == "mend the ")
        await stage.press("ctrl+underscore")
        await stage.until(lambda: stage.app.prompt.text == "mend the till")
        await stage.press("home", "alt+d")
        await stage.until(lambda: stage.app.prompt.text == " the till")
