"""Answers to questions from the page: once, always, no, no with words. The first answer counts."""

from typing import Any, cast

import anyio

from teamwright.core.errors import UsageError
from teamwright.core.ids import QuestionId
from teamwright.core.permissions.consent import Allow, Decision, Deny, Question
from teamwright.surfaces.port.answering import GivenAnswer, Scope, give_answer
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
    given = GivenAnswer(question, _decision(question, call), _scope(question, call), via=VIA)
    with anyio.fail_after(LIMIT):
        try:
            await give_answer(port, guest.fold.questions, given)
        except UsageError:
            await _gone(guest, id)
            if any(q.id == id for q in guest.fold.questions):
                raise  # it is the mode or a rule that was refused
            raise Refused(409, too_late(guest, id)) from None
        await _gone(guest, id)
    return {"ok": True}


def _scope(question: Question, call: Call) -> Scope:
    always, mode = call.body.get("always"), call.text("mode", "", 40)
    if mode and always:
        raise Refused(400, "`always` and `mode` cannot both be given")
    if mode:
        if mode != "acceptEdits":
            raise Refused(400, "`mode` can be acceptEdits, or be left out")
        return "edits"
    match always:
        case None | "":
            return "once"
        case "agent" if question.outside:
            raise Refused(400, "commands leave the sandbox for all agents or for none: `always` must be all")
        case "agent" | "all":
            return always
        case _:
            raise Refused(400, "`always` must be agent or all")


async def _gone(guest: Guest, id: QuestionId) -> None:
    """The page that answered sees the question vanish along with its response."""
    with anyio.move_on_after(1):
        await guest.until(lambda: all(q.id != id for q in guest.fold.questions))


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
