"""The panel of agents: a tree with state, activity, tokens, money and time; opening, stopping, switching."""

import pytest
from tui_parts import EVIL, MAIN, NOW, Host, add, ask, make_view, question, screen_text, side_host, until

from teamwright.core.data.event import AgentEnded, Record
from teamwright.core.ids import AgentId
from teamwright.surfaces.terminal.messages import Background, OpenAgent, StopAgent, StopEverything
from teamwright.surfaces.terminal.render.themes import DARK
from teamwright.surfaces.terminal.widgets.agents_panel import (
    MOST_ENDED,
    AgentsPanel,
    agent_row,
    neighbour,
    tree_of,
    why,
)
from teamwright.surfaces.terminal.widgets.side import Side
from teamwright.surfaces.view.text import duration

BUDGET = "$1.20 of $5.00"


def test_children_stand_below_whoever_started_them() -> None:
    shown = [(prefix, agent.name) for agent, prefix in tree_of(make_view())]
    assert shown == [("", "main"), ("├ ", "ada"), ("├ ", "bert"), ("└ ", "Explore"), ("  └ ", "reader")]


def test_of_many_that_have_ended_only_the_newest_stay() -> None:
    view = make_view()
    for n in range(MOST_ENDED + 20):
        add(view, f"e{n}", f"ended-{n}", MAIN)
        view.apply(Record(AgentId(f"e{n}"), 2, NOW + n, AgentEnded("completed")))
    names = [agent.name for agent, _ in tree_of(view)]
    assert "ended-0" not in names and f"ended-{MOST_ENDED + 19}" in names
    assert {"main", "ada", "bert", "Explore", "reader"} <= set(names)


def test_a_living_agent_keeps_its_ended_parent_in_the_tree() -> None:
    view = make_view()
    view.apply(Record(AgentId("a3"), 2, NOW - 1_000_000, AgentEnded("completed")))
    for n in range(MOST_ENDED + 5):
        add(view, f"e{n}", f"ended-{n}", MAIN)
        view.apply(Record(AgentId(f"e{n}"), 2, NOW + n, AgentEnded("completed")))
    shown = {agent.name: prefix for agent, prefix in tree_of(view)}
    assert "Explore" in shown and shown["reader"].endswith("└ ") and len(shown["reader"]) > len(shown["Explore"])


def test_a_circle_of_parents_ends() -> None:
    view = make_view()
    view.agents[AgentId("a3")].parent = AgentId("a4")
    names = [agent.name for agent, _ in tree_of(view)]
    assert names[0] == "main" and len(names) == len(set(names))


@pytest.mark.parametrize("ms", [700_000, 3_599_000, 40_000_000, 360_000_000])
def test_money_and_a_long_time_stand_apart(ms: int) -> None:
    agent = make_view().agents[AgentId("a1")]
    agent.tokens, agent.usd = 123_456_789, 12_345.67
    shown = agent_row(agent, "", 90, DARK, agent.started + ms, here=False).plain
    assert shown.split("  ")[-1].endswith(f"123.5M $12345.67 {duration(ms)}") and len(shown) == 90


@pytest.mark.spec("T7")
def test_switching_goes_round_through_the_tree() -> None:
    view = make_view()
    assert neighbour(view, MAIN, 1) == "a1" and neighbour(view, MAIN, -1) == "a4"
    assert neighbour(view, AgentId("a4"), 1) == MAIN and neighbour(view, AgentId("gone"), 1) == MAIN


@pytest.mark.spec("O7")
def test_why_names_what_is_waited_for() -> None:
    view = make_view()
    assert "a message or a task" in why(view.agents[AgentId("a2")], NOW)
    view.apply(Record(AgentId("a3"), 2, NOW, AgentEnded("failed", error="no network")))
    assert "no network" in why(view.agents[AgentId("a3")], NOW)


