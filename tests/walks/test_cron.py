"""An agent that schedules its own prompts."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from conftest import Walker
from crew import LIMIT, agent, crew, results
from teamwright.core.data.event import LettersTaken, TurnEnded
from teamwright.core.data.message import Request
from teamwright.models.scripted import call
from teamwright.runtime.agents.resume import Origin
from teamwright.store.tables.schedules import ScheduleTable
from teamwright.store.tables.state import StateStore

pytestmark = pytest.mark.anyio
FAR = "0 0 1 1 *"


def soon(_: Request) -> Any:
    moment = datetime.now(UTC) + timedelta(seconds=0.4)
    return call("CronCreate", at=moment.isoformat(), prompt="water the plants")


def last_result(request: Request) -> str:
    return results(request.messages[-1])[0][0]


@pytest.mark.spec("Q1", "Q2", "G2")
@pytest.mark.parametrize("mode", ["assistant", "proactive"])
async def test_a_program_that_stays_is_given_its_prompt_when_it_is_due(walker: Walker, mode: str) -> None:
    async with crew(walker, {"main": [soon, "scheduled", "watered"]}, **{mode: True}) as team:
        end = await team.play()
        assert end.text == "watered"
        assert not team.session.schedules.rows
        made, due = team.model.requests[1], team.model.requests[2]
    assert "The program stays open for it." in last_result(made)
    assert re.match(r'<scheduled-prompt id="s\w{8}" due="[^"]+">\nwater the plants\n</', due.messages[-1].text)


@pytest.mark.spec("Q1")
async def test_a_program_that_does_not_stay_says_so_and_ends(walker: Walker) -> None:
    async with crew(walker, {"main": [call("CronCreate", cron=FAR, prompt="new year"), "done"]}) as team:
        await team.play()  # returns although something is still to come
        assert "the session is not kept open for it" in last_result(team.model.requests[1])
        assert [row.prompt for row in team.session.schedules.rows] == ["new year"]


@pytest.mark.spec("Q1", "Q5")
async def test_what_was_due_meanwhile_comes_at_the_resume(walker: Walker) -> None:
    script = {"main": [call("CronCreate", cron=FAR, prompt="new year"), "done"]}
    async with crew(walker, script) as team:
        await team.play()
        (row,) = team.session.schedules.rows
        id = team.session.id
    state = await StateStore.open(walker.home / ".teamwright/state.db")
    past = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
    await ScheduleTable(state.database).move(row.id, row.next, past)  # as if a year had gone by
    await state.close()
    for many in (1, 0):  # a second resume has nothing more to tell
        async with crew(walker, ["happy new year"] * 2, origin=Origin(id)) as team:
            with anyio.fail_after(LIMIT):
                await team.session.idle()
            assert len(team.model.requests) == many
            assert [r.next for r in team.session.schedules.rows] == [row.next]
            if many:
                assert "It comes late" in team.model.requests[0].messages[-1].text
    assert sum(isinstance(r.event, TurnEnded) for r in team.records) == 0


@pytest.mark.spec("Q1")
async def test_listing_and_deleting(walker: Walker) -> None:
    def delete(request: Request) -> Any:
        found = re.search(r"Scheduled as (s\w+)", last_result(request))
        assert found
        return call("CronDelete", id=found[1])

    steps = [
        call("CronCreate", cron=FAR, prompt="a\x1b[31m b"),
        delete,
        call("CronList"),
        call("CronDelete", id="s0"),
        "ok",
    ]
    async with crew(walker, {"main": [call("CronCreate", cron="5 4 * * 0", prompt="sundays"), *steps]}) as team:
        await team.play()
        texts = [results(request.messages[-1])[0] for request in team.model.requests[1:]]
        (row,) = team.session.schedules.rows
    assert texts[2] == (f"The schedule {texts[1][0].split()[2].strip(',')} is gone.", False)
    assert re.match(rf"{row.id}  \S+T04:05:00\S+  5 4 \* \* 0  sundays\nIt is \S+ now\.", texts[3][0])
    assert texts[4] == (f"There is no schedule 's0'. There are: {row.id}.", True)


async def test_others_than_the_main_agent_have_none(walker: Walker) -> None:
    scripts = {"main": [agent("child"), "done"], "child": [call("CronCreate", cron=FAR, prompt="x"), "tried"]}
    async with crew(walker, scripts) as team:
        await team.play()
        child = team.requests("child")
        assert "CronCreate" in {spec.name for spec in team.requests()[0].tools}
        assert not any(spec.name.startswith("Cron") for spec in child[0].tools)
        assert "There is no tool `CronCreate`" in last_result(child[1])


async def test_a_fork_sees_the_tools_and_is_told_that_they_are_not_its_own(walker: Walker) -> None:
    fork = call("Agent", description="d", prompt="SCRIPT:forked")
    scripts = {"main": [fork, "waiting", "done"], "forked": ["", call("CronCreate", cron=FAR, prompt="x"), "tried"]}
    async with crew(walker, scripts, fork=True) as team:
        await team.play()
        assert "Only the main agent has schedules" in last_result(team.requests("forked")[1])
        assert not team.session.schedules.rows


@pytest.mark.spec("Q1")
async def test_a_letter_of_a_schedule_is_in_the_transcript_under_its_own_id(walker: Walker) -> None:
    async with crew(walker, {"main": [soon, "ok", "done"]}, assistant=True) as team:
        await team.play()
    taken = [id for event in team.of(LettersTaken) for id in event.letters]
    assert sum(id.startswith("c-s") for id in taken) == 1
