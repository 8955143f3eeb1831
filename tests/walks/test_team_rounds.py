"""Exchanges that go round without a person, an effect or progress end by themselves, and lead and person are told."""

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from team_steps import REQUEST_ID, answers, create, mate, say, scene, shutdown, task, tasks, texts, update

from conftest import Walker
from crew import ID, LIMIT, after, agent, bash, crew, marking, script_of
from teamwright.core.data.event import Warned
from teamwright.core.data.message import Request, Text, ToolResult
from teamwright.core.data.op import Say
from teamwright.models.scripted import ScriptedModel, call

EACH, NAMES = 3, ("ada", "bob")
FEW = json.dumps({"teamwright": {"mail": {"answers": EACH}, "shutdownTimeoutSeconds": 600}})
MOST_ROUNDS = EACH * 3  # lead, ada and bob
# The words of one round wake two agents at most, and a turn here has two requests; then the lead is told.
MOST = 2 * (2 * MOST_ROUNDS + 2 * len(NAMES)) + 20


def refuse(kind: str, to: str) -> Any:
    body = {"type": f"{kind}_response", "request_id": REQUEST_ID, "approve": False, "reason": "no", "feedback": "no"}
    return call("SendMessage", to=to, message=body)


def choices(me: str, peer: str, seen: str) -> list[Any]:
    """What an agent can do without doing anything."""
    found = [
        "some words",
        say("team-lead" if me != "main" else "ada", "and you?"),
        say(peer, "you first"),
        say("*", "anybody?"),
        update("1", status="pending"),
        update("1", owner=peer),
        update("2", owner=peer, status="pending"),
        call("TaskList"),
        bash("true"),
    ]
    if me == "main":
        found += [shutdown(peer), update("1", description="please!"), update("2", owner="", description="once more")]
    if '"requestId"' in seen.replace("&quot;", '"') or "request_id" in seen:
        found.append(refuse("plan_approval", peer) if me == "main" else refuse("shutdown", "team-lead"))
    return found


def player(picks: list[int]) -> ScriptedModel:
    """Agents that follow the picks in the order in which they are asked, starting over after the last one."""
    asked = 0

    def play(request: Request) -> Any:
        nonlocal asked
        me = script_of(request)
        replies = sum(m.role == "assistant" for m in request.messages)
        if me == "main" and replies < 2:
            made = [task("one"), task("two", owner="bob"), mate("ada"), mate("bob", mode="plan")]
            return [create(), made][replies]
        if any(isinstance(block, ToolResult) for block in request.messages[-1].blocks):
            return "well"
        asked += 1
        possible = choices(me, "bob" if me != "bob" else "ada", texts(request))
        if me == "bob" and replies == 0:
            return call("ExitPlanMode", plan="wait")
        return possible[picks[asked % len(picks)] % len(possible)]

    return ScriptedModel(play)


@pytest.mark.spec("K11", "X11")
@given(picks=st.lists(st.integers(0, 50), min_size=1, max_size=12))
@example(picks=[15])  # they hand a task to and fro
@example(picks=[41])
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_agents_that_only_wake_each_other_come_to_rest(picks: list[int]) -> None:
    """Whatever they say, give back, refuse or hand on: after a bounded number of requests the session is idle."""

    async def walk(root: Path) -> None:
        walker, model = Walker(root), player(picks)
        async with crew(walker, model, settings=FEW) as play:
            await play.play()
            assert len(model.requests) <= MOST, (len(model.requests), [script_of(r) for r in model.requests])
            before = len(model.requests)
            await play.play("and now?")  # a person's message starts the count again
            assert before < len(model.requests) <= 2 * MOST

    with tempfile.TemporaryDirectory() as root:
        anyio.run(walk, Path(root))


@pytest.mark.spec("K11")
async def test_a_task_that_is_given_back_comes_to_each_once(walker: Walker) -> None:
    give = [update("1", status="pending"), "not for me"]
    scripts = {
        "main": [create(), task("nobody's"), [mate("ada"), mate("bob")], *["on"] * 40],
        "ada": ["ready", *give * 20],
        "bob": ["ready", *give * 20],
    }
    async with crew(walker, scripts) as play:
        await play.play()
        assert len(play.requests("ada")) <= 3 and len(play.requests("bob")) <= 3
    letter = texts(play.requests("ada")[-1])
    assert "Task #1 is yours now: you were free, and it was the first open one." in letter
    assert "you are not given it again" in letter and tasks(walker)["1"]["status"] == "pending"


