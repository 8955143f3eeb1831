"""What a setting adds beside the conversation, summaries and suggestions; and /btw."""

import io
from typing import Any

import anyio
import pytest
from aside_kit import KINDS, SUMMARIES, Thinker, kind_of, kinds, seen, settings, stage

from conftest import Walker
from crew import NO_ANSWERS, after, agent, bash, crew
from program import Program, tool
from teamwright.core.data.event import JobEnded, JobProgressed, Suggested, TurnEnded
from teamwright.core.data.message import Request
from teamwright.core.errors import ModelError
from teamwright.surfaces.plain import Progress

pytestmark = pytest.mark.anyio


# --- I3


@pytest.mark.spec("I3")
async def test_after_a_turn_the_next_prompt_is_suggested_on_one_line(walker: Walker) -> None:
    model = stage(["one", "two"], suggest='- "Now run the\x1b[31m tests"\nand more')
    async with crew(walker, model, settings=settings(promptSuggestions=True)) as walk:
        await walk.say("first")
        await walk.until(Suggested)
        messages = list(walk.session.main.history.messages)
        assert [m.text for m in messages] == ["first", "one"]
        await walk.play("second")
    assert kinds(walk) == ["talk", "suggest", "talk", "suggest"]
    assert walk.of(Suggested)[0].text == "Now run the\\u001b[31m tests"
    first, aside, second, _ = walk.model.requests
    assert aside.messages[: len(first.messages)] == first.messages and second.messages[:2] == tuple(messages)


@pytest.mark.spec("I3")
async def test_a_new_prompt_cancels_a_suggestion(walker: Walker) -> None:
    thinker = Thinker()
    model = stage(["one", after(thinker.left, "two")], suggest=thinker)
    async with crew(walker, model, settings=settings(promptSuggestions=True)) as walk:
        await walk.say("first")
        await seen(thinker.asked)
        await walk.say("second")
        await walk.until(lambda e: isinstance(e, TurnEnded) and e.text == "two")
        walk.session.hurry()
    assert walk.of(Suggested) == []


@pytest.mark.spec("I3")
async def test_a_turn_that_begins_by_itself_cancels_it_too(walker: Walker) -> None:
    thinker = Thinker()
    wait = walker.project / "go"
    held = bash(f"while ! [ -e {wait} ]; do sleep 0.02; done")
    talk = [agent("held", run_in_background=True), "one", after(thinker.left, "two")]
    model = stage(talk, suggest=thinker, held=[held, "report"])
    async with crew(walker, model, settings=settings(promptSuggestions=True)) as walk:
        await walk.say("first")
        await seen(thinker.asked)
        wait.touch()  # the notice of its end begins another turn
        await walk.until(lambda e: isinstance(e, TurnEnded) and e.text == "two")
        walk.session.hurry()
    assert walk.of(Suggested) == []


@pytest.mark.spec("I3")
@pytest.mark.parametrize("answer", ["NONE", "none.", "", ModelError("no", "auth"), bash("true")])
async def test_no_suggestion_is_silence(walker: Walker, answer: Any) -> None:
    model = stage(["one"], suggest=answer or [])  # a reply without blocks
    async with crew(walker, model, settings=settings(promptSuggestions=True)) as walk:
        assert (await walk.play()).reason == "done"
    assert walk.of(Suggested) == [] and [e.reason for e in walk.of(TurnEnded)] == ["done"]


@pytest.mark.spec("I3")
async def test_after_a_turn_that_failed_nothing_is_suggested(walker: Walker) -> None:
    model = stage([ModelError("no", "auth")], suggest="x")
    async with crew(walker, model, settings=settings(promptSuggestions=True)) as walk:
        await walk.play()
    assert kinds(walk) == ["talk"]


@pytest.mark.spec("I3")
async def test_an_end_in_good_order_waits_for_the_suggestion(walker: Walker) -> None:
    asked, closing = anyio.Event(), anyio.Event()
    late = after(closing, "Go on")

    async def play(request: Request) -> Any:
        asked.set()
        return await late(request)

    async def close_later() -> None:
        await anyio.wait_all_tasks_blocked()
        closing.set()

    model = stage(["one"], suggest=play)
    own = settings(promptSuggestions=True)
    async with anyio.create_task_group() as group, crew(walker, model, settings=own) as walk:
        await walk.say("first")
        await seen(asked)
        group.start_soon(close_later)
    assert [e.text for e in walk.of(Suggested)] == ["Go on"]


# --- I5


@pytest.mark.spec("I5", "B5")
@pytest.mark.parametrize("talk", [[agent("kid", run_in_background=True), "waits", "done"], [agent("kid"), "done"]])
async def test_an_agent_says_in_one_line_what_it_does(walker: Walker, talk: list[Any]) -> None:
    words = " ".join(f"w{n}" for n in range(20))
    async with crew(walker, stage(talk, summary=f"`{words}`\nmore"), settings=settings(**SUMMARIES)) as walk:
        await walk.play()
    told = [e.summary for e in walk.of(JobProgressed) if e.summary]
    assert told and set(told) == {" ".join(f"w{n}" for n in range(12)) + "…"}
    assert 1 <= kinds(walk).count("summary") <= 2  # for each reply with calls, one at a time; none for the final report
    (kid,) = walk.children
    asked = [r for r in walk.model.requests if kind_of(r) == "summary"]
    own = [r for r in walk.model.requests if kind_of(r) == "talk" and "SCRIPT:kid" in r.messages[0].text]
    assert len(own) == 3 and all(r.tools == own[0].tools and r.messages[0] == own[0].messages[0] for r in asked)
    assert own[-1].messages[: len(own[0].messages)] == own[0].messages and not any("shoulder" in repr(r) for r in own)
    last = [r.event for r in walk.records if isinstance(r.event, JobProgressed | JobEnded)][-1]
    assert isinstance(last, JobEnded) and last.job == kid


