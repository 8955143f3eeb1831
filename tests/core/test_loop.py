"""The loop alone, with everything around it in memory: what it sends and runs, and in which order."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from histories import check_valid

from teamwright.core.data.conversation.history import History
from teamwright.core.data.event import AgentStarted, Event, LettersTaken, Rendered, ToolEnded, ToolStarted, is_durable
from teamwright.core.data.letter import PERSON, Letter, Prompt, due
from teamwright.core.data.message import Request, Text, ToolCall, ToolResult, ToolSpec
from teamwright.core.ids import AgentId, LetterId, SessionId
from teamwright.core.loop import TurnContext, run_turn
from teamwright.core.permissions.consent import Allow, Decision, Deny
from teamwright.core.policies.budget import Limits, Reached, Spent, reached, words
from teamwright.core.ports import Desk, Outcome, said
from teamwright.models.scripted import ScriptedModel, call

pytestmark = pytest.mark.anyio
ME = AgentId("me")


def letter(text: str, priority: str = "next") -> Letter:
    return Letter(LetterId(f"l-{text}"), ME, PERSON, Prompt((Text(text),)), priority)


class Stage:
    """Plays every port of the loop and writes down what happened, in order."""

    def __init__(self, script: Any, *, turns: int | None = None, denied: Sequence[str] = ()) -> None:
        self.story: list[str] = []
        self.waiting: list[Letter] = []
        self.model = ScriptedModel(script)
        self.history = History()
        self.limits, self.denied = Limits(turns=turns), denied
        self.running = 0
        self.together = 0  # the most tools that ran at once
        for event in (AgentStarted(SessionId("s"), "/", "1"), Rendered("h", "script/x", "start")):
            self.history.apply(event)
        tools = {name: Noted(name, self) for name in ("Look", "Touch", "Post")}
        desk = Desk(Path("/"), (Path("/"),))
        self.seat = TurnContext(
            agent=ME, history=self.history, model=self, tools=tools, inbox=self, gate=self, meter=self, desk=desk,
            letter_room=9999, emit=self.emit, request=self.request, sync=self.sync,
        )  # fmt: skip

    def emit(self, event: Event) -> None:
        if is_durable(event):
            self.history.apply(event)
        if isinstance(event, LettersTaken):
            self.story.append("letters")
        if isinstance(event, ToolEnded):
            self.story.append("ended")
        if isinstance(event, ToolStarted):
            self.story.append("started")

    def request(self) -> Request:
        return Request("script/x", (), (), tuple(self.history.messages), self.history.asked)

    async def sync(self) -> None:
        self.story.append("sync")

    async def reply(self, request: Request, on_delta):
        self.story.append("request")
        check_valid(request.messages)
        return await self.model.reply(request, on_delta)

    async def take(self, *, at_rest: bool) -> list[Letter]:
        now = due(self.waiting, at_rest=at_rest)
        self.waiting = [x for x in self.waiting if x not in now]
        return now

    def acknowledge(self, letters: Sequence[LetterId]) -> None:
        self.story.append("acknowledge")

    async def ask(self, agent: AgentId, call: ToolCall) -> Decision:
        assert agent == ME
        return Deny("not that") if call.name in self.denied else Allow()

    def reached(self) -> Reached | None:
        limit = reached(self.limits, Spent(turns=self.history.turns))
        return Reached(limit, words(limit, self.limits), may_report=False) if limit else None


class Noted:
    """A tool that reports when it runs, and lets its neighbours run meanwhile."""

    def __init__(self, name: str, stage: Stage) -> None:
        self.spec = ToolSpec(name, name, {}, parallel=name == "Look", stores=name == "Post")
        self.stage = stage

    async def call(self, args, ctx) -> Outcome:
        stage = self.stage
        stage.story.append(self.spec.name)
        stage.running += 1
        stage.together = max(stage.together, stage.running)
        for _ in range(args.get("rounds", 3)):
            await anyio.lowlevel.checkpoint()
        stage.running -= 1
        if args.get("then"):
            stage.waiting.append(letter(args["then"], args.get("priority", "next")))
        return said(f"{self.spec.name} {args.get('n', '')}")


def results(request: Request) -> list[str]:
    """The texts of the results in the last message."""
    return [b.content[0].text for b in request.messages[-1].blocks if isinstance(b, ToolResult)]


@pytest.mark.spec("A2", "Q5", "X2")
async def test_a_letter_is_recorded_then_synced_then_acknowledged_then_sent() -> None:
    stage = Stage(["hello"])
    end = await run_turn(stage.seat, [letter("hi")])
    assert (end.reason, end.text) == ("done", "hello")
    assert stage.story == ["letters", "sync", "acknowledge", "sync", "request"]


@pytest.mark.spec("A2")
async def test_a_result_is_synced_before_the_next_request() -> None:
    stage = Stage([call("Touch"), "done"])
    await run_turn(stage.seat, [letter("go")])
    assert stage.story[4:] == ["request", "started", "Touch", "ended", "sync", "request"]


@pytest.mark.spec("Z8")
async def test_where_lines_are_elsewhere_a_call_waits_until_its_begin_is_there() -> None:
    stage = Stage([[call("Look"), call("Touch")], "done"])
    stage.seat.started = stage.sync
    await run_turn(stage.seat, [letter("go")])
    assert stage.story[4:] == ["request", "Look", "ended", "started", "sync", "Touch", "ended", "sync", "request"]


@pytest.mark.spec("X2")
async def test_a_call_is_synced_before_its_effects_are_stored() -> None:
    stage = Stage([[call("Look"), call("Post"), call("Post")], "done"])
    await run_turn(stage.seat, [letter("go")])
    work = [word for word in stage.story[4:] if word not in ("started", "ended")]
    assert work == ["request", "sync", "Look", "Post", "Post", "sync", "request"]


@pytest.mark.spec("A1")
async def test_reads_run_together_and_effects_alone_in_their_place() -> None:
    calls = [call("Look", n=1, rounds=9), call("Look", n=2), call("Touch", n=3), call("Touch", n=4), call("Look", n=5)]
    stage = Stage([calls, "done"])
    await run_turn(stage.seat, [letter("go")])
    work = [word for word in stage.story if word in ("Look", "Touch", "ended")]
    assert work == ["Look", "Look", "ended", "ended", "Touch", "ended", "Touch", "ended", "Look", "ended"]
    assert stage.together == 2
    assert results(stage.model.requests[1]) == ["Look 1", "Look 2", "Touch 3", "Touch 4", "Look 5"]


@pytest.mark.spec("Q2", "C2")
async def test_a_letter_joins_at_the_tool_boundary_and_a_later_one_at_rest() -> None:
    both = [call("Touch", then="soon"), call("Touch", then="whenever", priority="later")]
    stage = Stage([both, call("Touch"), "resting", "end"])
    end = await run_turn(stage.seat, [letter("go")])
    prompts = [[m.text for m in r.messages if m.role == "user" and m.text] for r in stage.model.requests]
    assert prompts == [["go"], ["go", "soon"], ["go", "soon"], ["go", "soon", "whenever"]]
    assert end.text == "end" and not stage.waiting


@pytest.mark.spec("A9", "M10")
async def test_a_denial_and_an_unknown_tool_are_results_and_neighbours_run() -> None:
    stage = Stage([[call("Touch"), call("Nothing"), call("Look", n=1)], "done"], denied=["Touch"])
    await run_turn(stage.seat, [letter("go")])
    denied, unknown, fine = results(stage.model.requests[1])
    assert denied == "not that" and "no tool `Nothing`" in unknown and "Look, Touch" in unknown and fine == "Look 1"
    assert "started" not in stage.story


@pytest.mark.spec("O6")
async def test_the_results_of_the_last_turn_are_kept_and_no_request_follows() -> None:
    stage = Stage([["words", call("Touch")]] * 5, turns=2)
    end = await run_turn(stage.seat, [letter("go")])
    assert (end.reason, end.text) == ("max_turns", "words") and "2 turns" in end.error
    assert stage.story.count("request") == 2 and stage.story.count("ended") == 2
    check_valid(stage.history.messages)


@pytest.mark.spec("A9")
@pytest.mark.parametrize("stop", ["max_tokens", "refusal"])
async def test_a_reply_that_ends_badly_answers_its_calls_without_running_them(stop: str) -> None:
    stage = Stage([{"blocks": ["words", call("Touch")], "stop": stop}] * 5)
    end = await run_turn(stage.seat, [letter("go")])
    assert "Touch" not in stage.story and end.reason == ("refused" if stop == "refusal" else "failed")
    assert stage.story.count("request") == (1 if stop == "refusal" else 3)
    check_valid(stage.history.messages)


@pytest.mark.spec("A9")
async def test_a_good_reply_between_two_cut_ones_starts_the_count_anew() -> None:
    cut = {"blocks": ["words"], "stop": "max_tokens"}
    stage = Stage([cut, cut, call("Look"), cut, cut, "done"])
    assert (await run_turn(stage.seat, [letter("go")])).reason == "done"


@pytest.mark.spec("A9")
async def test_an_answer_in_several_replies_is_told_whole() -> None:
    """Also past an empty reply. What came before a call is no part of the answer."""

    def cut(words: str) -> dict[str, Any]:
        return {"blocks": [words], "stop": "max_tokens"}

    for script, text in (
        ([cut("one half, "), "and the other"], "one half, and the other"),
        ([cut("a"), cut("b"), "c"], "abc"),
        ([cut("a"), [], "b"], "ab"),
        ([cut("a"), [], []], "a"),
        ([{"blocks": ["I look", call("Look")], "stop": "max_tokens"}, "it is there"], "it is there"),
        ([cut("I will"), call("Look"), "it is there"], "it is there"),
        ([cut("I will"), ["look", call("Look")], cut("it is"), " there"], "it is there"),
        ([cut("a"), cut("b"), cut("c")], "abc"),
    ):
        steps = iter([*script, "anew"])
        stage = Stage(lambda _, steps=steps: next(steps))
        end = await run_turn(stage.seat, [letter("go")])
        assert end.text == text == stage.history.last_words
        stage.emit(end)
        assert (await run_turn(stage.seat, [letter("and?")])).text == "anew"


@pytest.mark.spec("A9")
async def test_pauses_have_a_bound_that_the_model_is_told_once() -> None:
    pause = {"blocks": ["searching"], "stop": "pause"}
    stage = Stage([pause] * 99)
    end = await run_turn(stage.seat, [letter("go")])
    assert end.reason == "failed" and "paused 11 times in a row" in end.error
    told = [m.text for m in stage.history.messages if "paused" in m.text]
    assert stage.story.count("request") == 11 and len(told) == 1
    check_valid(stage.history.messages)
    stage = Stage([*[pause] * 10, "found it"])
    assert (await run_turn(stage.seat, [letter("go")])).text == "found it"
    stage = Stage([*[pause] * 10, call("Look"), *[pause] * 10, "found it"])
    assert (await run_turn(stage.seat, [letter("go")])).text == "found it"


async def test_a_pause_goes_on_by_itself() -> None:
    stage = Stage([{"blocks": ["thinking"], "stop": "pause"}, "done"])
    end = await run_turn(stage.seat, [letter("go")])
    assert end.text == "done" and stage.story.count("request") == 2
