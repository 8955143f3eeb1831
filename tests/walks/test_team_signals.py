"""What a lead is told about its team, what wakes it, and what it is spared."""

import json
import re
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from team_steps import create, inbox, mate, say, scene, shutdown, state_of, task, texts, until, update

from conftest import Walker
from crew import LIMIT, Crew, after, crew, ended_calls
from place_kit import FREE
from place_kit import mate as a_mate
from place_kit import say as tell
from program import Program
from program import tool as tool_call
from teamwright.core.data.event import TurnEnded
from teamwright.core.data.message import Request
from teamwright.models.scripted import call
from teamwright.runtime.agents.resume import Origin


def of_lead(play: Crew) -> list[Request]:
    return [r for r in play.model.requests if not r.messages[0].text.startswith("<teammate-message ")]


def of_mate(play: Crew, name: str) -> list[Request]:
    return [r for r in play.model.requests if f"\nSCRIPT:{name}\n" in r.messages[0].text]


def once_idle(state: Callable[[], str], step: Any) -> Any:
    async def play(_: Request) -> Any:
        await until(lambda: state() == "idle")
        return step

    return play


def records(request: Request, kind: str = "idle_notification") -> list[dict[str, Any]]:
    """Records of one kind in a conversation, in order."""
    found = re.findall(r"<teammate-message [^>]*>\n(\{.*)", texts(request))
    return [body for line in found for body in [json.loads(line)] if body["type"] == kind]


