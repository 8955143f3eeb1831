"""Agents at work in the app: stopped, answered together, told apart; steps opened by mouse; what the status says."""

import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest
from stage import LIMIT, Stage, staged
from textual import events

from teamwright.core.ids import AgentId
from teamwright.core.policies.budget import Limits
from teamwright.models.scripted import ScriptedModel, call
from teamwright.surfaces.terminal.widgets.rows import RowList
from teamwright.surfaces.view.shapes import Step

pytestmark = pytest.mark.anyio

SLOW = {"text": "slow " * 5_000, "pace": 100}


def crew(*children: Any) -> ScriptedModel:
    """A main agent that starts these agents in the background, each with its own steps."""
    calls = [
        call("Agent", description=f"part {n}", prompt=f"SCRIPT:c{n}", run_in_background=True)
        for n, _ in enumerate(children)
    ]
    return ScriptedModel({"main": [calls, "They are at work."], **{f"c{n}": s for n, s in enumerate(children)}})


def others(stage: Stage) -> list[AgentId]:
    return [id for id in stage.view.agents if id != stage.view.main]


@pytest.mark.spec("B4")
async def test_one_agent_is_stopped_from_the_panel_then_all(walker: Any) -> None:
    async with staged(walker, crew([SLOW], [SLOW], [SLOW]), size=(120, 30)) as stage:
        await stage.say("go")
        await stage.until(lambda: len(others(stage)) == 3)
        await stage.press("f2")
        await stage.shows("Enter opens · x stops")
        await stage.press("down", "x")
        await stage.until(lambda: sum(stage.view.agents[a].state == "stopped" for a in others(stage)) == 1, "one")
        await stage.press("X")
        await stage.until(lambda: all(stage.view.agents[a].state == "stopped" for a in others(stage)), "all")
        assert not stage.session.supervisor.jobs.running()
        await stage.shows("■ general-purpose")


async def press_until(stage: Stage, key: str, done: Callable[[], object]) -> None:
    """Press until it has an effect; a list ignores input when it has just appeared."""
    end = time.monotonic() + LIMIT
    while not done():
        assert time.monotonic() < end, stage.screen
        await stage.press(key)
        await stage.pilot.pause(0.1)


@pytest.mark.spec("M5")
async def test_always_for_all_answers_everybody_who_asks_the_same(walker: Any) -> None:
    same = [[call("Bash", command="touch made")], "done"]
    async with staged(walker, crew(same, same, same)) as stage:
        await stage.say("go")
        await stage.until(lambda: len(stage.view.questions) == 3)
        await press_until(stage, "ctrl+l", lambda: len(stage.app.screen_stack) == 1)
        await stage.shows("3 questions for you: Enter opens")
        await stage.press("enter")
        await stage.shows("3 questions are waiting for you")
        await press_until(stage, "a", lambda: not stage.view.questions)
        await stage.until(lambda: all(stage.view.agents[a].state == "done" for a in others(stage)), "all go on")
        assert (walker.project / "made").exists()


async def test_a_click_opens_a_step_and_a_queued_prompt_is_taken_back_by_one(walker: Any) -> None:
    script = [[call("Bash", command="echo one; echo two")], SLOW]
    async with staged(walker, script, allowed_tools=["Bash"], prompt="go") as stage:
        await stage.shows("slow slow")
        assert "│ two" not in stage.screen
        line = next(n for n, text in enumerate(stage.screen.split("\n")) if "✓ Bash" in text)
        await stage.pilot.click(offset=(10, line))
        await stage.shows("│ two")
        await stage.say("for later")
        await stage.shows("queued  for later")
        await stage.pilot.click("#queue", offset=(14, 0))
        await stage.until(lambda: stage.app.prompt.text == "for later")
        await stage.gone("queued  for later")


async def test_what_is_typed_or_pasted_elsewhere_goes_into_the_input(walker: Any) -> None:
    async with staged(walker, [[call("Glob", pattern="*")], "done"], size=(120, 24), prompt="go") as stage:
        await stage.rests()
        await stage.press("tab")
        assert stage.app.focused is stage.app.conversation
        await stage.type("fix")
        await stage.press("f2")
        await stage.shows("Enter opens")
        await stage.type("ed")
        assert stage.app.prompt.text == "fixed" and stage.app.focused is stage.app.prompt
        await stage.press("f2")
        stage.app.focused.post_message(events.Paste(" by paste"))  # type: ignore[union-attr]
        await stage.until(lambda: stage.app.prompt.text == "fixed by paste")