@pytest.mark.spec("I5")
async def test_summaries_come_at_most_every_so_many_seconds(walker: Walker) -> None:
    talk = [agent("kid", run_in_background=True), "waits", "done"]
    own = settings(agentSummaries=True)  # 30 s: the agent is done long before
    async with crew(walker, stage(talk, summary="x"), settings=own) as walk:
        await walk.play()
    assert "summary" not in kinds(walk)


@pytest.mark.spec("I5")
@pytest.mark.parametrize("fault", [ModelError("no", "auth"), "hang"])
async def test_a_summary_that_fails_or_hangs_disturbs_nobody(walker: Walker, fault: Any) -> None:
    thinker = Thinker()
    talk = [agent("kid", run_in_background=True), "waits", "done"]
    model = stage(talk, summary=thinker if fault == "hang" else fault)
    async with crew(walker, model, settings=settings(**SUMMARIES)) as walk:
        assert (await walk.play()).text == "done"
        if fault == "hang":
            await seen(thinker.left)  # with its agent
    assert [e.status for e in walk.of(JobEnded)] == ["completed"]
    assert not [e for e in walk.of(JobProgressed) if e.summary]
    if fault != "hang":
        assert "a summary of agent" in (walker.home / ".teamwright/logs/teamwright.log").read_text()
    else:
        assert kinds(walk).count("summary") == 1  # one at a time


# --- how the answers end


@pytest.mark.spec("B12", "I3", "I5")
@pytest.mark.parametrize("kind", NO_ANSWERS)
async def test_words_that_did_not_end_by_themselves_are_used_for_nothing(walker: Walker, kind: str) -> None:
    talk = [agent("kid", run_in_background=True), "waits", "done"]
    asked = dict.fromkeys(["suggest", "summary", "check"], NO_ANSWERS[kind])
    own = settings(promptSuggestions=True, handOffCheck=True, **SUMMARIES)
    async with crew(walker, stage(talk, **asked), settings=own) as walk:
        await walk.play()
    assert set(asked) <= set(kinds(walk)) and walk.of(Suggested) == []
    assert not [event for event in walk.of(JobProgressed) if event.summary]
    assert "Warning of the check" not in str(walk.model.requests)


# --- the program


@pytest.mark.spec("I4")
def test_btw_in_the_place_of_a_prompt_prints_the_answer(program: Program) -> None:
    ran = program.run("-p", "/btw what is this?", script=["An empty place."])
    assert (ran.rc, ran.out) == (0, "An empty place.\n")
    events = program.transcript().read_text()
    assert "what is this?" not in events and "An empty place." not in events
    ran = program.prompt(["x"], text="/btw")
    assert ran.rc == 1 and "no question" in ran.result["result"]


@pytest.mark.spec("I4")
def test_btw_while_a_turn_runs_has_a_result_of_its_own(program: Program) -> None:
    mark = program.project / "go"
    script = {
        "main": [[tool("Nope"), tool("Bash", command=f"while ! [ -e {mark} ]; do sleep 0.02; done")], "all done"],
        "aside": {"when": "<side-question>", "steps": ["nearly there"]},
    }
    live = program.talk(script, "--dangerously-skip-permissions")
    live.say("work")
    live.seen(type="user")
    live.say("/btw how far?")
    (first,) = live.results(1)
    assert (first["result"], first["subtype"]) == ("nearly there", "success") and not mark.exists()
    mark.touch()
    assert live.results(2)[1]["result"] == "all done"
    assert [line["subtype"] for line in live.lines if line["type"] == "system"].count("init") == 1
    assert live.end().rc == 0


@pytest.mark.spec("I3", "I5")
def test_what_a_driving_program_sees_of_suggestions_and_summaries(program: Program) -> None:
    kid = {"description": "d", "prompt": "SCRIPT:kid", "run_in_background": True}
    script = {
        "main": [tool("Agent", **kid), "waits", "done"],
        "kid": [tool("Bash", command="true"), tool("Bash", command="echo x"), "report"],
        "summary": {"when": KINDS["summary"], "steps": ["Reading the files"]},
        "suggest": {"when": KINDS["suggest"], "steps": ["Go on"]},
    }
    own = settings(promptSuggestions=True, **SUMMARIES)
    ran = program.prompt(script, "--settings", own, "--dangerously-skip-permissions")
    system = [line for line in ran.lines if line["type"] == "system"]
    assert [x["suggestion"] for x in system if x["subtype"] == "prompt_suggestion"][-1] == "Go on"
    assert "Reading the files" in [x.get("summary") for x in system if x["subtype"] == "task_progress"]


@pytest.mark.spec("I3", "I4", "I5")
async def test_a_person_who_watches_sees_them_without_their_hidden_characters(walker: Walker) -> None:
    out = io.StringIO()
    talk = [agent("kid", run_in_background=True), "waits", "done"]
    model = stage(talk, summary="Reading it", suggest="Go on", aside="Nearly\x1b[2J there")
    own = settings(promptSuggestions=True, **SUMMARIES)
    async with crew(walker, model, settings=own) as walk:
        await walk.play()
        await walk.session.aside("how far?")
    screen = Progress(out, colours=False)
    for record in walk.records:
        screen.show(record)
    lines = [line.strip() for line in out.getvalue().splitlines()]
    assert {"| Reading it", "next: Go on", "Nearly\\x1b[2J there"} <= set(lines)
