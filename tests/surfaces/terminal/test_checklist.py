"""The checklist above the input: which tasks, in which order, when it disappears, and what the status line adds."""

from typing import Any

import pytest
from msgspec.structs import replace
from stage import staged
from tui_parts import EVIL, task

from teamwright.core.ids import AgentId
from teamwright.models.scripted import ScriptedModel, call
from teamwright.surfaces.view.checklist import activity, checklist

SLOW = {"text": "slow " * 5_000, "pace": 100}
MAKE = [
    call("TaskCreate", subject="Read the code", description="all"),
    call("TaskCreate", subject="Fix the bug", description="it", activeForm="Fixing the bug"),
    call("TaskCreate", subject="Write tests", description="for it"),
]
WORK = [
    MAKE,
    [call("TaskUpdate", taskId="1", status="completed"), call("TaskUpdate", taskId="2", status="in_progress")],
    SLOW,
]


def states(tasks: Any, most: int = 8) -> tuple[list[str], int]:
    found = checklist(tasks, most)
    return [f"{row.state} {row.text}" for row in found.rows], found.more


@pytest.mark.spec("SE1")
def test_the_list_keeps_its_order_and_is_gone_when_everything_is_done() -> None:
    doing = replace(task(2, "Fix it", "in_progress", "ada"), active_form="Fixing it")
    tasks = [task(1, "Read", "completed", "ada"), doing, task(3, "Test", "pending", None, 2), task(4, "Lint")]
    assert states(tasks) == (["done Read", "active Fixing it", "blocked Test", "open Lint"], 0)
    assert states([task(1, "Read", "completed")]) == ([], 0) and states([]) == ([], 0)


@pytest.mark.spec("SE1")
def test_of_a_long_list_what_is_at_work_and_open_is_seen_first() -> None:
    done = [task(n, f"old {n}", "completed") for n in range(1, 6)]
    tasks = [*done, task(6, "now", "in_progress", "ada"), task(7, "next"), task(8, "then", "pending", None, 7)]
    assert states(tasks, 5) == (["done old 5", "active now", "open next", "blocked then"], 4)
    assert states(tasks, 3) == (["active now", "open next"], 6)
    assert states(tasks, 8)[1] == 0


@pytest.mark.spec("SE1")
def test_an_agent_does_the_task_that_it_took_last() -> None:
    ada, old = AgentId("a1"), task(1, "Read", "in_progress", "ada")
    new = replace(task(2, "Fix it", "in_progress", "ada"), active_form="Fixing it.")
    assert activity([new, old], ada) == "Fixing it…" and activity([old], ada) == "Read…"
    assert activity([old, new], AgentId("a2")) == "" == activity([task(1, "Read")], ada)
    assert "\x1b" not in activity([replace(new, active_form=EVIL)], ada)


@pytest.mark.anyio
@pytest.mark.spec("SE1")
async def test_the_checklist_is_live_and_the_status_line_says_the_active_form(walker: Any) -> None:
    async with staged(walker, WORK, prompt="go") as stage:
        await stage.shows("▸ Fixing the bug")
        await stage.shows("slow slow")
        lines = [line.strip() for line in stage.screen.split("\n")]
        at = lines.index("▸ Fixing the bug")
        assert lines[at - 1 : at + 2] == ["✓ Read the code", "▸ Fixing the bug", "○ Write tests"]
        assert "Fixing the bug…" in lines[-1] and "Esc interrupts" in lines[-1]
        await stage.press("ctrl+t")
        await stage.gone("○ Write tests")
        await stage.press("ctrl+t")
        await stage.shows("○ Write tests")
        await stage.press("escape")
        await stage.rests()
        await stage.shows("○ Write tests")


@pytest.mark.anyio
@pytest.mark.spec("SE1")
async def test_when_all_is_done_the_checklist_goes(walker: Any) -> None:
    ends = [[call("TaskUpdate", taskId=str(n), status="completed") for n in (1, 2, 3)], "All done."]
    async with staged(walker, [MAKE, "Made.", *ends]) as stage:
        await stage.say("make them")
        await stage.shows("○ Fix the bug")
        await stage.rests()
        await stage.say("do them")
        await stage.shows("All done.")
        await stage.gone("✓ Fix the bug")


@pytest.mark.anyio
@pytest.mark.spec("SE1")
async def test_the_tasks_of_a_team_have_their_owners(walker: Any) -> None:
    script = ScriptedModel({
        "main": [
            [call("TeamCreate", team_name="crew", description="a crew")],
            [call("TaskCreate", subject="Paint it", description="red", activeForm="Painting it", owner="ada")],
            [call("Agent", description="paints", prompt="SCRIPT:ada", name="ada")],
            "They work.",
        ],
        "ada": [[call("TaskUpdate", taskId="1", status="in_progress")], SLOW],
    })  # fmt: skip
    async with staged(walker, script, prompt="go") as stage:
        await stage.shows("▸ Painting it  ada")
