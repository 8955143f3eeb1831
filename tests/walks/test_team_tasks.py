"""The shared list at work: claimed by idle members, given to others, free again when its owner is gone."""

import anyio
import pytest
from team_steps import (
    agree,
    answers,
    create,
    kinds,
    last,
    mate,
    member,
    parts,
    scene,
    shutdown,
    state_of,
    task,
    tasks,
    texts,
    until,
    update,
)

from conftest import Walker
from crew import LIMIT, bash, crew
from teamwright.models.scripted import call

pytestmark = pytest.mark.anyio


def finish(id: int) -> list[object]:
    return [bash(f"echo {id} >> log"), update(str(id), status="completed"), "on"]


@pytest.mark.spec("K5", "K10", "K4")
async def test_idle_teammates_take_tasks_in_order_each_once(walker: Walker) -> None:
    made = [task(f"job {n}", f"SCRIPT:job{n}") for n in range(1, 6)]
    scripts = {
        "main": [create(), [*made, update("1", addBlockedBy=["5"])], [mate("ada", "idle"), mate("bob", "idle")], "on"],
    } | {f"job{n}": finish(n) for n in range(1, 6)}
    async with crew(walker, scene(scripts)) as play:
        await play.play()
    lines = (walker.project / "log").read_text().split()
    assert sorted(lines) == list("12345") and lines.index("1") > lines.index("5")
    assert {t["status"] for t in tasks(walker).values()} == {"completed"}
    first = parts(play, "job2")[0]
    assert (
        'teammate_id="task-list"' in texts(first)
        and "#2: job 2" in texts(first)
        and "further open tasks" in texts(first)
    )
    assert kinds(play, "ada").count("claim") + kinds(play, "bob").count("claim") == 5


@pytest.mark.spec("L1", "K5")
async def test_the_idle_notice_names_the_task_that_was_finished(walker: Walker) -> None:
    scripts = {
        "main": [create(), mate("ada", "idle"), "on"],
        "more": [task("job", "SCRIPT:job1"), "on"],
        "job1": finish(1),
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
        await play.play("SCRIPT:more")
    notices = [line for line in texts(play.model.requests[-1]).splitlines() if "completedTaskId" in line]
    assert len(notices) == 1 and '"completedTaskId":"1"' in notices[0]


@pytest.mark.spec("K8")
async def test_a_task_is_given_to_one_and_told_when_it_is_free(walker: Walker) -> None:
    scripts = {
        "main": [create(), [mate("ada", "idle"), mate("bob", "idle")], "on"],
        "more": [
            [task("first", "SCRIPT:x", metadata={"a": 1}), task("second")],
            [update("2", addBlockedBy=["1"]), update("2", owner="ada"), update("1", owner="bob")],
            "on",
        ],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
        ada, bob = member(play, "ada"), member(play, "bob")
        assert ada and bob
        await play.play("SCRIPT:more")
        given = [r for r in play.model.requests if "task_assignment" in texts(r)]
        owners = {t["id"]: (t["owner"], t["status"]) for t in tasks(walker).values()}
    assert owners["2"] == ("ada", "pending") and owners["1"][0] == "bob" and given
    assert not any('"taskId":"2"' in texts(r) for r in given)  # it still waits


@pytest.mark.spec("K6", "H1")
async def test_the_tasks_of_one_that_shut_down_are_free_and_the_lead_is_told(walker: Walker) -> None:
    scripts = {
        "main": [create(), task("the job"), mate("ada"), "on"],
        "ask": [shutdown("ada"), "on"],
        "ada": [update("1", owner="ada"), "on", agree()],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
        assert tasks(walker)["1"]["status"] == "in_progress"
        await play.play("SCRIPT:ask")
        await until(lambda: tasks(walker)["1"]["status"] == "pending")
        assert not tasks(walker)["1"].get("owner") and state_of(play, "ada") == "shutdown"
    assert "Free again: #1 the job" in texts(play.model.requests[-1])


@pytest.mark.spec("K6")
async def test_a_late_result_of_a_former_owner_is_refused(walker: Walker) -> None:
    scripts = {
        "main": [create(), task("the job"), [mate("ada"), mate("bob", "idle", mode="plan")], "on"],
        "take": [update("1", owner="bob"), "on"],
        "late": [update("1", status="completed"), "on"],
        "ada": [update("1", owner="ada"), "on"],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
        await play.play("SCRIPT:take")
        await (await play.session.team("crew")).send("ada", "SCRIPT:late")
        with anyio.fail_after(LIMIT):
            await play.session.idle()
        assert tasks(walker)["1"]["status"] == "pending" and tasks(walker)["1"]["owner"] == "bob"
    (text, is_error) = answers(parts(play, "late")[-1], "TaskUpdate")[-1]
    assert is_error and "already_claimed" in text


@pytest.mark.spec("L4", "L1")
async def test_a_failed_turn_is_reported_and_does_not_end_a_teammate(walker: Walker) -> None:
    from teamwright.core.errors import ModelError

    def fail(_: object) -> object:
        raise ModelError("the server said no", "auth", status=401)

    scripts = {"main": [create(), mate("ada"), "on"], "ada": [fail], "again": ["I am well"]}
    async with crew(walker, scene(scripts)) as play:
        await play.play()
        assert state_of(play, "ada") == "idle"
        await (await play.session.team("crew")).send("ada", "SCRIPT:again")
        with anyio.fail_after(LIMIT):
            await play.session.idle()
    text = texts(last(play))
    assert '"idleReason":"failed"' in text and "the server said no" in text and "I am well" in text


@pytest.mark.spec("L1", "Q6")
async def test_an_idle_notice_without_news_starts_no_turn_of_the_lead(walker: Walker) -> None:
    """It said nothing: the notice waits, and comes with the next delivery."""
    silent = call("ExitPlanMode", plan="x")
    scripts = {"main": [create(), mate("ada", mode="plan"), "on"], "ada": [silent], "more": ["on"]}
    async with crew(walker, scene(scripts)) as play:
        await play.play()
        before = len([r for r in play.model.requests if "idle_notification" in texts(r)])
        quiet = [e for e in await play.session.teamwork.tables.mail.audit("crew") if "idle_notification" in e.text]
        await play.play("SCRIPT:more")
    assert quiet and "lastMessage" not in quiet[0].text and before <= 1
    assert "idle_notification" in texts(play.model.requests[-1])
