"""Questions of agents: the open dialog, those put off, and the ops that answer them."""

from collections.abc import Sequence
from typing import Any, cast

from textual.app import App

from teamwright.core.data.op import AddRules, Answer
from teamwright.core.errors import UsageError
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Allow, Decision, Question
from teamwright.runtime.port import SessionPort
from teamwright.surfaces.terminal.dialogs.ask_form import AskScreen
from teamwright.surfaces.terminal.dialogs.base import QuestionScreen
from teamwright.surfaces.terminal.dialogs.question_list import QuestionsScreen, screen_for
from teamwright.surfaces.terminal.messages import Scope
from teamwright.surfaces.view.shapes import AgentView
from teamwright.surfaces.view.view import SessionFold


class QuestionQueue:
    """Opens a dialog once for each waiting question; postponed ones are opened again on demand."""

    def __init__(self, app: App[Any], view: SessionFold) -> None:
        self._app, self._view = app, view
        self._seen: set[str] = set()

    def look(self) -> None:
        """Open what is new if no dialog is open, and close a dialog whose question waits no more."""
        questions, app = self._waiting(), self._app
        new = [question for question in questions if question.id not in self._seen]
        self._seen &= {question.id for question in questions}
        if new and len(app.screen_stack) == 1:
            self.open()
        top = app.screen
        if isinstance(top, QuestionScreen | AskScreen) and top.question not in questions:
            top.dismiss()  # somebody else was quicker, or nobody wants to know any more

    def open(self) -> None:
        questions = self._waiting()
        agents = cast("dict[object, AgentView]", self._view.agents)
        self._seen.update(question.id for question in questions)
        if len(questions) == 1:
            self._app.push_screen(screen_for(questions[0], agents))
        elif questions:
            self._app.push_screen(QuestionsScreen(self._waiting, agents))

    def _waiting(self) -> list[Question]:
        return self._view.questions


async def answer(
    session: SessionPort, waiting: Sequence[Question], question: Question, decision: Decision, scope: Scope
) -> list[Question]:
    """Answer it, and add its suggested rules if `scope` says so. Returns what those rules answered too."""
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
