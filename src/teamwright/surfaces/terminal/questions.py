"""Questions of agents: the open dialog, those put off, and the ops that answer them."""

from collections.abc import Sequence
from typing import Any, cast

from anyio import to_thread
from msgspec.structs import replace
from textual.app import App

from teamwright.app import Options
from teamwright.app.saved_rules import keep_rules
from teamwright.core.data.op import AddRules, Answer, SetMode
from teamwright.core.errors import TeamwrightError, UsageError
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Allow, Question
from teamwright.runtime.port import SessionPort
from teamwright.surfaces.terminal.dialogs.ask_form import AskScreen
from teamwright.surfaces.terminal.dialogs.base import QuestionScreen
from teamwright.surfaces.terminal.dialogs.question_list import QuestionsScreen, screen_for
from teamwright.surfaces.terminal.messages import AnswerQuestion, Scope
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
    session: SessionPort, waiting: Sequence[Question], event: AnswerQuestion, options: Options
) -> list[Question]:
    """Answer it, and do what else its scope says. Returns what that answered too.

    Rules that cannot be saved hold for this session all the same; the fault is raised when everything is answered.
    """
    question, scope = event.question, event.rule_scope
    rules = question.wider if event.wide else question.suggestions
    covered: list[Question] = []
    fault: TeamwrightError | None = None
    if isinstance(event.decision, Allow) and scope == "edits":
        await session.submit(SetMode("acceptEdits"))
        covered = [other for other in waiting if other.id != question.id and other.is_edit]
    elif isinstance(event.decision, Allow) and scope != "once" and rules:
        fault = await _add(session, question, rules, scope, options)
        covered = _covered(waiting, question, rules, question.agent if scope == "agent" else None)
    await session.submit(Answer(question.id, event.decision))
    done: list[Question] = []
    for other in covered:
        try:
            await session.submit(Answer(other.id, Allow()))
        except UsageError:  # somebody else was quicker, or it was withdrawn
            continue
        done.append(other)
    if fault is not None:
        raise UsageError(f"always holds for this session only: {fault}")
    return done


async def _add(
    session: SessionPort, question: Question, rules: tuple[str, ...], scope: Scope, options: Options
) -> TeamwrightError | None:
    fault = None
    if scope == "project":
        try:
            await to_thread.run_sync(keep_rules, replace(options, cwd=session.cwd), "allow", rules)
        except TeamwrightError as error:
            fault = error
    only = question.agent if scope == "agent" else None
    saved = scope == "project" and fault is None
    await session.submit(AddRules(rules, "allow", only, "local" if saved else "session"))
    return fault


def _covered(
    waiting: Sequence[Question], question: Question, rules: Sequence[str], only: AgentId | None
) -> list[Question]:
    """Questions that would not be asked any more: the rules that would answer each are all there now."""
    there = frozenset(rules)
    return [
        other
        for other in waiting
        if other.id != question.id
        and any(needed and there.issuperset(needed) for needed in (other.suggestions, other.wider))
        and only in (None, other.agent)
    ]
