"""A person talks to any agent, stops any, and approves for one agent alone."""

import re
from typing import Any

import anyio
import pytest

from conftest import Walker
from crew import after, agent, bash, crew, marking, results, stage
from store_kit import Chosen
from teamwright.app import Options, open_session
from teamwright.core.data.event import Asked, Denied, PromptPosted, TurnEnded
from teamwright.core.data.message import Request, Text
from teamwright.core.data.op import AddRules, Answer, Say, ShutDown, StopJob
from teamwright.core.errors import UsageError
from teamwright.core.ids import AgentId, JobId
from teamwright.core.permissions.consent import Allow, Decision, Deny, Question
from teamwright.models.scripted import call
from teamwright.runtime.driven_session import DrivenSession
from teamwright.runtime.local_session import LocalSession
from teamwright.store.db.clock import now_ms
from teamwright.store.files.paths import home_from
from teamwright.surfaces.terminal.messages import AnswerQuestion, Scope
from teamwright.surfaces.terminal.questions import answer

pytestmark = pytest.mark.anyio
LIMIT = 20.0


async def reply(walk: Any, question: Question, decision: Decision, scope: Scope) -> list[Question]:
    """Reply as the app does, from wherever it runs."""
    session, options = walk.session, Options(cwd=walk.session.cwd, env={"HOME": str(walk.session.cwd)})
    port = LocalSession(session, home_from(options.env))
    return await answer(port, session.questions.waiting, AnswerQuestion(question, decision, scope), options)


@pytest.mark.spec("T7")
async def test_an_idle_teammate_hears_the_person_in_the_persons_own_words(walker: Walker) -> None:
    heard: list[str] = []

    def hear(request: Request) -> str:
        heard.append(request.messages[-1].text)
        return "Heard."

    scripts = {"main": [], "ada": ["Ready.", hear]}
    session = await open_session(walker.options(stage(scripts), mode="bypassPermissions"))
    with anyio.fail_after(LIMIT):
        async with session:
            team = await session.team("crew")
            ada = await team.spawn("ada", "SCRIPT:ada")
            await team.idle()
            await session.submit(Say((Text("Use tabs."),), agent=ada.agent))
            await team.idle()
            assert heard == ["Use tabs."]


@pytest.mark.spec("T7")
async def test_a_running_agent_hears_it_after_its_call_and_an_ended_one_goes_on(walker: Walker) -> None:
    begun, said = anyio.Event(), anyio.Event()
    heard: list[str] = []

    def hear(request: Request) -> str:
        heard.append("\n".join(message.text for message in request.messages if message.role == "user"))
        return f"Heard {len(heard)}."

    scripts = {
        "main": [agent("child", run_in_background=True), "Started.", "One.", "Two."],
        "child": [marking(begun, bash("true")), after(said, bash("true")), hear, hear],
    }
    async with crew(walker, scripts) as walk:
        await walk.say("go")
        with anyio.fail_after(LIMIT):
            await begun.wait()
            (child,) = walk.children
            before = now_ms()
            await walk.submit(Say((Text("Be brief."),), agent=child))
            said.set()
            await walk.session.idle()
            assert "Be brief." in heard[0]
            await walk.submit(Say((Text("And again."),), agent=child))
            await walk.session.idle()
        assert heard[1].endswith("And again.") and len(walk.notices) == 2
    posted = [record.at for record in walk.records if isinstance(record.event, PromptPosted) and record.agent == child]
    assert len(posted) == 2 and all(before <= at <= now_ms() for at in posted)


async def test_nobody_is_talked_to_who_is_not_there(walker: Walker) -> None:
    async with crew(walker, {"main": []}) as walk:
        with pytest.raises(UsageError, match="no agent a123"):
            await walk.submit(Say((Text("hello"),), agent=AgentId("a123")))


@pytest.mark.spec("M5")
async def test_a_yes_for_one_agent_holds_for_it_alone(walker: Walker) -> None:
    steps = [bash("echo x >> made"), bash("echo x >> made"), "Done."]
    scripts = {"main": [agent("child"), bash("echo x >> made"), "Done."], "child": steps}
    async with crew(walker, scripts, mode="default", can_ask=True) as walk:
        await walk.say("go")
        first: Question = (await walk.until(Asked)).question
        assert first.agent in walk.children and first.suggestions
        assert await reply(walk, first, Allow(), "agent") == []
        second: Question = (await walk.until(Asked)).question  # the child's second call needed no approval
        assert second.agent == walk.id and second.suggestions == first.suggestions
        await reply(walk, second, Deny("No."), "once")
        await walk.until(TurnEnded)
    assert (walker.project / "made").read_text() == "x\nx\n"


@pytest.mark.spec("M5")
async def test_a_yes_for_all_answers_what_its_rules_cover(walker: Walker) -> None:
    both = [agent("child", run_in_background=True), agent("twin", run_in_background=True)]
    below = {"child": [bash("touch a"), "x"], "twin": [bash("touch a"), "y"]}
    scripts = {"main": [both, "Started.", "One.", "Two."]} | below
    async with crew(walker, scripts, mode="default", can_ask=True) as walk:
        await walk.say("go")
        first: Question = (await walk.until(Asked)).question
        second: Question = (await walk.until(Asked)).question
        assert first.suggestions == second.suggestions
        covered = await reply(walk, first, Allow(), "all")
        assert [question.id for question in covered] == [second.id]
        with anyio.fail_after(LIMIT):
            await walk.session.idle()
    assert (walker.project / "a").exists() and not walk.of(Denied)


