"""Questions stay in the conversation with their answers: those of an agent, and plans."""

from typing import Any

import pytest
from stage import Stage, staged
from tui_parts import Host, make_view, question, screen_text, until

from teamwright.models.scripted import call
from teamwright.runtime.agents.resume import Origin
from teamwright.surfaces.terminal.dialogs.question_list import screen_for
from teamwright.surfaces.terminal.widgets.choices import Choices

pytestmark = pytest.mark.anyio


def asked(question: str, *labels: str) -> dict[str, Any]:
    options = [{"label": label, "description": f"all of {label}"} for label in labels]
    return {"question": question, "header": "Choice", "options": options}


ONE = call("AskUserQuestion", questions=[asked("Which format?", "JSON", "CBOR")])
TWO = call("AskUserQuestion", questions=[asked("Which format?", "JSON", "CBOR"), asked("How fast?", "Very", "Not")])
PLAN = "# A banner\n\n1. **Write** it.\n2. Test it.\n\n| a | b |\n|---|---|\n| x | y |\n"
PLANS = [[call("EnterPlanMode")], [call("ExitPlanMode", plan=PLAN)], "Carried out."]


async def choose(stage: Stage, key: str) -> None:
    """Choose an answer; a dialog ignores input when it has just appeared."""
    listing = stage.app.screen.query_one(Choices)
    await stage.until(lambda: not listing.deaf, "ears")
    await stage.press(key)
    await stage.until(lambda: not listing.is_attached, "an answer")


@pytest.mark.spec("SE5")
async def test_an_answer_is_seen_beneath_its_question_also_after_a_resume(walker: Any) -> None:
    async with staged(walker, [[ONE], "CBOR it is."], prompt="go", interactive=True) as stage:
        await stage.shows("CBOR: all of CBOR")
        await choose(stage, "2")
        await stage.shows("CBOR it is.")
        assert "✓ AskUserQuestion  Which format?" in stage.screen and "    │ CBOR" in stage.screen
        id = stage.session.id
    async with staged(walker, ["again"], origin=Origin(id)) as stage:
        await stage.shows("    │ CBOR")


@pytest.mark.spec("SE5")
async def test_several_answers_have_their_questions(walker: Any) -> None:
    async with staged(walker, [[TWO], "I see."], prompt="go", interactive=True) as stage:
        await stage.shows("all of CBOR")
        await choose(stage, "1")
        await stage.shows("all of Very")
        await choose(stage, "2")
        await stage.shows("I see.")
        assert "│ Which format?  JSON" in stage.screen and "│ How fast?  Not" in stage.screen


@pytest.mark.spec("SE5")
async def test_a_question_that_was_skipped_says_so_to_the_person(walker: Any) -> None:
    async with staged(walker, [[ONE], "I took JSON."], prompt="go", interactive=True) as stage:
        await stage.shows("all of CBOR")
        await choose(stage, "n")
        await stage.shows("I took JSON.")
        assert "You skipped it." in stage.screen and "The person" not in stage.screen


@pytest.mark.spec("SE5")
@pytest.mark.parametrize(("key", "mode"), [("y", "default"), ("e", "acceptEdits")])
async def test_a_plan_is_drawn_in_its_dialog_and_stays_in_the_conversation(walker: Any, key: str, mode: str) -> None:
    async with staged(walker, PLANS, prompt="plan it", interactive=True, size=(100, 40)) as stage:
        await stage.shows("Yes, and accept edits from now on")
        assert "**Write**" not in stage.screen and "1 Write it." in stage.screen
        await choose(stage, key)
        await stage.shows("Carried out.")
        assert "│  1 Write it." in stage.screen and "│ A banner" in stage.screen
        assert stage.session.main.mode == mode


async def test_an_agent_below_cannot_change_the_mode_by_its_plan() -> None:
    plan = question(tool="ExitPlanMode", suggestions=(), plan=PLAN)
    host = Host(lambda: screen_for(plan, make_view().agents))
    async with host.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "carry out the plan" in screen_text(host))
        assert "accept edits" not in screen_text(host)


@pytest.mark.spec("SE5")
async def test_a_long_plan_is_folded_and_opens(walker: Any) -> None:
    long = "\n".join(f"{n}. Step number {n}" for n in range(1, 81))
    script = [[call("EnterPlanMode")], [call("ExitPlanMode", plan=long)], "Carried out."]
    async with staged(walker, script, prompt="plan it", interactive=True, size=(100, 90)) as stage:
        await stage.shows("carry out the plan")
        await stage.press("pagedown")
        await choose(stage, "y")
        await stage.shows("Carried out.")
        assert "40 more lines: Tab and Enter open it" in stage.screen and "Step number 41" not in stage.screen
        await stage.press("tab", "enter")
        await stage.shows("80 Step number 80")
