"""Answers to questions from the page: once, always, no, no with words. The first answer counts."""

from collections.abc import Sequence
from typing import Any, cast

import anyio

from teamwright.core.data.op import AddRules, Answer, SetMode
from teamwright.core.errors import UsageError
from teamwright.core.ids import QuestionId
from teamwright.core.permissions.consent import Allow, Decision, Deny, Question
from teamwright.surfaces.view.sentences import DECLINED, SAID_WHY, refusal
from teamwright.surfaces.web.server.errors import Refused
from teamwright.surfaces.web.server.serve import Call
from teamwright.surfaces.web.sessions.guest import Guest
from teamwright.surfaces.web.sessions.shown import kind_of

VIA = "web"
LIMIT = 30.0

Json = dict[str, Any]


async def answer(guest: Guest, call: Call) -> Json:
    id, port = QuestionId(call.names["question"]), guest.port
    question = next((q for q in guest.fold.questions if q.id == id), None)
    if question is None or port is None:
        raise Refused(409, too_late(guest, id))
    decision, always = _decision(question, call), call.body.get("always")
    if always not in (None, "", "agent", "all"):
        raise Refused(400, "`always` must be agent or all")
    covered: list[Question] = []
    with anyio.fail_after(LIMIT):
        if isinstance(decision, Allow) and (mode := call.text("mode", "", 40)):
            if mode != "acceptEdits":
                raise Refused(400, "`mode` can be acceptEdits, or be left out")
            await port.submit(SetMode(mode))
        if isinstance(decision, Allow) and always and question.suggestions:
            only = question.agent if always == "agent" else None
            await port.submit(AddRules(question.suggestions, "allow", only))
            covered = _covered(guest.fold.questions, question, only=bool(only))
        try:
            await port.submit(Answer(id, decision, VIA))
        except UsageError:
            raise Refused(409, too_late(guest, id)) from None
        for other in covered:
            try:
                await port.submit(Answer(other.id, Allow(), VIA))
            except UsageError:
                continue  # somebody else was quicker
        await _gone(guest, id)
    return {"ok": True}


async def _gone(guest: Guest, id: QuestionId) -> None:
    """The page that answered sees the question vanish along with its response."""
    with anyio.move_on_after(1):
        await guest.until(lambda: all(q.id != id for q in guest.fold.questions))


def _covered(waiting: Sequence[Question], question: Question, *, only: bool) -> list[Question]:
    """Questions that would no longer be asked, because all rules that answer them now exist."""
    there = frozenset(question.suggestions)
    return [
        other
        for other in waiting
        if other.id != question.id
        and other.suggestions
        and there.issuperset(other.suggestions)
        and (not only or other.agent == question.agent)
    ]


def _decision(question: Question, call: Call) -> Decision:
    verdict, reason = call.text("decision", None, 20), call.text("reason", "", 20_000).strip()
    kind = kind_of(question)
    if verdict == "deny":
        if kind in ("ask", "form"):
            return Deny(f"The person would rather not answer.{SAID_WHY}{reason}" if reason else DECLINED, words=reason)
        return Deny(refusal(reason), words=reason)
    if verdict != "allow":
        raise Refused(400, "`decision` must be allow or deny")
    if kind in ("ask", "form"):
        given = call.body.get("answers")
        if not isinstance(given, dict):
            raise Refused(400, "`answers` must be there")
        answers = cast("dict[str, Any]", given)
        if kind == "ask" and not all(isinstance(value, str) for value in answers.values()):
            raise Refused(400, "`answers` must be texts")
        return Allow({**question.args, "answers" if kind == "ask" else "content": answers})
    return Allow()


def too_late(guest: Guest, id: QuestionId) -> str:
    """Who answered it and where, if known."""
    decision = guest.fold.answered.get(id)
    if decision is None:
        return "this question does not wait any more: it was answered or withdrawn"
    consent = decision.consent
    verb = "allowed" if isinstance(decision, Allow) else "denied"
    where = f" in the {consent.via}" if consent is not None and consent.via in ("terminal", "web") else ""
    by = " because nobody answered in time" if consent is not None and consent.by == "nobody" else ""
    return f"too late: it was {verb}{where}{by}"