@pytest.mark.anyio
@pytest.mark.spec("L1")
async def test_the_last_words_of_one_that_wrote_to_the_lead_start_no_turn(walker: Walker) -> None:
    """The message wakes the lead; the notice comes with the next delivery."""
    scripts = {
        "main": [create(), mate("ada"), "on"],
        "ada": [say("team-lead", "#1 is done: ab4d95c"), "I told the lead."],
        "more": ["on"],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
        before = len(of_lead(play))
        told = records(of_lead(play)[-1])
        await play.play("SCRIPT:more")
    assert before == 4 and not told
    assert records(of_lead(play)[-1]) == [
        {"type": "idle_notification", "idleReason": "available", "lastMessage": "I told the lead."}
    ]


@pytest.mark.anyio
@pytest.mark.spec("L1", "K5")
async def test_a_completion_that_the_lead_was_told_of_wakes_it_once(walker: Walker) -> None:
    scripts = {
        "main": [create(), task("a", "x"), mate("ada"), "on"],
        "ada": [[update("1", status="completed", owner="ada"), say("team-lead", "#1 is done")], "The lead knows."],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
    woken = of_lead(play)[4:]
    assert len(woken) == 1 and "#1 is done" in texts(woken[0]) and not records(woken[0])


@pytest.mark.anyio
@pytest.mark.spec("L1", "Q6", "T12")
async def test_reports_wait_until_nobody_works_and_cost_one_request(walker: Walker) -> None:
    """Both members report by their last words alone."""
    scripts = {
        "main": [create(), task("a", "x"), [mate("ada"), mate("ben")], "on"],
        "ada": [once_idle(lambda: state_of(play, "ben"), "and the docs are")],
        "ben": [update("1", status="completed", owner="ben"), "the code is done"],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
    woken = of_lead(play)[4:]
    assert len(woken) == 1
    assert [record["lastMessage"] for record in records(woken[0])] == ["the code is done", "and the docs are"]


@pytest.mark.anyio
@pytest.mark.spec("L1")
@pytest.mark.parametrize(("words", "woken"), [("I told cleo.", 0), ("May I drop the table?", 1)])
async def test_words_after_a_peers_message_wake_the_lead_only_if_they_ask(
    walker: Walker, words: str, woken: int
) -> None:
    async def slowly(_: Request) -> Any:
        await until(lambda: play.session.main.resting and "pinged" in texts(of_lead(play)[-1]))
        return words

    scripts = {
        "main": [create(), [mate("ada"), mate("ben")], "on"],
        "ada": [say("team-lead", "ready"), "on", slowly],
        "ben": [once_idle(lambda: state_of(play, "ada"), [say("ada", "ping"), say("team-lead", "pinged")]), "on"],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
    told = [record.get("lastMessage") for record in records(of_lead(play)[-1])]
    assert (words in told) == bool(woken)


@pytest.mark.anyio
@pytest.mark.spec("L1", "K5")
async def test_all_tasks_that_were_finished_are_named(walker: Walker) -> None:
    done = [update(n, status="completed", owner="ada") for n in ("1", "2")]
    scripts = {"main": [create(), [task("a", "x"), task("b", "y")], mate("ada"), "on"], "ada": [done, "both are done"]}
    async with crew(walker, scene(scripts)) as play:
        await play.play()
    (notice,) = records(of_lead(play)[-1])
    assert notice["completedTaskId"] == "1, 2" and notice["lastMessage"] == "both are done"


@pytest.mark.anyio
@pytest.mark.spec("L1", "K5")
async def test_a_notice_says_which_task_comes_next(walker: Walker) -> None:
    """The lead must not assign work to one that has just taken some."""
    scripts = {
        "main": [create(), [task("a", "x"), task("b", "SCRIPT:b")], mate("ada"), "on"],
        "ada": [update("1", status="completed", owner="ada"), "a is done"],
        "b": [update("2", status="completed"), "b is done"],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
    told = [json.loads(entry["text"]) for entry in inbox(walker, "team-lead") if "idle_notification" in entry["text"]]
    assert [(record["completedTaskId"], record.get("summary")) for record in told] == [
        ("1", "takes task #2 next"),
        ("2", None),
    ]


@pytest.mark.anyio
@pytest.mark.spec("L1")
async def test_one_that_works_again_is_not_called_available(walker: Walker) -> None:
    """A notice without news that is outdated when the lead reads it is not shown."""
    asked, go = anyio.Event(), anyio.Event()

    async def again(request: Request) -> Any:
        asked.set()
        return await after(go, "done")(request)

    scripts = {
        "main": [create(), mate("ada"), "on", "on"],
        "ada": [say("team-lead", "first"), "I told the lead."],
        "again": [again],
        "more": [after(asked, "on"), "on"],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
        await (await play.session.team("crew")).send("ada", "SCRIPT:again")
        with anyio.fail_after(LIMIT):
            await asked.wait()
        await play.say("SCRIPT:more")
        await play.until(TurnEnded)
        shown = records(of_lead(play)[-1])
        go.set()
        with anyio.fail_after(LIMIT):
            await play.session.idle()
    assert shown == [] and [r["lastMessage"] for r in records(of_lead(play)[-1])] == ["done"]


@pytest.mark.anyio
@pytest.mark.spec("H1", "L1")
async def test_a_teammate_is_told_how_to_answer_and_may_spell_the_id_either_way(walker: Walker) -> None:
    answer = call(
        "SendMessage",
        to="team-lead",
        message={"type": "shutdown_response", "requestId": r"{{re:request_id\W+([\w-]+)}}", "approve": True},
    )
    scripts = {"main": [create(), mate("ada"), "on"], "ada": ["ready", answer], "ask": [shutdown("ada"), "on"]}
    async with crew(walker, scene(scripts)) as play:
        await play.play()
        await play.play("SCRIPT:ask")
    (asked,) = records(of_mate(play, "ada")[-1], "shutdown_request")
    hint = f'{{"type":"shutdown_response","request_id":"{asked["request_id"]}","approve":true}}'
    assert hint in texts(of_mate(play, "ada")[-1])
    (gone,) = records(of_lead(play)[-1], "shutdown_approved")
    assert gone == {"type": "shutdown_approved", "request_id": asked["request_id"]}


@pytest.mark.anyio
@pytest.mark.spec("C2", "B8")
async def test_list_agents_has_each_once_and_what_runs_in_the_background(walker: Walker) -> None:
    work = call("Bash", command="sleep 60", description="the work", run_in_background=True)
    stop = call("TaskStop", task_id=r"{{re:(b\w{16})}}")
    scripts = {"main": [create(), mate("ada"), work, call("ListAgents"), stop, "on"], "ada": ["ready"]}
    async with crew(walker, scene(scripts)) as play:
        await play.play()
        session = play.session.id
    listed = next(e.data for e in ended_calls(play) if e.data and "agents" in e.data)
    assert [(j["type"], j["description"], j["status"]) for j in listed["jobs"]] == [
        ("background command", "the work", "running")
    ]
    async with crew(walker, scene({"again": [call("ListAgents"), "on"]}), origin=Origin(resume=session)) as play:
        await play.play("SCRIPT:again")
    rows = next(e.data for e in ended_calls(play) if e.data and "agents" in e.data)["agents"]
    assert [row["name"] for row in rows] == ["team-lead", "ada"]


@pytest.mark.spec("Q3", "T12", "L1")
def test_the_last_line_of_a_run_is_a_result_though_its_team_went_idle_after_the_answer(program: Program) -> None:
    script = {
        "main": [tool_call("TeamCreate", team_name="crew", description="x"), a_mate("ada"), "waiting", "the answer"],
        "ada": [tell("team-lead", "report"), "end"],
    }
    ran = program.prompt(script, FREE)
    assert ran.rc == 0 and ran.lines[-1]["type"] == "result" and ran.lines[-1]["result"] == "the answer"
    assert [line["result"] for line in ran.lines if line["type"] == "result"][:2] == ["waiting", "the answer"]
