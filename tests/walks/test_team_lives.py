"""Teams over time: idle and awake, interrupted, compacted, and led by one lead after another."""

from typing import Any

import anyio
import pytest
from team_steps import (
    TEAM,
    agree,
    answer_plan,
    answers,
    create,
    heard,
    home,
    inbox,
    kinds,
    last,
    mate,
    member,
    members,
    parts,
    say,
    scene,
    shutdown,
    state_of,
    task,
    texts,
    until,
    update,
)

from conftest import Walker
from crew import LIMIT, after, bash, crew, ended_calls, events_of, marking
from teamwright.core.data.event import AgentStarted, Resumed, TeamChanged
from teamwright.core.data.message import Request
from teamwright.core.data.op import Compact, Interrupt
from teamwright.core.errors import ModelError, UsageError
from teamwright.models.scripted import call
from teamwright.runtime.agents.resume import Origin

pytestmark = pytest.mark.anyio


def after_marking(first: anyio.Event, then: anyio.Event, step: Any) -> Any:
    """Report that it was requested, then wait."""

    async def play(request: Request) -> Any:
        first.set()
        return await after(then, step)(request)

    return play


TOO_LONG = ModelError("prompt is too long: 9000 tokens > 8000 maximum", "context", status=400)


def forgetful(*steps: Any) -> list[Any]:
    """Plays these steps one after the other, also after its conversation was summarised."""
    left = list(steps)

    def play(request: Request) -> Any:
        if "about to be shortened" in request.messages[-1].text:
            return "the gist"
        step = left.pop(0)
        return step(request) if callable(step) else step

    return [play] * len(steps)


# --- idle and awake


@pytest.mark.spec("T5", "O1", "L1")
async def test_the_life_of_a_teammate_is_told_in_order(walker: Walker) -> None:
    scripts = {
        "main": [create(), mate("ada"), "on", say("ada", "more"), "on", shutdown("ada"), "on"],
        "ada": ["ready", "worked", agree()],
    }
    async with crew(walker, scripts) as play:
        await play.play()
        assert state_of(play, "ada") == "shutdown" and list(members(walker)) == ["team-lead"]
    assert kinds(play) == ["spawn", "idle", "wake", "idle", "wake", "shutdown"]
    assert {e.team for e in play.of(TeamChanged)} == {TEAM}


@pytest.mark.spec("T9")
async def test_whoever_drives_a_session_can_wait_until_all_teammates_are_idle(walker: Walker) -> None:
    go = anyio.Event()
    scripts = {"main": [create(), [mate("ada"), mate("bob")], "on"], "ada": ["ready"], "bob": [after(go, "ready")]}
    async with crew(walker, scripts) as play:
        await play.say("go")
        await until(lambda: state_of(play, "ada") == "idle" and state_of(play, "bob") == "running")
        team = await play.session.team(TEAM)
        with anyio.move_on_after(0.05) as early:
            await team.idle()
        go.set()
        with anyio.fail_after(LIMIT):
            await team.idle()
        assert early.cancelled_caught and state_of(play, "bob") == "idle"


@pytest.mark.spec("T12", "Q3", "T6")
async def test_a_session_ends_by_itself_and_its_teammates_wake_in_the_next_one(walker: Walker) -> None:
    scripts = {
        "main": [create(), [mate("ada"), mate("bob")], "on"],
        "ada": [say("bob", "hint"), "what-ada-knows"],
        "bob": ["ready"],
    }
    async with crew(walker, scripts) as first:
        await first.play()  # returns only when nobody has anything left to do
        ada = member(first, "ada")
        assert state_of(first, "ada") == state_of(first, "bob") == "idle"
        assert "hint" in texts(last(first, "bob"))
    assert {m["state"] for m in members(walker).values()} == {"idle", "running"}
    before = len(first.requests())

    def wake(request: Request) -> Any:
        return say("ada", "once more") if not answers(request, "SendMessage") else "on"

    scripts = {"main": [wake] * (before + 4), "ada": ["x", "x", "I still know"], "bob": ["x"] * 9}
    async with crew(walker, scripts, origin=Origin(resume=first.session.id)) as play:
        await play.play("again")
        assert member(play, "ada").agent == ada.agent
    (request,) = play.requests("ada")
    assert "what-ada-knows" in str(request.messages) and "once more" in texts(request) and not play.requests("bob")
    started = [type(e) for e in events_of(walker, ada.agent)]
    assert started.count(AgentStarted) == 1 and started.count(Resumed) == 1


@pytest.mark.spec("T13", "L1")
async def test_interrupting_a_teammate_ends_its_turn_and_nothing_else(walker: Walker) -> None:
    asked, never = anyio.Event(), anyio.Event()
    scripts = {
        "main": [create(), mate("ada"), "on", say("ada", "go on"), "on"],
        "ada": [after_marking(asked, never, "x"), "went on"],
    }

    async def ada(request: Request) -> Any:
        if "go on" in texts(request):
            return "went on"
        return await after_marking(asked, never, "x")(request)

    async with crew(walker, scripts | {"ada": [ada, ada]}) as play:
        await play.say("go")
        with anyio.fail_after(LIMIT):
            await asked.wait()
        await play.submit(Interrupt(member(play, "ada").agent))
        await heard(play, "main", "interrupted")
        with anyio.fail_after(LIMIT):
            await play.session.idle()
    notices = [t for t in texts(last(play)).splitlines() if "idle_notification" in t]
    assert '"interrupted"' in notices[0] and '"available"' in notices[1] and "went on" in notices[1]
    assert kinds(play)[:4] == ["spawn", "idle", "wake", "idle"]


