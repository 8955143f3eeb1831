"""Questions to a person: each is answered, expires, is withdrawn, or is seen waiting. None is silently dropped."""

import anyio
import pytest
from msgspec.structs import replace

from teamwright.core.data.event import Answered, Asked, Event
from teamwright.core.ids import AgentId, CallId, QuestionId
from teamwright.core.permissions.consent import Allow, Consent, Decision, Deny, Question
from teamwright.runtime.permissions.questions import Questions

pytestmark = [pytest.mark.anyio, pytest.mark.spec("M10")]
ME = AgentId("me")


def question(id: str = "q1") -> Question:
    return Question(QuestionId(id), ME, "main", CallId("c"), "Bash", {"command": "x"}, "no allow rule covers it.")


def bare(decision: Decision) -> Decision:
    """Without the record of who gave it and when."""
    return replace(decision, consent=None)


class Room:
    def __init__(self, limit: float | None = 5, code=None) -> None:
        self.told: list[Event] = []
        self.questions = Questions(lambda _agent, event: self.told.append(event), limit, code)
        self.decisions: dict[str, Decision] = {}
        self.whole: dict[str, Decision] = {}

    async def put(self, id: str = "q1") -> None:
        self.whole[id] = await self.questions.put(question(id))
        self.decisions[id] = bare(self.whole[id])

    def ends(self) -> list[Decision | None]:
        """The end of every question, as watchers saw it; each was asked first."""
        assert [e.question.id for e in self.told if isinstance(e, Asked)] == [
            e.question for e in self.told if isinstance(e, Answered)
        ]
        decisions = [e.decision for e in self.told if isinstance(e, Answered)]
        return [decision and bare(decision) for decision in decisions]


async def test_an_answer_reaches_who_asked_and_counts_once() -> None:
    room = Room()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(room.put)
            await anyio.wait_all_tasks_blocked()
            assert [q.id for q in room.questions.waiting] == ["q1"]
            assert room.questions.answer(QuestionId("q1"), Allow())
            assert not room.questions.answer(QuestionId("q1"), Deny("too late"))
    assert room.decisions == {"q1": Allow()} and room.ends() == [Allow()] and room.questions.waiting == []


async def test_answers_find_their_own_question() -> None:
    room = Room()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(room.put, "q1")
            group.start_soon(room.put, "q2")
            await anyio.wait_all_tasks_blocked()
            assert not room.questions.answer(QuestionId("q3"), Allow())
            assert room.questions.answer(QuestionId("q2"), Deny("no"))
            await anyio.wait_all_tasks_blocked()
            assert [q.id for q in room.questions.waiting] == ["q1"]
            assert room.questions.answer(QuestionId("q1"), Allow())
    assert room.decisions == {"q2": Deny("no"), "q1": Allow()}


async def test_past_its_limit_a_question_is_a_denial_that_says_so() -> None:
    room = Room(limit=0.01)
    await room.put()
    decision = room.decisions["q1"]
    assert isinstance(decision, Deny) and "Nobody answered" in decision.reason and "0.01 s" in decision.reason
    assert room.ends() == [None] and not room.questions.answer(QuestionId("q1"), Allow())


async def test_a_cancelled_asker_withdraws_its_question() -> None:
    room = Room(limit=None)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(room.put)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
    assert room.ends() == [None] and room.questions.waiting == [] and room.decisions == {}


async def test_when_everybody_leaves_what_waits_is_denied_and_what_comes_later_at_once() -> None:
    room = Room(limit=None)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(room.put)
            await anyio.wait_all_tasks_blocked()
            room.questions.leave("Nobody is left.")
        await room.put("q2")
    for decision in room.decisions.values():
        assert isinstance(decision, Deny) and decision.reason.endswith("Nobody is left.")
    assert len(room.decisions) == 2 and len(room.ends()) == 1  # the later one was never shown to anybody


async def test_code_can_answer() -> None:
    async def answer(asked: Question) -> Decision:
        return Allow({"command": asked.args["command"] + "y"})

    room = Room(code=answer)
    await room.put()
    assert room.decisions == {"q1": Allow({"command": "xy"})} == {"q1": room.ends()[0]}


async def test_code_that_takes_too_long_is_a_denial_too() -> None:
    async def answer(_: Question) -> Decision:
        await anyio.sleep_forever()
        raise AssertionError

    room = Room(limit=0.01, code=answer)
    with anyio.fail_after(5):
        await room.put()
    assert isinstance(room.decisions["q1"], Deny)


async def test_an_answer_says_who_gave_it_where_and_how_long_it_was_waited_for() -> None:
    room = Room()
    forged = Consent("nobody", "elsewhere", "deny", 1, 2)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(room.put)
            await anyio.wait_all_tasks_blocked()
            assert room.questions.answer(QuestionId("q1"), Allow(consent=forged), via="web")
    consent = room.whole["q1"].consent
    assert consent is not None and (consent.by, consent.via, consent.verdict) == ("person", "web", "allow")
    assert 0 < consent.asked <= consent.answered <= consent.asked + 5_000


async def test_a_question_that_nobody_answered_says_so() -> None:
    room = Room(limit=0.01)
    await room.put()
    consent = room.whole["q1"].consent
    assert consent is not None and (consent.by, consent.verdict) == ("nobody", "expired")
    assert consent.answered >= consent.asked
