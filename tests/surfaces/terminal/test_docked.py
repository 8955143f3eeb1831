"""Dialogs below the conversation: the turn that asks stays in sight and can be scrolled, keys go to the dialog."""

from typing import Any

import pytest
from stage import Stage, staged
from textual.events import MouseScrollUp

from teamwright.models.scripted import call
from teamwright.runtime.agents.resume import Origin
from teamwright.surfaces.terminal.dialogs.docked import DockedScreen
from teamwright.surfaces.view.shapes import Step

pytestmark = [pytest.mark.anyio, pytest.mark.spec("AP1")]
WORDS = "\n".join(f"reason {n}\n" for n in range(40))
ASK = [[f"{WORDS}\nSo I run it.", call("Bash", command="make one")], "done"]
PLAN = [["Here is what I would do.", call("ExitPlanMode", plan="# Plan\n\n1. Write it.")], "done"]
FORM = [{"question": "Which one?", "header": "One", "multiSelect": False,
         "options": [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}]}]  # fmt: skip
TALK = [["I have to know something.", call("AskUserQuestion", questions=FORM)], "done"]


def rows(stage: Stage) -> list[str]:
    return stage.screen.split("\n")


def row_of(stage: Stage, text: str) -> int:
    return next((n for n, line in enumerate(rows(stage)) if text in line), -1)


@pytest.mark.parametrize("size", [(60, 20), (110, 32), (200, 50)])
@pytest.mark.parametrize(
    ("script", "said", "asked"),
    [
        (ASK, "So I run it.", "main: Bash?"),
        (PLAN, "Here is what I would do.", "has a plan"),
        (TALK, "I have to", "asks"),
    ],
    ids=["call", "plan", "form"],
)
async def test_the_turn_that_asks_is_read_above_the_dialog(
    walker: Any, size: tuple[int, int], script: Any, said: str, asked: str
) -> None:
    mode = "plan" if script is PLAN else "default"
    async with staged(walker, script, size=size, prompt="go", interactive=True, mode=mode) as stage:
        await stage.until(lambda: 0 <= row_of(stage, said) < row_of(stage, asked), "words above the dialog")
        await stage.until(lambda: "waiting for your answer" in rows(stage)[size[1] - 1], "the status line")
        assert "Ask, or type" not in stage.screen and len(rows(stage)) == size[1]


async def test_pages_behind_a_dialog_are_there_at_once(walker: Any) -> None:
    walk = await walker.walk([f"answer {n} it is" for n in range(60)], [f"question {n} is" for n in range(60)])
    script = [*["said"] * 60, [call("Bash", command="make one")], "done"]
    async with staged(walker, script, origin=Origin(walk.session.id), size=(100, 30), prompt="go") as stage:
        await stage.until(lambda: isinstance(stage.app.screen, DockedScreen) and "make one" in stage.screen)
        dialog, talk = stage.app.screen, stage.app.conversation
        assert isinstance(dialog, DockedScreen)
        seen = set[str]()
        for _ in range(8):  # faster than any frame
            dialog.action_behind(-1)
            seen.add("\n".join(talk.render_line(y).text for y in range(talk.size.height)))
        assert len(seen) == 8


async def test_it_scrolls_while_keys_go_to_the_dialog(walker: Any) -> None:
    async with staged(walker, ASK, size=(100, 30), prompt="go") as stage:
        await stage.until(lambda: row_of(stage, "So I run it.") >= 0)
        talk = stage.app.conversation
        end = talk.scroll_offset.y
        await stage.press("pageup")
        await stage.until(lambda: talk.scroll_offset.y < end and row_of(stage, "So I run it.") < 0)
        middle = talk.scroll_offset.y
        await stage.pilot._post_mouse_events([MouseScrollUp], offset=(5, 2))
        await stage.until(lambda: talk.scroll_offset.y < middle)
        await stage.press("shift+pagedown", "shift+pagedown", "shift+pagedown")
        await stage.until(lambda: row_of(stage, "So I run it.") >= 0)
        await stage.until(lambda: not stage.app.screen.query("Choices").first().deaf)  # type: ignore[attr-defined]
        await stage.press("n")
        await stage.rests()
        await stage.until(lambda: "Ask, or type" in stage.screen, "the input is back")


