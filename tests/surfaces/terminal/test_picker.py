"""The session picker: search, filters, choice; other directories; damaged sessions cannot be chosen."""

import pytest
from tui_parts import Host, screen_text, until

from conftest import Walker
from crew import stage
from teamwright.app import open_session
from teamwright.runtime.agents.resume import Origin
from teamwright.store.files.paths import home_from
from teamwright.surfaces.terminal.dialogs.picker import SessionPicker


async def lead(walker: Walker, session: str) -> None:
    """A team of one, with two tasks."""
    options = walker.options(stage({"main": [], "ada": ["Ready."]}), origin=Origin(session))
    async with await open_session(options) as led:
        team = await led.team("site")
        await team.spawn("ada", "SCRIPT:ada")
        await team.add_task("Write it", blocked_by=[(await team.add_task("Plan it")).id])
        led.hurry()


@pytest.mark.anyio
@pytest.mark.parametrize("width", [60, 120])
async def test_a_session_is_found_and_chosen(walker: Walker, width: int) -> None:
    first = (await walker.walk(["done"], ["write the parser"])).session.id
    await lead(walker, first)
    second = (await walker.walk(["done"], ["fix the \x1b[31mlexer"])).session.id
    home = home_from(walker.env)
    host = Host(lambda: SessionPicker(home, walker.project))
    async with host.run_test(size=(width, 24)) as pilot:
        await until(pilot, lambda: "team site (ada, 2 open tasks)" in screen_text(host))
        text = screen_text(host)
        assert "2 of 2 sessions" in text and text.index("fix the \\x1b[31mlexer") < text.index("team site")
        assert width < 100 or "write the parser" in text
        assert second[:8] in text
        await pilot.press(*"parser")
        await until(pilot, lambda: "1 of 2 sessions" in screen_text(host))
        await pilot.press("enter")
        await until(pilot, lambda: host.results)
        assert host.results == [first]


@pytest.mark.anyio
@pytest.mark.spec("CL4")
async def test_a_session_in_which_nothing_was_said_is_neither_listed_nor_continued(walker: Walker) -> None:
    real = (await walker.walk(["done", "more"], ["fix it"])).session.id
    async with await open_session(walker.options(stage({"main": []}))) as opened:
        assert opened.id != real  # and nothing is said in it
    host = Host(lambda: SessionPicker(home_from(walker.env), walker.project))
    async with host.run_test(size=(120, 24)) as pilot:
        await until(pilot, lambda: "1 of 1 sessions" in screen_text(host))
        await pilot.press("enter")
        await until(pilot, lambda: host.results)
        assert host.results == [real]
    async with await open_session(walker.options(stage({"main": []}), origin=Origin(last=True))) as last:
        assert last.id == real


@pytest.mark.anyio
async def test_the_open_one_is_left_out_and_other_directories_are_a_key_away(walker: Walker) -> None:
    here = (await walker.walk(["done"], ["one"])).session.id
    elsewhere = walker.project.parent / "other"
    elsewhere.mkdir()
    other = (await walker.walk(["done"], ["two"], cwd=elsewhere)).session.id
    host = Host(lambda: SessionPicker(home_from(walker.env), walker.project, here=here))
    async with host.run_test(size=(120, 24)) as pilot:
        await until(pilot, lambda: "no other sessions" in screen_text(host))
        await pilot.press("enter", "ctrl+a")
        await until(pilot, lambda: "1 of 1 sessions, everywhere" in screen_text(host))
        await pilot.press("enter")
        await until(pilot, lambda: host.results)
        assert host.results == [other]


@pytest.mark.anyio
async def test_a_damaged_session_is_shown_but_not_taken(walker: Walker) -> None:
    session = (await walker.walk(["done"], ["one"])).session
    home = home_from(walker.env)
    path = home.transcript(walker.project, session.id)
    path.write_text('{"broken\n' + path.read_text())
    host = Host(lambda: SessionPicker(home, walker.project))
    async with host.run_test(size=(120, 24)) as pilot:
        await until(pilot, lambda: "damaged" in screen_text(host))
        await pilot.press("enter", "escape")
        await until(pilot, lambda: host.results)
        assert host.results == [None]


@pytest.mark.anyio
async def test_what_is_read_after_the_list_was_closed_is_not_drawn(walker: Walker) -> None:
    pickers: list[SessionPicker] = []

    def opened() -> SessionPicker:
        pickers.append(SessionPicker(home_from(walker.env), walker.project))
        return pickers[0]

    host = Host(opened)
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "no other sessions" in screen_text(host))
        await pilot.press("escape")
        await until(pilot, lambda: host.results)
        await until(pilot, lambda: not pickers[0].is_whole)
        pickers[0]._draw()  # as a thread that reads the list does when it is ready
    assert host.results == [None]


def words(host: Host) -> str:
    """The screen without the breaks of its lines."""
    return " ".join(screen_text(host).replace("│", " ").split())


@pytest.mark.anyio
@pytest.mark.spec("X7")
async def test_a_store_that_is_set_aside_is_told_there(walker: Walker) -> None:
    await walker.walk(["done"], ["one"])
    home = home_from(walker.env)
    home.state.write_bytes(b"damaged" * 1_000)
    host = Host(lambda: SessionPicker(home, walker.project))
    async with host.run_test(size=(120, 24)) as pilot:
        await until(pilot, lambda: "was damaged and is now" in words(host))
        await pilot.press("ctrl+a")
        await until(pilot, lambda: "1 of 1 sessions, everywhere" in words(host))
        assert "state.db.corrupt-" in words(host)