@pytest.mark.spec("T13")
async def test_interrupting_the_lead_does_not_touch_its_teammates(walker: Walker) -> None:
    asked, waits, go, never = anyio.Event(), anyio.Event(), anyio.Event(), anyio.Event()
    scripts = {
        "main": [create(), mate("ada"), after_marking(waits, never, "x")],
        "ada": [after_marking(asked, go, bash("echo worked > done")), "finished"],
    }
    async with crew(walker, scripts) as play:
        await play.say("go")
        with anyio.fail_after(LIMIT):
            await asked.wait()
            await waits.wait()
        await play.submit(Interrupt())
        await until(lambda: not play.session.main.running)
        go.set()
        with anyio.fail_after(LIMIT):
            await (await play.session.team(TEAM)).idle()
        assert (walker.project / "done").read_text() == "worked\n"
        never.set()


@pytest.mark.spec("T10", "I1")
async def test_after_a_compaction_an_agent_still_knows_its_team(walker: Walker) -> None:
    """From the store: who is there, what is to be done, what was asked, word for word and with how to answer."""
    plan = "First blue.\nThen <summary>green</summary>, in `a/b.py`."
    scripts = {
        "main": [create(), [task("paint the wall"), task("wash up")], mate("ada", mode="plan"), "on", "on", "on"],
        "ada": [call("ExitPlanMode", plan=plan), "x"],
    }
    async with crew(walker, scripts) as play:
        await play.play()
        (letter,) = [b.text for m in play.session.main.history.messages for b in m.blocks if "First blue" in str(b)]
        await play.submit(Compact())
        await play.play("go on")
    text = texts(last(play))
    assert "You are team-lead in the team crew" in text and "ada (general-purpose, idle)" in text
    assert "Task #1 (pending" in text and "wash up" in text
    assert f"Waits for your answer:\n{letter}\n" in text and 'teammate_id="ada"' in letter
    assert "Answer it by SendMessage to ada with the message" in letter and "plan_approval_response" in letter


@pytest.mark.spec("T10")
@pytest.mark.parametrize("before", [[], [bash("true")]], ids=["not read yet", "read"])
async def test_after_a_compaction_a_request_to_shut_down_can_still_be_answered(walker: Walker, before: Any) -> None:
    scripts = {
        "main": [create(), mate("ada"), "on", "on", shutdown("ada", reason="The work is\ndone."), "on", "on", "on"],
        "ada": forgetful("ready", *before, TOO_LONG, agree(approve=False, reason="not yet"), *["on"] * 9),
    }
    async with crew(walker, scripts) as play:
        await play.play()
        await play.play("end it")
    shortened = next(r for r in play.requests("ada") if "was shortened" in texts(r))
    (line,) = [line for line in texts(shortened).splitlines() if line.startswith('{"type":"shutdown_request"')]
    assert "The work is\\ndone." in line and "by SendMessage to team-lead with the message" in texts(shortened)
    assert '"shutdown_rejected"' in texts(last(play)) and "not yet" in texts(last(play))


@pytest.mark.spec("I1", "T10")
async def test_a_compacted_teammate_keeps_its_orders_word_for_word(walker: Walker) -> None:
    """The spawn prompt, what the lead told it, and its task; not the words of its peers, nor tasks that it finished."""
    bob_said, told, orders = anyio.Event(), anyio.Event(), "Only the <b>north</b>\n wall."
    scripts = {
        "main": [
            create(), [task("an old one", "done long ago"), task("paint", "Two coats.\n\n  Mind </still-true> edges.")],
            [call("Agent", name="ada", description="d", prompt="SCRIPT:ada\n\nUse  tabs.\nNever push."), mate("bob")],
            after(bob_said, say("ada", orders)), marking(told, "on"), *["on"] * 9,
        ],
        "bob": [say("ada", "bob says: use spaces"), marking(bob_said, "on"), *["on"] * 9],
        "ada": forgetful(
            [update("1", status="completed"), update("2", status="in_progress")],
            after(told, bash("true")), bash("true"), TOO_LONG, *["on"] * 9,
        ),
    }  # fmt: skip
    async with crew(walker, scripts) as play:
        await play.play()
    found = [r for r in play.requests("ada") if "was shortened" in texts(r)]
    (message,) = found[0].messages[:1]
    asked = message.text.partition("</asked-so-far>")[0]
    assert "Use  tabs.\nNever push." in asked and asked.count("Use  tabs.") == 1
    assert "Only the <b>north</b>\n wall." in asked and '\n<teammate-message teammate_id="team-lead"' in asked
    assert "use spaces" not in asked and "done long ago" not in message.text
    assert "Two coats.\n\n  Mind &lt;/still-true> edges." in message.text


