"""The status line: what runs in the background, how full the window is, and what the session has cost in all."""

from typing import Any

import anyio
import pytest
from stage import staged
from tui_parts import MAIN, make_view

from crew import LIMIT, agent, stage
from teamwright.core.data.message import Usage
from teamwright.core.ids import AgentId
from teamwright.models.scripted import call
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.port import SessionFacts
from teamwright.store.files.paths import home_from
from teamwright.store.tables.state import StateStore
from teamwright.surfaces.terminal.render.themes import DARK
from teamwright.surfaces.terminal.widgets.status import right_side, running
from teamwright.surfaces.view.shapes import AgentView
from teamwright.surfaces.view.view import SessionFold

pytestmark = pytest.mark.anyio
SLOW = {"text": "slow " * 5_000, "pace": 100}


def said(facts: SessionFacts, room: int = 200) -> str:
    return "".join(text for text, _ in right_side(facts, "", "", DARK, room)).strip()


@pytest.mark.spec("SE2")
@pytest.mark.parametrize(
    ("window", "room", "words"),
    [(24_600, 200_000, "12 % of 200k"), (1_500, 0, "1.5k context"), (900_000, 1_048_576, "85 % of 1.05M")],
)
def test_the_share_of_the_window_is_told_where_it_is_known(window: int, room: int, words: str) -> None:
    assert said(SessionFacts("m", "default", "/", window=window, room=room)) == f"ask · m · {words}"


@pytest.mark.spec("SE2")
def test_a_window_that_is_nearly_full_has_another_colour() -> None:
    full = SessionFacts("m", "default", "/", window=80, room=100)
    assert ("80 % of 0.1k", DARK.warn) in right_side(full, "", "", DARK, 99)
    assert said(SessionFacts("m", "default", "/")) == "ask · m"


@pytest.mark.spec("SE2")
def test_what_runs_is_counted_by_kind_and_teammates_are_agents() -> None:
    facts = SessionFacts("m", "default", "/", jobs={"monitor": 1, "shell": 2, "agent": 1})
    nobody = SessionFold(MAIN)
    assert running(facts, AgentView(MAIN, "main"), nobody) == "1 agent, 2 commands, 1 monitor"
    assert running(SessionFacts("m", "default", "/"), AgentView(MAIN, "main"), nobody) == ""
    team = make_view()  # ada works, bert is idle
    assert running(SessionFacts("m", "default", "/"), AgentView(MAIN, "main"), team) == "1 agent"
    assert running(SessionFacts("m", "default", "/"), team.agents[AgentId("a1")], team) == ""


@pytest.mark.spec("SE2")
async def test_a_command_in_the_background_is_in_the_status_line_until_it_ends(walker: Any) -> None:
    gate = walker.project / "gate"
    command = f"until [ -e {gate} ]; do sleep 0.02; done"
    begin = [call("Bash", command=command, description="wait for the gate", run_in_background=True)]
    async with staged(walker, [begin, SLOW, "I see."], prompt="go", allowed_tools=["Bash"]) as stage:
        await stage.shows("slow slow")
        assert "1 command · ask" in stage.screen.split("\n")[-1]
        await stage.press("escape")
        await stage.shows("1 command running  /jobs shows more")
        gate.touch()
        await stage.shows('Command "wait for the gate" completed (exit code 0) ·')
        await stage.gone("1 command running")


@pytest.mark.spec("SE2", "Y3")
async def test_the_key_that_moves_an_agent_to_the_background_is_told_while_it_is_waited_for(walker: Any) -> None:
    gate = anyio.Event()

    async def held() -> str:
        with anyio.fail_after(LIMIT):
            await gate.wait()
        return "looked"

    scripts = {"main": [agent("child"), "goes on", "heard"], "child": [lambda _: held()]}
    async with staged(walker, stage(scripts), prompt="go") as app:
        await app.shows("Ctrl+B: to the background · ask")
        await app.press("ctrl+b")
        await app.gone("Ctrl+B")
        await app.shows("1 agent running")
        gate.set()
        await app.shows("heard")
        assert "Ctrl+B" not in app.screen


@pytest.mark.spec("SE2")
async def test_the_cost_goes_on_after_a_resume(walker: Any) -> None:
    walk = await walker.walk(["hello"])
    id, home = walk.session.id, home_from(walker.env)
    state = await StateStore.open(home.state)
    row = await state.open_call(id, AgentId(id), "m", 10)
    state.settle_soon(row, Usage(10, 10), 0.42, 5, "ok")
    await state.close()
    async with staged(walker, ["again"], origin=Origin(id)) as stage:
        await stage.shows("$0.42")
        assert stage.session.meter.usd == 0


@pytest.mark.spec("V1")
@pytest.mark.parametrize(
    ("tier", "words"),
    [
        ("bwrap", "ask · sandbox bwrap · m"),
        ("landlock", "ask · sandbox landlock (no network) · m"),
        ("none", "ask · SANDBOX NONE: every command asks · m"),
        ("", "ask · m"),
    ],
)
def test_the_sandbox_is_told(tier: str, words: str) -> None:
    assert said(SessionFacts("m", "default", "/", sandbox=tier)) == words
