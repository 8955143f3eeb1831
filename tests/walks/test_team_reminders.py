"""Open work is not forgotten: reminders, a lead that answers in words, open tasks at the end."""

import json
import re
from typing import Any

import pytest
from team_steps import (
    agree,
    answer_plan,
    answers,
    create,
    mate,
    member,
    parts,
    say,
    scene,
    shutdown,
    state_of,
    task,
    texts,
    update,
)

from conftest import Walker
from crew import bash, crew
from engine_kit import Engines
from place_kit import CREATE, FREE, options
from place_kit import mate as a_mate
from program import Program, tool
from teamwright.models.scripted import call
from teamwright.runtime.agents.resume import Origin

pytestmark = pytest.mark.anyio
PLAN = call("ExitPlanMode", plan="paint it blue")
NO_PLAN = "no plan of yours waits for an answer"


@pytest.mark.spec("H2")
async def test_one_that_goes_idle_in_plan_mode_without_a_plan_is_reminded_once(walker: Walker) -> None:
    scripts = {"main": [create(), mate("ada", mode="plan"), "on", *["on"] * 5], "ada": ["ready", "still ready"]}
    async with crew(walker, scene(scripts)) as play:
        await play.play()
        assert state_of(play, "ada") == "idle"
        id = play.session.id
    first, second = parts(play, "ada")
    assert "call ExitPlanMode with the plan" in texts(first) and "goes to team-lead" in texts(first)
    assert NO_PLAN not in texts(first) and texts(second).count(NO_PLAN) == 1
    model = scene({"main": [say("ada", "go on"), "on"], "ada": ["ready", "still ready", "as before", "no"]})
    async with crew(walker, model, origin=Origin(resume=id)) as play:  # remembered across a restart
        await play.play("SCRIPT:main")
    assert [texts(r).count(NO_PLAN) for r in play.requests("ada")] == [1]


