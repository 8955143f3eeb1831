"""Turns whose end was not recorded: what had ended stays ended, and no request ends with an agent's own words."""

import json
import sqlite3
from collections.abc import Callable

import pytest
from team_steps import answer_plan, create, home, mate, parts, say, scene, state_of, texts

from conftest import Walker
from crew import Crew, bash, check_valid, crew
from teamwright.core.data.conversation.history import CUT
from teamwright.core.data.event import Event, Replied, ToolEnded
from teamwright.core.data.message import Text
from teamwright.core.ids import AgentId, line_uuid
from teamwright.models.script import ScriptStep
from teamwright.models.scripted import ScriptedModel, call
from teamwright.runtime.agents.resume import Origin
from teamwright.store.files import transcripts

pytestmark = pytest.mark.anyio


def kill_after(walker: Walker, last: Callable[[Event], bool]) -> None:
    """As if killed after the last such line of ada's transcript, and before she went idle."""
    (path,) = [p for p in home(walker).glob("projects/*/*/agents/*.jsonl") if b'"name":"ada"' in p.read_bytes()]
    kept = max(n for n, line in transcripts.read(path) if last(line.event))
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:kept]))
    db = sqlite3.connect(home(walker) / "state.db")
    with db:
        db.execute("UPDATE members SET state = 'running' WHERE name = 'ada'")
        db.execute("DELETE FROM mail WHERE id LIKE 'i-%'")
        db.execute("DELETE FROM letters WHERE id LIKE 'i-%'")
    db.close()


def check_requests(play: Crew) -> None:
    for request in play.model.requests:
        check_valid(request.messages)
        assert request.messages[-1].role == "user"


@pytest.mark.spec("T6", "A2", "L1")
@pytest.mark.parametrize("window", [None, 2_100], ids=["whole", "shortened"])
async def test_a_teammate_that_had_answered_is_not_asked_again(walker: Walker, window: int | None) -> None:
    more = {} if window is None else {"settings": json.dumps({"teamwright": {"windows": {"script/given": window}}})}
    scripts = {
        "main": [create(), mate("ada"), "on"],
        "ada": [bash("head -c 9000 /dev/zero | tr '\\0' x"), "the answer"],
        "ask": [say("ada", "one more thing"), "on"],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
    kill_after(walker, lambda event: isinstance(event, Replied))
    async with crew(walker, scene(scripts), origin=Origin(resume=play.session.id), **more) as again:
        await again.play("SCRIPT:nothing")
        assert not parts(again, "ada") and state_of(again, "ada") == "idle"
        # The lead hears of it as of any other end.
        assert any("the answer" in texts(request) for request in again.model.requests)
        await again.play("SCRIPT:ask")
    assert any("one more thing" in texts(request) for request in again.model.requests)
    check_requests(again)


@pytest.mark.spec("T6", "H2")
async def test_one_that_had_submitted_its_plan_waits_for_the_answer(walker: Walker) -> None:
    scripts = {
        "main": [create(), mate("ada", mode="plan"), "on"],
        "ada": [call("ExitPlanMode", plan="paint it blue"), "painted"],
        "approve": [answer_plan("ada"), "on"],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
    kill_after(walker, lambda event: isinstance(event, ToolEnded))
    async with crew(walker, scene(scripts), origin=Origin(resume=play.session.id)) as again:
        await again.play("SCRIPT:nothing")
        assert state_of(again, "ada") == "idle" and not parts(again, "ada")
        await again.play("SCRIPT:approve")
        assert "painted" in texts(again.model.requests[-1])
    check_requests(again)


@pytest.mark.spec("T6", "A9")
async def test_one_whose_reply_was_cut_off_is_told_so(walker: Walker) -> None:
    cut = ScriptStep((Text("I was about to"),), "max_tokens")
    scripts = {"main": [create(), mate("ada"), "on"], "ada": [cut, "done now"]}
    async with crew(walker, scene(scripts)) as play:
        await play.play()
    kill_after(walker, lambda event: isinstance(event, Replied) and event.stop == "max_tokens")
    async with crew(walker, scene(scripts), origin=Origin(resume=play.session.id)) as again:
        await again.play("SCRIPT:nothing")
    (request,) = parts(again, "ada")
    assert request.messages[-1].text == CUT
    check_requests(again)


@pytest.mark.spec("A1", "A9")
async def test_a_reply_that_only_paused_is_followed_by_words(walker: Walker) -> None:
    paused = ScriptStep((Text("One moment."),), "pause")
    async with crew(walker, ScriptedModel([paused, "done"])) as play:
        assert (await play.play()).text == "done"
    check_requests(play)


@pytest.mark.spec("A1", "A2")
async def test_a_session_that_goes_back_to_a_reply_keeps_the_results_of_its_calls(walker: Walker) -> None:
    async with crew(walker, ScriptedModel([bash("echo first"), bash("echo second"), "on"])) as play:
        await play.play()
    (path,) = home(walker).glob("projects/*/*.jsonl")
    line = next(n for n, line in transcripts.read(path) if isinstance(line.event, Replied))
    back = Origin(resume=play.session.id, at=line_uuid(AgentId(play.session.id), line))
    async with crew(walker, ScriptedModel(["here"]), origin=back) as again:
        await again.play("and now?")
    async with crew(walker, ScriptedModel(["still here"]), origin=Origin(resume=play.session.id)) as third:
        await third.play("and then?")
    for played in (again, third):
        check_requests(played)
        said = str(played.model.requests[-1].messages)
        assert "first" in said and "second" not in said