@pytest.mark.spec("Q1")
async def test_what_a_line_of_ones_own_prints_is_seen_at_once(walker: Any) -> None:
    async with staged(walker, ["I see."]) as stage:
        await stage.say("!seq 1 100")
        await stage.shows("│ 12")
        assert "88 more lines" in stage.screen and "│ 13" not in stage.screen
        await stage.press("tab", "enter")
        await stage.until(lambda: any(isinstance(i, Step) and i.result.endswith("100") for i in stage.items))


async def test_the_status_line_says_mode_model_budget_and_branch(walker: Any) -> None:
    git(walker, "-c", "init.defaultBranch=trunk", "init", "-q")
    options = {"limits": Limits(usd=2.0, tokens=500_000), "mode": "plan"}
    async with staged(walker, size=(140, 20), **options) as stage:
        await stage.shows("on trunk")
        line = stage.screen.split("\n")[-1]
        assert "plan · script/given" in line and "$2.00 of $2.00" in line and "500,000 tokens left" in line
        git(walker, "checkout", "-q", "-b", "other")
        await stage.say("hello")
        await stage.shows("on other")


def git(walker: Any, *words: str) -> None:
    subprocess.run(["git", *words], cwd=walker.project, check=True, capture_output=True, timeout=60)


@pytest.mark.spec("Y1")
async def test_an_agent_that_is_waited_for_is_seen_at_its_call_and_in_the_panel(walker: Any) -> None:
    script = ScriptedModel({
        "main": [[call("Agent", description="look around", prompt="SCRIPT:child")], "done"], "child": [SLOW],
    })  # fmt: skip
    async with staged(walker, script, size=(120, 30)) as stage:
        await stage.say("go")
        await stage.until(lambda: others(stage))
        await stage.shows("general-purpose: look around")
        await stage.press("f2")
        await stage.shows("◐ main  waits for general-purpose")
        await stage.shows("└ ● general-purpose  writing")
        await stage.press("down", "enter")
        await stage.shows("to general-purpose ›")
        await stage.shows("slow slow")


async def test_a_skill_is_a_command_and_is_completed(walker: Any) -> None:
    folder = walker.home / ".teamwright" / "skills" / "greet"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: greet\ndescription: says hello\n---\nSay hello to $ARGUMENTS.\n")
    async with staged(walker, ["Hello, Kim."]) as stage:
        await stage.type("/gree")
        await stage.shows("says hello")
        await stage.press("tab")
        await stage.type("Kim")
        await stage.press("enter")
        await stage.shows("Hello, Kim.")
        assert "Say hello to Kim." in stage.session.main.history.messages[0].text


async def test_the_side_stands_beside_or_in_place_of_the_conversation(walker: Any) -> None:
    async with staged(walker, ["the answer"], size=(120, 24), prompt="go") as stage:
        await stage.shows("the answer")
        await stage.press("f2")
        await stage.shows("F2 next")
        assert "the answer" in stage.screen
        await stage.pilot.resize_terminal(80, 24)
        await stage.gone("the answer")
        assert stage.app.screen.query_one(RowList).has_focus
        await stage.press("escape")
        await stage.shows("the answer")
        assert stage.app.focused is stage.app.prompt


async def test_a_resize_that_hides_what_is_typed_into_loses_no_key(walker: Any) -> None:
    async with staged(walker, ["the answer"], size=(120, 24)) as stage:
        await stage.press("f2")
        await stage.shows("F2 next")
        await stage.type("go")  # into the input, which has the keyboard from then on
        await stage.until(lambda: stage.app.focused is stage.app.prompt)
        await stage.pilot.resize_terminal(80, 24)
        await stage.until(lambda: isinstance(stage.app.focused, RowList), "the list has the keyboard")
        await stage.press("escape")
        await stage.until(lambda: stage.app.focused is stage.app.prompt)
        await stage.press("enter")
        await stage.shows("the answer")