async def test_a_long_request_is_paged_before_the_conversation(walker: Any) -> None:
    long = [["words", call("Bash", command="\n".join(f"make {n}" for n in range(60)))], "done"]
    async with staged(walker, long, size=(100, 30), prompt="go") as stage:
        await stage.until(lambda: row_of(stage, "PgDn to the end") >= 0)
        await stage.press("pagedown")
        await stage.shows("│   make 11")


async def test_a_dialog_takes_the_column_beside_the_side(walker: Any) -> None:
    async with staged(walker, ASK, size=(200, 40)) as stage:
        await stage.press("f2")
        await stage.until(lambda: stage.app.side.display)
        stage.app.prompt.focus()
        await stage.say("go")
        await stage.until(lambda: row_of(stage, "main: Bash?") >= 0)
        wide = stage.app.side.region.x
        await stage.until(lambda: stage.app.screen.query("DockBox").first().outer_size.width == wide)


async def put_off(stage: Stage) -> None:
    await stage.until(lambda: stage.view.questions and len(stage.app.screen_stack) == 2, "a dialog")
    await stage.press("ctrl+l")
    await stage.shows("1 question for you: Enter opens")


@pytest.mark.spec("AP2", "M10")
async def test_what_is_typed_while_a_question_waits_is_a_no_that_says_why(walker: Any) -> None:
    async with staged(walker, [[call("Bash", command="make one")], "done"], prompt="go") as stage:
        await put_off(stage)
        await stage.say("use ninja instead")
        await stage.rests()
        assert not stage.view.questions and not stage.view.queue
        await stage.shows("You said no: use ninja instead")


@pytest.mark.spec("AP2", "M10")
async def test_what_is_typed_answers_the_question_of_an_agent(walker: Any) -> None:
    async with staged(walker, TALK, prompt="go", interactive=True) as stage:
        await put_off(stage)
        await stage.say("neither, take C")
        await stage.rests()
        (step,) = (item for item in stage.items if isinstance(item, Step))
        assert step.status == "ok" and "neither, take C" in step.result


@pytest.mark.spec("AP2", "M10")
async def test_who_does_not_wait_for_the_answer_reads_the_prompt(walker: Any) -> None:
    script = {
        "main": [[call("Agent", description="d", prompt="SCRIPT:a", run_in_background=True)], "at work", "heard you"],
        "a": [[call("Bash", command="make one")], "done"],
    }
    async with staged(walker, script, prompt="go") as stage:
        await put_off(stage)
        await stage.say("hello")
        await stage.shows("heard you")
        assert len(stage.view.questions) == 1
        await stage.say("/theme dark")  # commands are no answers
        await stage.press("enter")
        await stage.shows("Yes, this once")


@pytest.mark.parametrize("size", [(100, 34), (80, 24)])
async def test_new_lines_are_followed_after_a_dialog(walker: Any, size: tuple[int, int]) -> None:
    """The room that the dialog gives back must not count as scrolling."""
    (walker.project / "calc.py").write_text("def add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n")
    edit = call(
        "Edit",
        file_path="calc.py",
        old_string="add(a, b):\n    return a - b",
        new_string="add(a, b):\n    return a + b",
    )
    script = [["I mend it.", call("Read", file_path="calc.py")], edit, "It adds now."]
    async with staged(walker, script, size=size, prompt="go") as stage:
        await stage.shows("Yes, this once")
        await stage.until(lambda: not stage.app.screen.query("Choices").first().deaf)  # type: ignore[attr-defined]
        await stage.press("y")
        await stage.shows("It adds now.")
        await stage.rests()
        assert stage.app.conversation.following
        await stage.say("/status")
        await stage.shows("servers ")


async def test_a_call_that_waits_for_another_does_not_look_as_if_it_ran(walker: Any) -> None:
    calls = [call("Bash", command=f"touch x{n}") for n in range(2)]
    async with staged(walker, [calls, "done"], size=(100, 30), prompt="go") as stage:
        await stage.until(lambda: row_of(stage, "? Bash  touch x0") >= 0 and row_of(stage, "• Bash  touch x1") >= 0)
        await stage.until(lambda: not stage.app.screen.query("Choices").first().deaf)  # type: ignore[attr-defined]
        await stage.press("y")
        await stage.until(lambda: row_of(stage, "? Bash  touch x1") >= 0)
        assert row_of(stage, "✓ Bash  touch x0") >= 0