@pytest.mark.anyio
@pytest.mark.spec("B5", "T7")
@pytest.mark.parametrize("width", [60, 100, 200])
async def test_state_doing_tokens_and_reasons_are_seen(width: int) -> None:
    view = make_view()
    ask(view, question("q1", agent="a3", name="Explore", command="make all"))
    host = side_host(view, "agents", budget=BUDGET)
    async with host.run_test(size=(width, 24)) as pilot:
        await until(pilot, lambda: "budget left: $1.20 of $5.00" in screen_text(host))
        text = screen_text(host)
        assert "● ada  Bash pytest -q tests/parser" in text and "12.3k" in text
        assert "○ bert" in text and "◐ Explore  waits for your answer: Bash make all" in text
        assert ("$0.42" in text) == (width >= 100)
        assert all(len(line) <= width for line in text.splitlines())
        await pilot.press("down")
        await until(pilot, lambda: "12.3k tokens · $0.42 · " in screen_text(host))


@pytest.mark.anyio
@pytest.mark.spec("T7", "Y3")
async def test_keys_open_stop_and_send_to_the_background() -> None:
    view = make_view()
    host = side_host(view, "agents", budget=BUDGET)
    async with host.run_test(size=(100, 24)) as pilot:
        await until(pilot, lambda: "ada" in screen_text(host))
        await pilot.press("down", "x", "X", "b")
        await until(pilot, lambda: len(host.heard) == 3)
        stop, everything, background = host.heard
        assert isinstance(stop, StopAgent) and stop.agent == "a1"
        assert isinstance(everything, StopEverything) and isinstance(background, Background)
        await pilot.press("enter")
        await until(pilot, lambda: len(host.heard) == 4)
        opened = host.heard[-1]
        assert isinstance(opened, OpenAgent) and opened.agent == "a1"


@pytest.mark.anyio
async def test_one_that_has_ended_is_not_stopped() -> None:
    view = make_view()
    view.apply(Record(AgentId("a1"), 2, NOW, AgentEnded("completed")))
    host = Host(lambda: AgentsPanel(view))
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "✓ ada" in screen_text(host))
        await pilot.press("tab", "down", "x", "X")
        await until(pilot, lambda: host.heard)
        assert [type(message) for message in host.heard] == [StopEverything]


@pytest.mark.anyio
async def test_the_mouse_opens_an_agent() -> None:
    host = Host(lambda: AgentsPanel(make_view()))
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "ada" in screen_text(host))
        await pilot.click(offset=(8, 1))
        await until(pilot, lambda: host.heard)
        assert isinstance(host.heard[0], OpenAgent) and host.heard[0].agent == "a1"


@pytest.mark.anyio
async def test_the_choice_stays_on_the_same_agent_when_others_come() -> None:
    view = make_view()
    panel = AgentsPanel(view)
    host = Host(lambda: panel)
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "bert" in screen_text(host))
        await pilot.press("tab", "down", "down")
        add(view, "b9", "new", "a1")
        panel.draw()
        await until(pilot, lambda: "new" in screen_text(host))
        await pilot.press("enter")
        await until(pilot, lambda: host.heard)
        assert isinstance(host.heard[0], OpenAgent) and host.heard[0].agent == "a2"


@pytest.mark.anyio
@pytest.mark.spec("A12")
async def test_hostile_names_and_doings_are_written_out() -> None:
    view = make_view()
    add(view, "x", EVIL, MAIN).doing = EVIL
    host = Host(lambda: AgentsPanel(view))
    async with host.run_test(size=(160, 24)) as pilot:
        await until(pilot, lambda: "\\x1b[31mred" in screen_text(host))
        text = screen_text(host)
        assert "\\u202eevil" in text and "[bold]x[/bold]" in text
        assert not any(ord(c) < 32 and c != "\n" for c in text) and "\u202e" not in text


@pytest.mark.anyio
async def test_escape_in_the_side_closes_it() -> None:
    host = side_host(make_view(), "agents", budget=BUDGET)
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "ada" in screen_text(host))
        await pilot.press("escape")
        await until(pilot, lambda: [type(message) for message in host.heard] == [Side.Closed])
