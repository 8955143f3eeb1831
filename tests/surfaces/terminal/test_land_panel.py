"""The landing queue in the app: order, reasons, details of a branch, and what other processes do."""

from typing import Any

import pytest
from msgspec.structs import replace
from stage import staged
from tui_parts import EVIL, Host, make_view, screen_text, side_host, until

from landing_kit import branch
from teamwright.core.data.landing import LandDraft, LandEntry, LandId, LandState
from teamwright.host.git.run import locate
from teamwright.runtime.landing.queueing import queue_branch
from teamwright.runtime.port import Crew
from teamwright.store.tables.landing import LandTable
from teamwright.store.tables.state import StateStore
from teamwright.surfaces.terminal.widgets.land_panel import in_order, summary_of
from worktree_kit import new_repo

pytestmark = [pytest.mark.anyio, pytest.mark.spec("LQ14")]


def entry(id: int, name: str, state: LandState = "waiting", reason: str = "", priority: int = 0) -> LandEntry:
    draft = LandDraft("/r", "main", name, "1" * 40, "0" * 40, owner="ada", list="crew", task=7, priority=priority)
    return LandEntry(LandId(id), draft, state, reason, "2" * 40 if state == "landed" else "", 1, 1_000, 3_500 + id)


ENTRIES = (
    entry(1, "first", "landed"),
    entry(2, "second", "sent_back", "the check failed (exit code 1)"),
    entry(3, "third"),
    entry(4, "fourth", "trying"),
    entry(5, "fifth", priority=2),
)


def panel(entries: tuple[LandEntry, ...]) -> Host:
    return side_host(make_view(), "landing", Crew(landing=entries))


def test_what_is_open_comes_first() -> None:
    assert [one.id for one in in_order(ENTRIES)] == [4, 5, 3, 2, 1]
    assert summary_of(ENTRIES) == "1 trying · 2 waiting · 1 sent back · 1 landed"


@pytest.mark.parametrize("width", [60, 140])
async def test_each_is_one_line_with_its_reason(width: int) -> None:
    host = panel(ENTRIES)
    async with host.run_test(size=(width, 20)) as pilot:
        await until(pilot, lambda: "first" in screen_text(host))
        lines = screen_text(host).splitlines()
        assert any("✗ second" in line and "the check failed" in line and line.endswith("ada") for line in lines)
        assert any("✓ first" in line for line in lines) and any("◐ fourth" in line for line in lines)
        await pilot.press("enter")
        await until(pilot, lambda: "trying since" in screen_text(host))
        assert "onto: main" in screen_text(host) and "ready at 111111111111" in screen_text(host)


async def test_what_others_wrote_moves_nothing() -> None:
    evil = entry(1, "x", "sent_back", EVIL)
    host = panel((replace(evil, draft=replace(evil.draft, branch=EVIL, owner=EVIL)),))
    async with host.run_test(size=(100, 20)) as pilot:
        await until(pilot, lambda: "1 sent back" in screen_text(host))
        await pilot.press("enter")
        assert "\x1b" not in screen_text(host)


async def test_what_another_process_queues_is_seen(walker: Any) -> None:
    walker.project.rmdir()
    repo = new_repo(walker.project)
    branch(repo, "feature", {"a.txt": "a"})
    async with staged(walker, size=(110, 30)) as stage:
        await stage.say("/land")
        await stage.shows("nothing is in the landing queue")
        state = await StateStore.open(walker.home / ".teamwright" / "state.db")
        draft = LandDraft("", "main", "feature", "", "")
        await queue_branch(LandTable(state.database), await locate(repo), draft)
        await state.close()
        await stage.shows("○ feature")
