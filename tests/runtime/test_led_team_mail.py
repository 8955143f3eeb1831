"""A team led by code hears its teammates: questions with answers, a stream of messages, and no model for the lead."""

from typing import Any

import anyio
import pytest

from conftest import Walker
from crew import script_of, stage
from teamwright.app import open_session
from teamwright.core.data.message import Request
from teamwright.core.errors import NoAnswer, UsageError
from teamwright.models.scripted import ScriptedModel, call
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.session import Session
from teamwright.runtime.teams.lead_mail import TeamMessage

pytestmark = pytest.mark.anyio
LIMIT = 20.0


def tell(text: str, to: str = "team-lead") -> Any:
    return call("SendMessage", to=to, summary="news", message=text)


def model_for(scripts: Any) -> ScriptedModel:
    return stage({"main": []} | scripts)


async def opened(walker: Walker, model: ScriptedModel, **more: Any) -> Session:
    return await open_session(walker.options(model, mode="bypassPermissions", code_leads=True, **more))


def asked_of_lead(model: ScriptedModel) -> int:
    return sum(script_of(request) == "main" for request in model.requests)


async def all_of(team: Any) -> list[TeamMessage]:
    return [message async for message in team.messages()]


@pytest.mark.spec("T14")
async def test_an_answer_is_the_next_message_or_the_last_words(walker: Walker) -> None:
    model = model_for({"ada": ["Ready.", tell("42"), "I have told you.", "Still 42."]})
    with anyio.fail_after(LIMIT):
        async with await opened(walker, model) as session:
            team = await session.team("crew")
            await team.spawn("ada", "SCRIPT:ada")
            await team.idle()
            first = await team.ask("ada", "How much?")
            assert (first.sender, first.text, first.kind, first.summary) == ("ada", "42", "message", "news")
            await team.idle()
            second = await team.ask("ada", "Are you sure?")
            assert (str(second), second.kind) == ("Still 42.", "idle_notification")
            assert [(m.text, m.kind) for m in await all_of(team)] == [("Ready.", "idle_notification")]
            assert await all_of(team) == []
    assert asked_of_lead(model) == 0


@pytest.mark.spec("T14")
async def test_what_was_said_before_the_question_was_read_is_no_answer(walker: Walker) -> None:
    going, go_on = anyio.Event(), anyio.Event()

    async def slow(_: Request) -> Any:
        going.set()
        await go_on.wait()
        return tell("an old thought")

    model = model_for({"ada": [slow, "New words."]})
    answers: list[str] = []
    said: list[TeamMessage] = []
    with anyio.fail_after(LIMIT):
        async with await opened(walker, model) as session, anyio.create_task_group() as group:
            team = await session.team("crew")
            await team.spawn("ada", "SCRIPT:ada")
            await going.wait()

            async def ask() -> None:
                answers.append(str(await team.ask("ada", "And now?")))

            watch = session.watch(deltas=False)
            group.start_soon(ask)
            async for record in watch:
                if getattr(record.event, "kind", "") == "message":
                    break  # the question is stored
            watch.close()
            go_on.set()
            said += await all_of(team)
    assert answers == ["New words."]  # read between her message and these
    assert [m.text for m in said] == ["an old thought"]


@pytest.mark.spec("T14")
async def test_questions_at_once_wait_for_each_other_and_are_not_mixed(walker: Walker) -> None:
    def echo(request: Request) -> str:
        return f"answer to {request.messages[-1].text.split('question ')[1][0]}"

    model = model_for({"ada": ["Ready.", *[echo] * 3], "ben": ["Ready.", *[echo] * 3]})
    got: dict[tuple[str, int], str] = {}
    with anyio.fail_after(LIMIT):
        async with await opened(walker, model) as session:
            team = await session.team("crew")

            async def ask(name: str, n: int) -> None:
                got[name, n] = str(await team.ask(name, f"question {n}"))

            for name in ("ada", "ben"):
                await team.spawn(name, f"SCRIPT:{name}")
            await team.idle()
            async with anyio.create_task_group() as group:
                for name in ("ada", "ben"):
                    for n in range(3):
                        group.start_soon(ask, name, n)
    assert got == {(name, n): f"answer to {n}" for name in ("ada", "ben") for n in range(3)}
    assert asked_of_lead(model) == 0


