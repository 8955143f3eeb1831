"""Rewind in the app: Esc Esc and /rewind, the list of prompts, what goes back, and others' changes."""

from pathlib import Path
from typing import Any

import pytest
from stage import Stage, staged
from tui_parts import Host, screen_text, until

from conftest import Walker
from teamwright.models.scripted import call
from teamwright.runtime.port import RewindPoint, RewindPreview
from teamwright.surfaces.terminal.dialogs.rewind import RewindPicker, ask_what
from teamwright.surfaces.view.shapes import Spoken

pytestmark = pytest.mark.anyio
KEPT: dict[str, Any] = {"keep_files": True, "mode": "acceptEdits"}


async def ask(stage: Stage, *prompts: str) -> None:
    for prompt in prompts:
        await stage.say(prompt)
        await stage.shows(f"▌ {prompt}")
        await stage.rests()


def spoken(stage: Stage) -> list[str]:
    return [item.text for item in stage.items if isinstance(item, Spoken)]


def story(file: Path) -> list[Any]:
    return ["hello", [call("Write", file_path=str(file), content="one\ntwo\n")], "written", "other"]


@pytest.mark.spec("RW6")
async def test_esc_esc_goes_back_in_conversation_and_files(walker: Walker) -> None:
    file = walker.project / "a.txt"
    async with staged(walker, story(file), **KEPT) as stage:
        await ask(stage, "first", "write it")
        assert file.exists()
        await stage.press("escape")
        await stage.shows("Esc again rewinds")
        await stage.press("escape")
        await stage.shows("back to before which prompt?")
        await stage.shows("1 file +2 -0")
        await stage.press("enter")
        await stage.shows("what goes back?")
        await stage.shows("remove    a.txt")
        await stage.press("b")
        await stage.shows("Went back to here")
        await stage.shows("1 file removed")
        await stage.until(lambda: stage.app.prompt.text == "write it", "the prompt comes back")
        assert not file.exists() and spoken(stage) == ["first", "hello"]
        assert [m.text for m in stage.session.main.history.messages] == ["first", "hello"]


@pytest.mark.spec("RW6")
async def test_a_command_is_shown_listed_and_given_back_as_it_was_typed(walker: Walker) -> None:
    (walker.home / ".claude" / "commands").mkdir(parents=True)
    (walker.home / ".claude" / "commands" / "greet.md").write_text("Say hello to $ARGUMENTS.")
    async with staged(walker, ["hello"], **KEPT) as stage:
        await stage.say("/greet ada")
        await stage.shows("▌ /greet ada")
        await stage.rests()
        assert [m.text for m in stage.session.main.history.messages] == ["Say hello to ada.", "hello"]
        assert spoken(stage) == ["/greet ada", "hello"]
        (point,) = await stage.app.session.points()
        assert point.text == "/greet ada"


@pytest.mark.spec("RW6")
async def test_a_rewind_is_taken_back(walker: Walker) -> None:
    file = walker.project / "a.txt"
    async with staged(walker, story(file), **KEPT) as stage:
        await ask(stage, "first", "write it")
        before = spoken(stage)
        await stage.say("/rewind")
        await stage.press("up", "enter")
        await stage.shows("what goes back?")
        await stage.press("b")
        await stage.shows("Went back to here")
        assert spoken(stage) == [] and not file.exists()
        stage.app.prompt.put("")
        await stage.say("/rewind")
        await stage.shows("take this rewind back")
        await stage.press("enter")
        await stage.shows("Back to before the rewind")
        await stage.press("b")
        await stage.until(file.exists, "the file is there again")
        await stage.until(lambda: spoken(stage) == before, "so is the conversation")
        assert stage.app.prompt.text == ""


@pytest.mark.spec("RW6")
async def test_escape_leaves_and_files_alone_can_go_back(walker: Walker) -> None:
    file = walker.project / "a.txt"
    async with staged(walker, story(file), **KEPT) as stage:
        await ask(stage, "first", "write it")
        await stage.say("/rewind")
        await stage.shows("which prompt?")
        await stage.press("enter")
        await stage.shows("what goes back?")
        await stage.press("escape")
        await stage.shows("which prompt?")
        await stage.press("escape")
        await stage.gone("which prompt?")
        assert file.exists() and spoken(stage)[-1] == "written"
        await stage.say("/rewind")
        await stage.shows("which prompt?")
        await stage.press("enter")
        await stage.shows("what goes back?")
        await stage.press("f")
        await stage.shows("Files went back, the conversation did not")
        assert not file.exists() and "written" in spoken(stage) and stage.app.prompt.text == ""


@pytest.mark.spec("RW4", "RW6")
@pytest.mark.parametrize("answer", ["n", "y"])
async def test_what_others_changed_is_listed_and_asked_about(walker: Walker, answer: str) -> None:
    file = walker.project / "a.txt"
    async with staged(walker, story(file), **KEPT) as stage:
        await ask(stage, "first", "write it")
        file.write_text("the person's\n")
        await stage.say("/rewind")
        await stage.shows("which prompt?")
        await stage.press("enter")
        await stage.shows("changed by somebody else since")
        await stage.press("f")
        await stage.shows("Somebody else has changed 1 file")
        await stage.press(answer)
        await stage.shows("which prompt?" if answer == "n" else "1 file removed")
        assert file.exists() == (answer == "n")


@pytest.mark.spec("RW6")
async def test_there_is_nothing_to_go_back_to(walker: Walker) -> None:
    async with staged(walker, ["hello"], **KEPT) as stage:
        said = "there is no prompt to go back to yet"
        for _ in range(20):  # on a slow machine, two presses can come too far apart to count as a pair
            if said not in stage.screen:
                await stage.press("escape", "escape")
        await stage.shows(said)


@pytest.mark.spec("RW5", "RW6")
async def test_a_working_agent_is_interrupted_first(walker: Walker) -> None:
    script = ["hello", [call("Bash", command="sleep 60")], "x"]
    async with staged(walker, script, **KEPT, allowed_tools=["Bash"]) as stage:
        await ask(stage, "first")
        await stage.say("second")
        await stage.shows("sleep 60")
        await stage.say("/rewind")
        await stage.shows("which prompt?")
        await stage.press("enter")
        await stage.shows("what goes back?")
        await stage.press("c")
        await stage.shows("the agent is working: interrupt it first")
        assert spoken(stage)[-1] == "second"


@pytest.mark.spec("RW6")
async def test_hostile_words_are_only_words(walker: Walker) -> None:
    evil = "\x1b[31mred[bold]x[/bold]"
    point = RewindPoint(5, 0, "prompt", evil, files=1, gaps=(evil,))
    host = Host(lambda: RewindPicker([point]))
    async with host.run_test(size=(90, 16)) as pilot:
        await until(pilot, lambda: "\\x1b[31mred[bold]x[/bold]" in screen_text(host))
    preview = RewindPreview(restores=(f"/p/{evil}",), left=(evil,), notes=(evil,))
    host = Host(lambda: ask_what(point, preview, "/p"))
    async with host.run_test(size=(90, 20)) as pilot:
        await until(pilot, lambda: screen_text(host).count("\\x1b[31mred[bold]x[/bold]") == 4)
