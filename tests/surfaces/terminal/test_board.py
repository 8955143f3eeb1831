"""The task board: order, owners, dependencies, and the view of a whole task."""

from collections.abc import Sequence

import pytest
from tui_parts import EVIL, Host, make_view, screen_text, side_host, task, until

from teamwright.core.data.tasks import Task
from teamwright.runtime.port import Crew
from teamwright.surfaces.terminal.widgets.board import MOST_DONE, in_order, summary_of

TASKS = (
    task(1, "Parse the file", "completed", "ada"),
    task(2, "Write tests", "in_progress", "bert"),
    task(3, "Document it", "pending", None, 2),
    task(4, "Release", "pending", None, 2, 3),
    task(5, "Lint"),
)


def board(tasks: Sequence[Task]) -> Host:
    return side_host(make_view(), "tasks", Crew(tasks=tuple(tasks)))


def test_what_is_at_work_comes_first_and_what_is_done_last() -> None:
    assert [t.id for t in in_order(TASKS)] == [2, 5, 3, 4, 1]
    assert summary_of(TASKS) == "1 of 5 done · 1 in progress · 1 open · 2 blocked"
    assert summary_of(()) == "no tasks"


def test_of_many_that_are_done_only_the_newest_are_listed() -> None:
    shown = in_order([task(n, "x", "completed", "ada") for n in range(1, MOST_DONE + 51)] + [task(9_999, "open")])
    assert len(shown) == MOST_DONE + 1 and shown[0].id == 9_999 and shown[1].id == 51


@pytest.mark.anyio
@pytest.mark.parametrize("width", [60, 140])
async def test_owners_and_dependencies_are_seen(width: int) -> None:
    host = board(TASKS)
    async with host.run_test(size=(width, 20)) as pilot:
        await until(pilot, lambda: "#4 Release" in screen_text(host))
        lines = screen_text(host).splitlines()
        assert any("◐ #2 Write tests" in line and line.endswith("bert") for line in lines)
        assert any("◇ #4 Release" in line and line.endswith("waits for #2, #3") for line in lines)
        assert any("✓ #1" in line and line.endswith("ada") for line in lines)


@pytest.mark.anyio
async def test_enter_shows_a_task_whole_and_escape_folds_it() -> None:
    host = board(TASKS)
    async with host.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "#4 Release" in screen_text(host))
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: "All about Document it." in screen_text(host))
        assert "waits for: #2" in screen_text(host)
        await pilot.press("escape")
        await until(pilot, lambda: "All about Document it." not in screen_text(host))


@pytest.mark.anyio
async def test_what_it_waits_for_is_never_cut_off() -> None:
    host = board([task(7, "long " * 60, "pending", None, 1, 2)])
    async with host.run_test(size=(60, 20)) as pilot:
        await until(pilot, lambda: "waits for #1, #2" in screen_text(host))


@pytest.mark.anyio
@pytest.mark.spec("A12")
async def test_hostile_subjects_are_written_out() -> None:
    host = board([task(1, EVIL, "in_progress", EVIL)])
    async with host.run_test(size=(200, 20)) as pilot:
        await until(pilot, lambda: "\\x1b[31mred" in screen_text(host))
        await pilot.press("enter")
        await until(pilot, lambda: "owner: \\x1b" in screen_text(host))
        assert "\u202e" not in screen_text(host) and "[bold]x[/bold]" in screen_text(host)
