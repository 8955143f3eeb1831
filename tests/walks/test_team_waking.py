"""What a teammate handles first if several things wait for it, and answers that arrive after their asker is gone."""

from typing import Any

import anyio
import pytest
from team_steps import (
    REQUEST_ID,
    answer_plan,
    create,
    heard,
    kinds,
    mate,
    member,
    scene,
    shutdown,
    state_of,
    task,
    tasks,
    texts,
    until,
)

from conftest import Walker
from crew import LIMIT, after, bash, crew
from teamwright.core.data.message import Request, Text
from teamwright.core.data.op import Say
from teamwright.models.scripted import call
from teamwright.runtime.agents.resume import Origin


@pytest.mark.spec("L2", "K5", "Q2")
async def test_the_person_then_a_shutdown_then_the_lead_then_peers_and_a_task_at_last(walker: Walker) -> None:
    asked, go = anyio.Event(), anyio.Event()

    async def busy(request: Request) -> Any:
        asked.set()
        return await after(go, bash("true"))(request)

    refuse = call(
        "SendMessage", to="team-lead",
        message={"type": "shutdown_response", "request_id": REQUEST_ID, "approve": False, "reason": "not yet"},
    )  # fmt: skip
    scripts = {
        "main": [create(), [mate("ada"), mate("bob")], after(asked, shutdown("ada")), "on", *["on"] * 9],
        "ada": [busy, refuse, "ready", "working", *["on"] * 9],
        "bob": ["ready", *["on"] * 9],
    }
    async with crew(walker, scripts) as play:
        await play.say("go")
        with anyio.fail_after(LIMIT):
            await asked.wait()
        await until(lambda: state_of(play, "bob") == "idle")
        work, ada = play.session.teamwork, member(play, "ada")
        await until(lambda: work.tables.mail.unread(ada.agent))  # the request to shut down, sent by the model
        await work.mail.say(member(play, "bob"), "ada", "from a peer", "s", "c1")  # type: ignore[arg-type]
        await work.mail.say(member(play, "team-lead"), "ada", "from the lead", "s", "c2")  # type: ignore[arg-type]
        await play.submit(Say((Text("from the person"),), agent=ada.agent))
        go.set()
        with anyio.fail_after(LIMIT):
            await play.session.idle()
    second = texts(play.requests("ada")[1])
    order = [second.index(x) for x in ("from the person", "shutdown_request", "from the lead", "from a peer")]
    assert order == sorted(order)
    assert "shutdown" not in kinds(play)


@pytest.mark.spec("L2", "K5")
async def test_mail_comes_before_a_task_that_could_be_claimed(walker: Walker) -> None:
    asked, go = anyio.Event(), anyio.Event()

    async def busy(request: Request) -> Any:
        asked.set()
        return await after(go, "ready")(request)

    scripts = {
        "main": [create(), mate("ada"), after(asked, task("a job")), "on", *["on"] * 9],
        "ada": [busy, "read it", call("TaskUpdate", taskId="1", status="completed"), "did it"],
    }
    async with crew(walker, scripts) as play:
        await play.say("go")
        await until(lambda: asked.is_set() and tasks(walker))
        await play.session.teamwork.mail.say(member(play, "team-lead"), "ada", "a note", "s", "c1")  # type: ignore[arg-type]
        go.set()
        with anyio.fail_after(LIMIT):
            await play.session.idle()
    second, third = play.requests("ada")[1:3]
    assert "a note" in texts(second) and "is yours now" not in texts(second) and "is yours now" in texts(third)
    assert tasks(walker)["1"]["status"] == "completed"


@pytest.mark.spec("H2", "T6", "M6")
async def test_a_plan_that_is_approved_after_a_restart_is_carried_out(walker: Walker) -> None:
    scripts = {
        "main": [create(), mate("ada", mode="plan"), *["on"] * 9],
        "ada": [call("ExitPlanMode", plan="the plan"), bash("echo done > made"), "did it"],
        "yes": [answer_plan("ada"), *["on"] * 9],
    }
    model = scene(scripts)
    async with crew(walker, model) as play:
        await play.play()
        await heard(play, "main", "plan_approval_request")
        id = play.session.id
    assert not (walker.project / "made").exists()
    async with crew(walker, model, origin=Origin(resume=id)) as play:
        await play.play("SCRIPT:yes")
    assert (walker.project / "made").read_text() == "done\n"