@pytest.mark.spec("H2")
async def test_one_whose_plan_waits_or_was_refused_is_reminded_as_it_fits(walker: Walker) -> None:
    """Not while it waits; once more after a refusal."""
    scripts = {
        "main": [create(), mate("ada", mode="plan"), "on", *["on"] * 9],
        "refuse": [answer_plan("ada", approve=False, feedback="think again"), *["on"] * 9],
        "ada": [PLAN, "hm", "hm again"],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
        assert not any(NO_PLAN in texts(r) for r in parts(play, "ada"))
        await play.play("SCRIPT:refuse")
    assert texts(parts(play, "ada")[-1]).count(NO_PLAN) == 1 and len(parts(play, "ada")) == 3


@pytest.mark.spec("H2", "H3")
async def test_a_lead_that_says_yes_in_words_reads_how_to_answer(walker: Walker) -> None:
    """Words alone decide nothing: the plan stays open, and the message's result says what closes it."""
    scripts = {
        "main": [create(), mate("ada", mode="plan"), "on", *["on"] * 9],
        "words": [say("ada", "approved, go ahead"), *["on"] * 9],
        "form": [answer_plan("ada"), *["on"] * 9],
        "ada": [PLAN, "I wait", bash("echo blue > wall"), "done"],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
        await play.play("SCRIPT:words")
        (text, is_error) = answers(parts(play, "words")[-1], "SendMessage")[-1]
        assert not is_error and not (walker.project / "wall").exists()
        found = re.search(r'"plan_approval_response","request_id":"(plan-\w+)","approve":true', text)
        assert found and "Words do not answer it" in text
        await play.play("SCRIPT:form")
        assert (walker.project / "wall").exists()
        assert (await play.session.teamwork.tables.requests.by_id(found[1])).state == "answered"  # type: ignore[union-attr, arg-type]


@pytest.mark.spec("H1")
async def test_a_shutdown_that_was_answered_in_words_is_reminded_of_once(walker: Walker) -> None:
    scripts = {
        "main": [create(), mate("ada"), "on", *["on"] * 9],
        "ask": [shutdown("ada"), *["on"] * 9],
        "ada": ["ready", "Fine, I shut down.", agree(), "never said"],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
        await play.play("SCRIPT:ask")
        assert state_of(play, "ada") == "shutdown"
    reminder = texts(parts(play, "ada")[-1]).split("Still open: ")
    assert len(reminder) == 2 and '{"type":"shutdown_response","request_id":"shutdown-' in reminder[1]


@pytest.mark.spec("H1")
async def test_one_that_never_answers_in_the_form_is_reminded_no_second_time(walker: Walker) -> None:
    scripts = {
        "main": [create(), mate("ada"), "on", *["on"] * 9],
        "ask": [shutdown("ada"), *["on"] * 9],
        "ada": ["ready", "Fine.", "Fine!", "Fine!!"],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
        await play.play("SCRIPT:ask")
        assert state_of(play, "ada") == "idle" and len(parts(play, "ada")) == 3


@pytest.mark.spec("K8")
async def test_an_assignment_names_who_gave_it_not_who_freed_it(walker: Walker) -> None:
    scripts = {
        "main": [create(), [mate("ada"), mate("ben")], *["on"] * 9],
        "more": [[task("first", "SCRIPT:first", owner="ben"), task("second", owner="ada", blockedBy=["1"])], "on"],
        "first": [update("1", status="completed"), "on"],
        "ada": ["ready"],
        "ben": ["ready"],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
        await play.play("SCRIPT:more")
    told = texts(play.requests("ada")[-1]).replace("&quot;", '"')
    assert '<teammate-message teammate_id="team-lead">\n{"type":"task_assignment","taskId":"2"' in told
    assert "assignedBy" not in told  # whoever sends it gave it


@pytest.mark.spec("K2")
async def test_a_name_that_joins_later_is_handed_its_task_with_its_first_message(walker: Walker) -> None:
    scripts = {
        "main": [
            create(),
            [task("for bob", "all about it", owner="bob"), task("for bob, too", owner="bob"), mate("ada")],
            mate("bob", mode="plan"),
            *["on"] * 9,
        ],
        "ada": ["ready", *["on"] * 9],
        "bob": [PLAN, "on"],
    }
    async with crew(walker, scripts) as play:
        await play.play()
        assert not any("for bob" in texts(r) for r in play.requests("ada"))
    (made, _) = answers(play.requests()[-1], "TaskCreate")
    assert not made[1] and "Nobody is called bob yet" in made[0] and "team-lead" in made[0]
    first = texts(play.requests("bob")[0])
    assert first.index("SCRIPT:bob") < first.index("Task #1 is yours now: team-lead has given it to you.")
    assert "all about it" in first and "Task #2" not in first


@pytest.mark.spec("L1")
async def test_an_idle_notice_names_every_task_that_was_finished(walker: Walker) -> None:
    both = [update("1", status="completed"), update("2", status="completed")]
    scripts = {"main": [create(), [task("a"), task("b")], mate("ada"), *["on"] * 9], "ada": [both, "did both"]}
    async with crew(walker, scripts) as play:
        await play.play()
    assert '"completedTaskId":"1, 2"' in texts(play.requests()[-1]).replace("&quot;", '"')


@pytest.mark.spec("T6")
async def test_after_a_resume_the_lead_reads_what_the_program_did(walker: Walker) -> None:
    scripts = {"main": [create(), [mate("ada"), mate("ben")], *["on"] * 9], "ada": ["ready"], "ben": ["ready"]}
    async with crew(walker, scripts) as play:
        await play.play()
        id = play.session.id
    async with crew(walker, scripts, origin=Origin(resume=id)) as play:
        await play.play("go on")
        assert member(play, "ada").state == "idle"
    words = texts(play.requests()[-1])
    assert re.search(
        r"\[The program had ended at (\d{4}-\d\d-\d\d )?\d\d:\d\d; ada and ben resume where they were\.\]", words
    )
    alone: dict[str, list[Any]] = {"main": ["one", "two"]}
    async with crew(walker, alone) as play:
        await play.play()
        id = play.session.id
    async with crew(walker, alone, origin=Origin(resume=id)) as play:
        await play.play("go on")
    assert "The program had ended" not in texts(play.requests()[-1])


# --- the end of a session without a person

OPEN = {
    "main": [
        CREATE, tool("TaskCreate", subject="paint it", description="d", owner="cleo"), a_mate("ada"), "I wait.",
        *["It is open."] * 4,
    ],
    "ada": ["ready"],
}  # fmt: skip


@pytest.mark.spec("T12")
@pytest.mark.parametrize("format", ["text", "json", "stream-json"])
def test_open_tasks_are_told_where_a_session_ends(program: Program, format: str) -> None:
    more = ["--verbose"] if format == "stream-json" else []
    ran = program.run("-p", "go", FREE, "--output-format", format, *more, script=OPEN)
    assert ran.rc == 0
    (line,) = [line for line in ran.err.splitlines() if "open tasks" in line]
    assert "open tasks of crew: #1 paint it (pending, cleo)" in line and "--resume" in line
    if format == "text":
        assert ran.out == "It is open.\n\n[There are open tasks of crew: #1 paint it (pending, cleo).]\n"
        return
    result = ran.result
    assert result["open_tasks"] == [
        {"team": "crew", "id": "1", "subject": "paint it", "status": "pending", "owner": "cleo"}
    ]
    assert result["result"].startswith("It is open.") and not result["is_error"]


@pytest.mark.spec("T12")
def test_the_lead_is_asked_once_and_may_still_see_to_it(program: Program) -> None:
    script = {
        "main": [*OPEN["main"][:4], "I wait.", tool("TaskUpdate", taskId="1", status="completed"), "All is done."],
        "ada": ["ready"],
    }
    for place in options("in-process", program):
        ran = program.prompt(script, FREE, *place)
        assert ran.rc == 0 and "open tasks" not in ran.err and ran.result["result"] == "All is done."
        asked = json.dumps(ran.lines)
        assert "open_tasks" not in ran.result and asked.count("TaskUpdate") >= 1


UNANSWERED = {
    "main": [CREATE, a_mate("ada", mode="plan"), *["I wait."] * 6],
    "ada": [tool("ExitPlanMode", plan="first this, then that"), *["on"] * 3],
}


@pytest.mark.spec("T10", "T12", "O7")
@pytest.mark.parametrize("format", ["text", "json", "stream-json"])
def test_a_plan_that_nobody_answered_is_told_where_a_session_ends(program: Program, format: str) -> None:
    more = ["--verbose"] if format == "stream-json" else []
    ran = program.run("-p", "go", FREE, "--output-format", format, *more, script=UNANSWERED)
    (line,) = [line for line in ran.err.splitlines() if "open requests" in line]
    (id,) = re.findall(r"open requests of crew: ada's plan (plan-\w+); `", line)
    assert ran.rc == 0 and "--resume" in line
    asked = program.transcript().read_text()
    assert asked.count("Everybody is idle, and there are open requests of crew") == 1
    assert asked.count("Answer it by SendMessage to ada") == 2  # with the plan, and when the lead is asked once more
    (main, ada) = json.loads(program.run("why", "--json").out)
    assert f"its own answer to ada's plan ({id})" in main["waiting_for"]
    assert f"the lead's answer to its plan ({id})" in ada["waiting_for"]
    if format == "text":
        assert ran.out == f"I wait.\n\n[There are open requests of crew: ada's plan {id}.]\n"
        return
    assert ran.result["open_requests"] == [{"team": "crew", "id": id, "kind": "plan", "from": "ada"}]
    assert "open_tasks" not in ran.result


@pytest.mark.spec("T10", "T12")
def test_the_lead_that_is_asked_may_still_answer_the_plan(program: Program) -> None:
    answer = {"type": "plan_approval_response", "request_id": "{{re:plan (plan-\\w+)}}", "approve": True}
    script = {
        "main": [*UNANSWERED["main"][:4], tool("SendMessage", to="ada", message=answer), *["All is done."] * 4],
        "ada": [UNANSWERED["ada"][0], tool("Bash", command="touch carried-out"), "on", "on"],
    }
    ran = program.prompt(script, FREE)
    assert ran.rc == 0 and "open requests" not in ran.err and "open_requests" not in ran.result
    assert (program.project / "carried-out").exists() and ran.result["result"] == "All is done."


@pytest.mark.spec("T12", "Z23")
def test_the_line_on_open_tasks_names_the_engine_without_a_password(program: Program) -> None:
    space = Engines.get().new_space()
    ran = program.run("-p", "go", FREE, "--engine", f"nats://me:secret@{space.hosts[0]}/{space.space}", script=OPEN)
    shown = f"nats://USER:PASSWORD@{space.hosts[0]}/{space.space}"
    assert ran.rc == 0 and re.search(rf"`teamwright --resume \S+ --engine {shown}` continues\n", ran.err)
    assert "secret" not in ran.err
    ran = program.run("-p", "go", FREE, script=OPEN, env={"TEAMWRIGHT_ENGINE": str(Engines.get().new_space())})
    assert ran.rc == 0 and re.search(r"`teamwright --resume \S+` continues\n", ran.err)