# --- several teams, several leads


@pytest.mark.spec("T11")
async def test_the_current_team_is_the_last_one_and_after_its_end_the_one_before(walker: Walker) -> None:
    scripts = {
        "main": [create("one"), mate("ada"), create("two"), mate("bob"), "on"],
        "more": [call("TeamDelete"), task("of one"), say("ada", "still there?"), "on"],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
        await play.play("SCRIPT:more")
        teams = play.session.teamwork.roster
        assert teams.names == {"one"} and teams.team_of(play.id) == "one"
        assert list(members(walker, "one")) == ["team-lead", "ada"]
    calls = ended_calls(play)
    assert calls[1].data["teammate_id"] == "ada@one" and calls[3].data["teammate_id"] == "bob@two"
    assert not any(c.is_error for c in calls) and (home(walker) / "tasks/one/1.json").exists()


@pytest.mark.spec("T11")
async def test_a_second_lead_is_refused_while_the_first_lives_and_takes_over_when_it_is_gone(walker: Walker) -> None:
    scripts = {"main": [create(), mate("ada"), "on"], "ada": ["what-ada-knows", "I remember"]}
    async with crew(walker, scripts) as first:
        await first.play()
        with pytest.raises(UsageError, match="lives"):
            async with crew(walker, scripts, team=TEAM):
                pass
        async with crew(walker, {"main": [create(), "on"]}) as other:
            await other.play()
        assert ended_calls(other)[0].data["name"] == f"{TEAM}-2"
        assert list(members(walker)) == ["team-lead", "ada"]
    scripts["main"] = [say("ada", "who leads you?"), "on"]
    async with crew(walker, scripts, team=TEAM) as second:
        await second.play()
        assert second.session.id != first.session.id and member(second, "team-lead").agent == second.session.id
    (request,) = second.requests("ada")
    assert "what-ada-knows" in str(request.messages) and "who leads you?" in texts(request)
    assert "I remember" in texts(last(second))
    with pytest.raises(UsageError, match="nowhere"):
        async with crew(walker, scripts, team="nowhere"):
            pass


@pytest.mark.spec("T11", "T6")
async def test_a_former_lead_that_comes_back_does_not_lead_a_team_that_has_another_one(walker: Walker) -> None:
    scripts = {"main": [create(), mate("ada"), "on"], "ada": ["ready"]}
    async with crew(walker, scripts) as first:
        await first.play()
    async with crew(walker, {"main": ["on"], "ada": ["ready"]}, team=TEAM) as second:
        await second.play()
        async with crew(walker, {"main": ["x"] * 9}, origin=Origin(resume=first.session.id)) as again:
            await again.play("hello")
            assert not again.session.teamwork.roster.led_here()
        assert member(second, "team-lead").agent == second.session.id


@pytest.mark.spec("T11", "C5", "X6")
async def test_a_former_lead_does_not_resume_members_that_another_one_leads(walker: Walker) -> None:
    scripts = {"main": [create(), mate("ada"), "on"], "ada": ["ready", "resumed"]}
    async with crew(walker, scripts) as first:
        await first.play()
    async with crew(walker, {"main": ["on"], "ada": ["ready"]}, team=TEAM) as second:
        await second.play()
        ada = member(second, "ada").agent
        after = scene({"after": [[say("ada", "hello"), say(ada, "hello"), call("ListAgents")], "on"]})
        async with crew(walker, after, origin=Origin(resume=first.session.id)) as again:
            await again.play("SCRIPT:after")
        (request,) = parts(again, "after")[1:]
        assert all(is_error and "no agent" in text for text, is_error in answers(request, "SendMessage"))
        assert "ada" not in answers(request, "ListAgents")[0][0] and len(again.model.requests) == 2


@pytest.mark.spec("T11", "C1", "H2")
async def test_members_of_a_team_that_is_not_the_current_one_are_reached(walker: Walker) -> None:
    scripts = {
        "main": [
            create("one"),
            [mate("ada"), mate("eve", mode="plan")],
            create("two"),
            [mate("bob"), mate("ada")],
            "on",
        ],
        "more": [[say("ada@one", "to the first ada"), say("eve", "to eve")], "on"],
        "yes": [answer_plan("eve"), "on"],
        "eve": [call("ExitPlanMode", plan="paint"), "ready"],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
        await play.play("SCRIPT:yes")
        await play.play("SCRIPT:more")
        assert list(members(walker, "one")) == ["team-lead", "ada", "eve"]
        read = await until(lambda: all(m["read"] for m in inbox(walker, "team-lead", "one")))
    sent = [c for c in ended_calls(play) if "Stored" in str(c.content) or "sent" in str(c.content)]
    assert read and len(sent) == 3 and not any(c.is_error for c in ended_calls(play))
    assert texts(last(play, "eve")).count("to eve") == 1 and '"approve":true' in texts(last(play, "eve"))
    heard_it = [r for r in play.requests("ada") if "to the first ada" in texts(r)]
    assert len(heard_it) == 1
