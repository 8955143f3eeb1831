"""Side questions: what these forks share with the agent, what they may not touch, and what they cost."""

from typing import Any

import pytest
from live import ledger

from conftest import Walker
from crew import NO_ANSWERS, agent, bash, check_valid, crew
from teamwright.core.data.conversation.fork import PLACEHOLDER
from teamwright.core.data.event import AsideAnswered, Denied, Replied, ToolEnded, TurnEnded
from teamwright.core.data.message import Request, user
from teamwright.core.data.op import AskAside
from teamwright.core.errors import ModelError, UsageError
from teamwright.core.policies.budget import Limits
from teamwright.models.scripted import ScriptedModel, call
from teamwright.runtime.side_questions.fork import run_forked

pytestmark = pytest.mark.anyio


def is_aside(request: Request) -> bool:
    return "<side-question>" in "".join(m.text for m in request.messages)


def main_only(steps: list[Any], aside: Any = "beside") -> ScriptedModel:
    """`steps` play the conversation; every side question gets `aside`."""

    async def play(request: Request) -> Any:
        check_valid(request.messages)
        step: Any = aside if is_aside(request) else steps[sum(m.role == "assistant" for m in request.messages)]
        if callable(step):
            step = step(request)
        return await step if hasattr(step, "__await__") else step

    return ScriptedModel(play)


def transcript(walker: Walker) -> bytes:
    (file,) = (walker.store / "projects").glob("*/*.jsonl")
    return file.read_bytes()


def extends(later: Request, earlier: Request) -> bool:
    same = (later.system, later.tools, later.model) == (earlier.system, earlier.tools, earlier.model)
    return same and later.messages[: len(earlier.messages)] == earlier.messages


@pytest.mark.spec("I4", "R10")
async def test_a_side_question_leaves_no_trace_and_shares_the_prefix(walker: Walker) -> None:
    async with crew(walker, main_only(["one", "two"])) as walk:
        await walk.play("first")
        before, written = list(walk.session.main.history.messages), transcript(walker)
        await walk.submit(AskAside("what did I say?"))
        assert walk.session.main.history.messages == before and transcript(walker) == written
        await walk.play("second")
    first, aside, second = walk.model.requests
    assert extends(aside, first) and extends(second, first)
    assert "what did I say?" in aside.messages[-1].text and aside.previous == len(first.messages)  # served by the cache
    assert not is_aside(second) and [m.text for m in second.messages] == ["first", "one", "second"]
    assert walk.of(AsideAnswered) == [AsideAnswered("what did I say?", "beside")]


@pytest.mark.spec("I4")
async def test_it_is_answered_while_a_turn_runs_and_open_calls_have_placeholders(walker: Walker) -> None:
    mark = walker.project / "go"
    wait = bash(f"while ! [ -e {mark} ]; do sleep 0.02; done; echo woke")
    async with crew(walker, main_only([[call("Glob", pattern="*"), wait], "done"])) as walk:
        await walk.say("first")
        await walk.until(ToolEnded)
        assert await walk.session.aside("how far are you?") == "beside"
        assert walk.session.main.running
        mark.touch()
        await walk.session.idle()
        assert walk.session.main.history.last_words == "done"
    first, aside, last = walk.model.requests
    assert extends(aside, first) and extends(last, first)
    assert PLACEHOLDER in repr(aside.messages[-1]) and PLACEHOLDER not in repr(last.messages)
    assert "woke" in repr(last.messages[-1])


@pytest.mark.spec("I4")
async def test_no_tool_runs_for_it_and_the_agent_is_told_to_use_words(walker: Walker) -> None:
    made = walker.project / "made"

    def answer(request: Request) -> Any:
        return bash(f"touch {made}") if request.messages[-1].text else "in words then"

    async with crew(walker, main_only(["one"], answer)) as walk:
        await walk.play()
        assert await walk.session.aside("make it?") == "in words then"
    assert not made.exists() and walk.of(Denied) == [] and len(walk.model.requests) == 3


@pytest.mark.spec("I4")
@pytest.mark.parametrize("answer", NO_ANSWERS.values(), ids=NO_ANSWERS)
async def test_what_no_answer_comes_of_is_an_error_not_the_agents_old_words(walker: Walker, answer: Any) -> None:
    async with crew(walker, main_only(["old words"], answer)) as walk:
        await walk.play()
        for question, words in (("a?", "was not answered"), ("  \n", "no question")):
            with pytest.raises(UsageError, match=words):
                await walk.session.aside(question)
    assert walk.of(AsideAnswered) == []


async def test_a_model_out_of_reach_is_told_and_the_conversation_goes_on(walker: Walker) -> None:
    async with crew(walker, main_only(["one", "two"], ModelError("no route", "network"))) as walk:
        await walk.play()
        with pytest.raises(ModelError, match="no route"):
            await walk.session.aside("a?")
        assert (await walk.play("more")).text == "two"


@pytest.mark.spec("I4", "A9")
async def test_it_counts_in_the_ledger_and_against_the_budget_but_is_no_turn(walker: Walker) -> None:
    async with crew(walker, main_only(["one", "two"]), limits=Limits(turns=1)) as walk:
        await walk.play()
        used, turns = walk.session.meter.usage.total, walk.session.meter.turns
        await walk.session.aside("a?")
        assert walk.session.meter.usage.total > used and walk.session.meter.turns == turns == 1
    assert len(ledger(walker)) == 2 and all(row[1] for row in ledger(walker))


@pytest.mark.spec("I4", "A9")
@pytest.mark.parametrize("limits", [Limits(tokens=10), Limits(turns=1, tokens=10)], ids=["tokens", "turns too"])
async def test_where_the_budget_is_used_up_no_request_leaves(walker: Walker, limits: Limits) -> None:
    async with crew(walker, main_only(["one"]), limits=limits) as walk:
        await walk.play()
        with pytest.raises(UsageError, match="10 tokens"):
            await walk.session.aside("a?")
    assert not [r for r in walk.model.requests if is_aside(r)]


@pytest.mark.spec("R10")
async def test_the_caller_has_what_came_of_it_and_may_choose_another_base(walker: Walker) -> None:
    async with crew(walker, main_only(["one"], "unused")) as walk:
        await walk.play("first")
        main = walk.session.main
        done = await run_forked(main, [user("<side-question>")], base=())
        assert done.text == "unused" and done.usage.output
    assert [m.text for m in walk.model.requests[-1].messages] == ["<side-question>"]


@pytest.mark.spec("I2", "I3", "I5", "I6")
async def test_without_settings_nothing_leaves_that_the_conversation_did_not_ask_for(walker: Walker) -> None:
    scripts = {"main": [agent("kid", run_in_background=True), "one", "two", "three"], "kid": [bash("true"), "r"]}
    async with crew(walker, scripts, can_ask=True, proactive=True) as walk:
        await walk.play()
        await walk.play("more")
    assert {end.reason for end in walk.of(TurnEnded)} == {"done"}
    assert len(walk.model.requests) == len(walk.of(Replied)) == len(ledger(walker)) > 4
    assert not (walker.home / ".teamwright/memory").exists()
