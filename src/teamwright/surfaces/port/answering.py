"""Answers agents' questions, and carries out the scope of a yes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.op import AddRules, Answer, SetMode
from teamwright.core.errors import TeamwrightError, UsageError
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Allow, Behaviour, Decision, Question
from teamwright.runtime.port import SessionPort

if TYPE_CHECKING:
    from teamwright.app import Options

# A yes for this call only; for all that its rules cover: for one agent, this session or this project; or for all edits.
Scope = Literal["once", "agent", "all", "project", "edits"]


class GivenAnswer(Struct, frozen=True):
    """`wide`: use the wider of its rules. `via`: the surface on which the answer was given."""

    question: Question
    decision: Decision
    scope: Scope = "once"
    wide: bool = False
    via: str = ""


async def give_answer(
    session: SessionPort, waiting: Sequence[Question], given: GivenAnswer, options: "Options | None" = None
) -> list[Question]:
    """Answer a question and carry out the rest of its scope. Returns the other questions that this answered.

    Only the scope `project` needs `options`.
    Rules that cannot be saved still hold for this session; the error is raised once everything is answered.
    """
    question, scope = given.question, given.scope
    rules = question.outside or (question.wider if given.wide else question.suggestions)
    covered: list[Question] = []
    fault: TeamwrightError | None = None
    if isinstance(given.decision, Allow) and scope == "edits":
        await session.submit(SetMode("acceptEdits"))
        covered = _other_edits(waiting, question)
    elif isinstance(given.decision, Allow) and scope != "once" and rules:
        fault = await _add(session, question, rules, scope, options)
        covered = _covered(waiting, question, rules, question.agent if scope == "agent" else None)
    await session.submit(Answer(question.id, given.decision, given.via))
    done = await _allow_all(session, covered, given.via)
    if fault is not None:
        raise UsageError(f"always holds for this session only: {fault}")
    return done


def _other_edits(waiting: Sequence[Question], question: Question) -> list[Question]:
    return [other for other in waiting if other.id != question.id and other.is_edit]


async def _allow_all(session: SessionPort, covered: Sequence[Question], via: str) -> list[Question]:
    """Answer the questions that are still open."""
    done: list[Question] = []
    for other in covered:
        try:
            await session.submit(Answer(other.id, Allow(), via))
        except UsageError:  # somebody else was quicker, or the question was withdrawn
            continue
        done.append(other)
    return done


async def _add(
    session: SessionPort, question: Question, rules: tuple[str, ...], scope: Scope, options: "Options | None"
) -> TeamwrightError | None:
    fault = None
    kinds: tuple[Behaviour, ...] = ("allow", "outside") if question.outside else ("allow",)
    if scope == "project":
        from teamwright.app.saved_rules import keep_rules  # noqa: PLC0415  # all parts of a session come with it

        assert options is not None
        try:
            for kind in kinds:
                await to_thread.run_sync(keep_rules, replace(options, cwd=session.cwd), kind, rules)
        except TeamwrightError as error:
            fault = error
    only = question.agent if scope == "agent" else None
    saved = scope == "project" and fault is None
    for kind in kinds:
        await session.submit(AddRules(rules, kind, only, "local" if saved else "session"))
    return fault


def _covered(
    waiting: Sequence[Question], question: Question, rules: Sequence[str], only: AgentId | None
) -> list[Question]:
    """Questions that would no longer be asked, because all rules that answer them now exist."""
    there = frozenset(rules)
    return [
        other
        for other in waiting
        if other.id != question.id
        and any(needed and there.issuperset(needed) for needed in _answering(other, question))
        and only in (None, other.agent)
    ]


def _answering(other: Question, given: Question) -> tuple[tuple[str, ...], ...]:
    """Sets of rules that answer it. Only a yes to leaving the sandbox makes rules that answer another such question."""
    return (other.suggestions, other.wider, *([other.outside] if given.outside else []))