@pytest.mark.spec("T14")
async def test_a_question_without_an_answer_says_why(walker: Walker) -> None:
    silent = {"text": "...", "delay": 60}
    model = model_for(
        {
            "ada": ["Ready.", silent],
            "ben": ["Ready.", {"error": {"fault": "bad_request", "message": "no", "status": 400}}],
            "eve": ["Ready."],
        }
    )
    with anyio.fail_after(LIMIT):
        async with await opened(walker, model) as session:
            team = await session.team("crew")
            for name in ("ada", "ben"):
                await team.spawn(name, f"SCRIPT:{name}")
            await team.idle()
            with pytest.raises(NoAnswer, match=r"ada has not answered within 0\.2 s"):
                await team.ask("ada", "Hello?", within=0.2)
            with pytest.raises(NoAnswer, match=r"the turn of ben ended without an answer \(failed\)"):
                await team.ask("ben", "Hello?")
            with pytest.raises(UsageError, match="no teammate 'eve'"):
                await team.ask("eve", "Hello?")
            with pytest.raises(UsageError, match="empty"):
                await team.ask("ben", " ")

            async def stop() -> None:
                await team.shutdown("ada", force=True)

            async with anyio.create_task_group() as group:
                group.start_soon(stop)
                with pytest.raises(NoAnswer, match="ada"):
                    await team.ask("ada", "Still there?")


@pytest.mark.spec("T14")
async def test_messages_end_with_the_work_and_plans_are_answered(walker: Walker) -> None:
    write = call("Write", file_path=str(walker.project / "a.txt"), content="a")
    model = model_for(
        {
            "ada": [tell("I begin."), "Begun."],
            "ben": [call("ExitPlanMode", plan="1. Write a.txt"), write, "Written."],
        }
    )
    heard: list[TeamMessage] = []
    with anyio.fail_after(LIMIT):
        async with await opened(walker, model) as session:
            team = await session.team("crew")
            await team.spawn("ada", "SCRIPT:ada")
            await team.spawn("ben", "SCRIPT:ben", mode="plan")
            async for message in team.messages():
                heard.append(message)
                if message.kind == "plan_approval_request":
                    assert message.text == "1. Write a.txt"
                    await team.answer_plan(message, approve=True)
            with anyio.move_on_after(0.2) as scope:
                async for _ in team.messages(forever=True):
                    pass
            assert scope.cancelled_caught
            await session.idle()  # unread or not, mail for code does not keep the session from resting
    assert ("ada", "I begin.") in [(m.sender, m.text) for m in heard]
    assert ("ben", "Written.") in [(m.sender, m.text) for m in heard]
    assert (walker.project / "a.txt").read_text() == "a" and asked_of_lead(model) == 0


@pytest.mark.spec("T14")
async def test_what_was_not_read_waits_for_a_resume_and_asks_no_model(walker: Walker) -> None:
    model = model_for({"ada": [tell("Keep this."), "Ready."]})
    with anyio.fail_after(LIMIT):
        async with await opened(walker, model) as session:
            team = await session.team("crew")
            await team.spawn("ada", "SCRIPT:ada")
            await session.idle()
        async with await opened(walker, model, origin=Origin(session.id)) as again:
            await again.idle()
            assert [m.text for m in await all_of(await again.team("crew"))] == ["Keep this."]
    assert asked_of_lead(model) == 0


@pytest.mark.spec("T14")
async def test_a_team_may_be_left_to_the_model(walker: Walker) -> None:
    model = model_for({"ada": ["Ready."]})
    with anyio.fail_after(LIMIT):
        async with await opened(walker, model) as session:
            team = await session.team("crew", lead="model")
            await team.spawn("ada", "SCRIPT:ada")
            await session.idle()
            with pytest.raises(UsageError, match="model of the main agent leads the team crew"):
                await team.ask("ada", "Hello?")
            with pytest.raises(UsageError, match="led by 'code'"):
                await session.team("other", lead="nobody")  # pyright: ignore[reportArgumentType]
    assert asked_of_lead(model) == 1
