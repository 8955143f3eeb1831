"""What the app does when a dialog asks for it: ops for the session."""

from collections.abc import Sequence

from teamwright.core.data.op import AddRules, Answer
from teamwright.core.errors import UsageError
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Allow, Decision, Question
from teamwright.runtime.port import SessionPort
from teamwright.surfaces.terminal.messages import Scope


async def answer(
    session: SessionPort, waiting: Sequence[Question], question: Question, decision: Decision, scope: Scope
) -> list[Question]:
    """Answer it, with its suggested rules if they are to hold from now on. Returns what those rules answered too."""
    covered: list[Question] = []
    if isinstance(decision, Allow) and scope != "once" and question.suggestions:
        only = question.agent if scope == "agent" else None
        await session.submit(AddRules(question.suggestions, "allow", only))
        covered = _covered(waiting, question, only)
    await session.submit(Answer(question.id, decision))
    done: list[Question] = []
    for other in covered:
        try:
            await session.submit(Answer(other.id, Allow()))
        except UsageError:  # somebody else was quicker, or it was withdrawn
            continue
        done.append(other)
    return done


def _covered(waiting: Sequence[Question], question: Question, only: AgentId | None) -> list[Question]:
    """Questions that would not be asked any more: the rules that would answer each are all there now."""
    rules = set(question.suggestions)
    return [
        other
        for other in waiting
        if other.id != question.id
        and other.suggestions
        and rules.issuperset(other.suggestions)
        and only in (None, other.agent)
    ]