async def test_a_rule_that_denies_one_agent_leaves_the_others_free(walker: Walker) -> None:
    begun, denied = anyio.Event(), anyio.Event()
    scripts = {
        "main": [agent("child", run_in_background=True), bash("touch main-made"), "Done.", "End."],
        "child": [marking(begun, bash("true")), after(denied, bash("touch child-made")), "Done."],
    }
    async with crew(walker, scripts) as walk:
        await walk.say("go")
        with anyio.fail_after(LIMIT):
            await begun.wait()
            await walk.submit(AddRules(("Bash(touch *)",), "deny", walk.children[0]))
            denied.set()
            await walk.session.idle()
    assert (walker.project / "main-made").exists() and not (walker.project / "child-made").exists()
    assert [event.args["command"] for event in walk.of(Denied)] == ["touch child-made"]


async def test_a_question_is_answered_once(walker: Walker) -> None:
    async with crew(walker, {"main": [bash("touch a"), "Done."]}, mode="default", can_ask=True) as walk:
        await walk.say("go")
        question: Question = (await walk.until(Asked)).question
        await reply(walk, question, Allow(), "once")
        with pytest.raises(UsageError, match="no question"):
            await walk.submit(Answer(question.id, Allow()))
        await walk.until(TurnEnded)


async def test_a_teammate_is_stopped_by_its_address_and_all_by_one_word(walker: Walker) -> None:
    begun, never = anyio.Event(), anyio.Event()
    scripts = {"main": [], "ada": [marking(begun, bash("true")), after(never, "x")], "ben": ["Ready."]}
    session, home = await open_session(walker.options(stage(scripts), mode="bypassPermissions")), home_from(walker.env)
    with anyio.fail_after(LIMIT):
        async with session:
            team = await session.team("crew")
            ada, ben = await team.spawn("ada", "SCRIPT:ada"), await team.spawn("ben", "SCRIPT:ben")
            await begun.wait()
            await LocalSession(session, home).stop(None)  # turns end, teammates live on
            await team.idle()
            await LocalSession(session, home).stop(ben.agent)
            assert [m.name for m in team.members] == ["team-lead", "ada"]
            await session.submit(StopJob(JobId(ada.address)))
            assert [m.name for m in team.members] == ["team-lead"]
            with pytest.raises(UsageError, match="shut down already"):
                await session.submit(StopJob(JobId(ada.address)))


@pytest.mark.spec("N14")
async def test_a_teammate_is_asked_to_shut_down_in_the_leads_place(walker: Walker) -> None:
    def agree(request: Request) -> Any:
        asked = re.search(r"shutdown-\w+", request.messages[-1].text)
        assert asked is not None
        answer = {"type": "shutdown_response", "request_id": asked[0], "approve": True}
        return call("SendMessage", to="team-lead", message=answer)

    scripts = {"main": ["Noted."] * 3, "ada": ["Ready.", agree, "Bye."]}
    session = await open_session(walker.options(stage(scripts), mode="bypassPermissions"))
    with anyio.fail_after(LIMIT):
        async with session:
            team = await session.team("crew")
            ada = await team.spawn("ada", "SCRIPT:ada")
            await team.idle()
            await session.submit(ShutDown(ada.agent))
            while [m.name for m in team.members] != ["team-lead"]:
                await anyio.sleep(0.01)
            with pytest.raises(UsageError, match="no teammate"):
                await session.submit(ShutDown(ada.agent))


async def test_the_crew_is_read_from_the_store(walker: Walker) -> None:
    from teamwright.core.policies.budget import Limits

    options = walker.options(stage({"main": [], "ada": ["Ready."]}), mode="bypassPermissions", limits=Limits(usd=5.0))
    session = await open_session(options)
    with anyio.fail_after(LIMIT):
        async with session:
            here = LocalSession(session, home_from(walker.env))
            assert (await here.crew()).teams == ()
            team = await session.team("crew")
            await team.spawn("ada", "SCRIPT:ada")
            await team.idle()
            task = await team.add_task("Write it", blocked_by=[(await team.add_task("Read it")).id])
            found = await here.crew()
            assert found.teams == ("crew",) and [t.id for t in found.tasks] == [1, task.id]
            assert ("team-lead", "ada") in [(entry.from_name, entry.to_name) for entry in found.mail]
            assert here.facts.left == "$5.00 of $5.00"


async def test_questions_of_its_own_reach_only_a_person(walker: Walker) -> None:
    asks: dict[str, Any] = {
        "questions": [{"question": "Which?", "header": "h", "options": [
            {"label": "a", "description": "x"}, {"label": "b", "description": "y"}]}]
    }  # fmt: skip

    async def choose(question: Question) -> Allow:
        return Allow({**question.args, "answers": {"Which?": "b"}})

    script = {"main": [call("AskUserQuestion", **asks), "Done."]}
    for person in ({"interactive": True}, {"open_door": True}, {}):
        async with crew(walker, script, answer=choose, **person) as walk:
            await walk.play()
        ((text, is_error),) = results(walk.requests()[-1].messages[-1])
        assert is_error != bool(person) and ("Which? b" in text) == bool(person)


async def test_a_look_at_a_session_opens_nothing_of_teams(walker: Walker) -> None:
    options = walker.options(stage({"main": []}))
    session = await open_session(options)
    async with session:
        port = DrivenSession(session, home_from(options.env))
        assert port.find_agent("ada") == "ada"  # which the session refuses
        assert not port.facts.colors and not port.color(session.main.id, "") and not port.members("crew")
        _, live = await port.begin()
        live.close()
        if not Chosen.engine:  # there, who leads a team is looked at when a session opens
            assert session.services.open_teams is None  # an editor's idle session would carry all of it
        await session.team("crew")
        assert [member.is_lead for member in port.members("crew")] == [True]