@pytest.mark.spec("K11", "X11")
async def test_lead_and_person_are_told_in_one_sentence_and_an_effect_begins_anew(walker: Walker) -> None:
    def ask_back(to: str) -> Callable[[Request], Any]:
        """Looking at the list is work, but not an effect."""
        made = [call("TaskList"), say(to, "and you?")]
        return lambda request: made if "and you?" in request.messages[-1].text else "on"

    scripts = {
        "main": [create(), mate("ada"), say("ada", "and you?"), *[ask_back("ada")] * 90],
        "ada": [ask_back("team-lead")] * 90,
        "work": [bash("echo done > made"), say("ada", "SCRIPT:thanks"), "on"],
        "thanks": ["good"],
    }
    async with crew(walker, scene(scripts), settings=json.dumps({"teamwright": {"mail": {"answers": 5}}})) as play:
        await play.play()
        told = [t for r in play.requests() for t in re.findall(r"The members of crew have woken.*", texts(r))]
        before = len(play.model.requests)
        await play.play("SCRIPT:work")
        assert "good" in texts(play.model.requests[-1]) or any("SCRIPT:thanks" in texts(r) for r in play.model.requests)
        assert len(play.model.requests) > before
    assert len(set(told)) == 1 and "10 times without any effect" in told[0] and "do the next step yourself" in told[0]
    assert len([w for w in play.of(Warned) if "without any effect" in w.text]) == 1
    refused = [t for r in play.model.requests for t, e in answers(r, "SendMessage") if e]
    assert any("this was not sent" in text and "end your turn" in text for text in refused)


@pytest.mark.spec("K11")
async def test_work_and_completed_tasks_never_reach_the_bound(walker: Walker) -> None:
    """Twenty tasks one after the other, each with a file, though only four rounds are allowed without one."""
    made = [task(f"job {n}", f"SCRIPT:job{n}") for n in range(1, 21)]
    jobs = {f"job{n}": [bash(f"echo {n} >> log"), update(str(n), status="completed"), "on"] for n in range(1, 21)}
    scripts = {"main": [create(), made, mate("ada", "idle"), "on"], **jobs}
    few = json.dumps({"teamwright": {"mail": {"answers": 2}}})
    async with crew(walker, scene(scripts), settings=few) as play:
        await play.play()
    assert {t["status"] for t in tasks(walker).values()} == {"completed"}


@pytest.mark.spec("K11", "T6")
async def test_a_person_who_speaks_to_a_teammate_wakes_the_team_again(walker: Walker) -> None:
    scripts = {
        "main": [create(), mate("ada"), *[say("ada", "and you?"), "on"] * 30],
        "ada": ["ready", *[say("team-lead", "and you?"), "on"] * 30],
        "person": [say("team-lead", "the person has spoken"), "on"],
    }
    async with crew(walker, scene(scripts), settings=json.dumps({"teamwright": {"mail": {"answers": 3}}})) as play:
        await play.play()
        ada = play.session.teamwork.roster.find("crew", "ada")
        assert ada is not None
        await play.submit(Say((Text("SCRIPT:person"),), agent=ada.agent))
        with anyio.fail_after(LIMIT):
            await play.session.idle()
    assert any("the person has spoken" in texts(r) for r in play.requests())


@pytest.mark.spec("K11", "X11")
@pytest.mark.parametrize("works", [False, True])
async def test_an_agent_and_one_that_it_started_do_not_answer_each_other_for_ever(walker: Walker, works: bool) -> None:
    """If there is work in it, it continues as long as the script does."""
    again = call("SendMessage", to=ID, message="and you?", summary="s")
    reply = [bash("true"), "and you?"] if works else ["and you?"]
    scripts = {
        "main": [agent("child", run_in_background=True), "on", *[again, "on"] * 10, *["on"] * 9],
        "child": reply * 60,
    }
    async with crew(walker, scripts, settings=FEW) as play:
        await play.play()
        refused = [text for text, is_error in answers(play.requests()[-1], "SendMessage") if is_error]
        assert len(play.requests("child")) == (22 if works else 1 + EACH)
        assert bool(refused) is not works and all("answered 3 times without using a tool" in text for text in refused)


@pytest.mark.spec("K11", "X11")
async def test_messages_to_an_agent_at_work_are_no_answers_of_it(walker: Walker) -> None:
    many = [call("SendMessage", to=ID, message=f"message {n};", summary="s") for n in range(EACH * 3)]
    told = anyio.Event()
    scripts = {
        "main": [agent("child", run_in_background=True), many, marking(told, "on"), "on"],
        "child": [after(told, bash("true")), "all of it"],
    }
    async with crew(walker, scripts, settings=FEW) as play:
        await play.play()
        assert not [text for text, is_error in answers(play.requests()[-1], "SendMessage") if is_error]
        heard = texts(play.requests("child")[-1])
        assert all(f"message {n};" in heard for n in range(EACH * 3))
