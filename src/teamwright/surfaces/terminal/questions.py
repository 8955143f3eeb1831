"""Agents' questions: the open dialog, postponed questions, and the ops that answer them."""

from collections.abc import Sequence
from typing import Any, cast

from textual.app import App

from teamwright.app import Options
from teamwright.core.data.extensions.server import ELICITATION
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Allow, Decision, Deny, Question
from teamwright.runtime.port import SessionPort
from teamwright.surfaces.port.answering import GivenAnswer, give_answer
from teamwright.surfaces.terminal.dialogs.ask_form import AskScreen, declined, questions_of
from teamwright.surfaces.terminal.dialogs.base import QuestionScreen
from teamwright.surfaces.terminal.dialogs.docked import DockedScreen
from teamwright.surfaces.terminal.dialogs.elicit_form import ElicitScreen
from teamwright.surfaces.terminal.dialogs.question_list import QuestionsScreen, screen_for
from teamwright.surfaces.terminal.messages import AnswerQuestion
from teamwright.surfaces.view.sentences import refusal
from teamwright.surfaces.view.shapes import AgentView
from teamwright.surfaces.view.view import SessionFold


class QuestionQueue:
    """Opens a dialog once for each waiting question; postponed ones are opened again on demand."""

    def __init__(self, app: App[Any], view: SessionFold) -> None:
        self._app, self._view = app, view
        self._seen: set[str] = set()

    @property
    def hint(self) -> str:
        """For the status line while a dialog is open."""
        return "? waiting for your answer" if isinstance(self._app.screen, DockedScreen) else ""

    def look(self) -> None:
        """Open a new question if no dialog is open, and close a dialog whose question no longer waits."""
        questions, app = self._waiting(), self._app
        new = [question for question in questions if question.id not in self._seen]
        self._seen &= {question.id for question in questions}
        if new and len(app.screen_stack) == 1:
            self.open()
        top = app.screen
        if isinstance(top, QuestionScreen | AskScreen | ElicitScreen) and top.question not in questions:
            top.dismiss()  # somebody else was quicker, or the question was withdrawn

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


def blocking(view: SessionFold, agent: AgentId) -> Question | None:
    """The first question that must be answered before this agent continues: its own, or that of an agent it waits
    for."""
    for question in view.questions:
        asks = view.agents.get(question.agent)
        while asks is not None:
            if asks.id == agent:
                return question
            waited_for = asks.parent if not asks.background and not asks.team else None
            asks = view.agents.get(waited_for) if waited_for else None
    return None


def in_words(question: Question, words: str) -> Decision:
    """The typed text as an answer: unless an agent asks a single question, it is a no with a reason."""
    asked = questions_of(question)
    if asked is not None and len(asked) == 1:
        return Allow({**question.args, "answers": {asked[0].question: words}})
    if asked is not None or question.tool == ELICITATION:
        return declined(words)
    return Deny(refusal(words), words=words)


async def answer(
    session: SessionPort, waiting: Sequence[Question], event: AnswerQuestion, options: Options
) -> list[Question]:
    """Returns the other questions that this answered."""
    given = GivenAnswer(event.question, event.decision, event.rule_scope, event.wide, via="terminal")
    return await give_answer(session, waiting, given, options)
