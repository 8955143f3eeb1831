"""List of waiting questions: answer some or all of them together, or open one."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList, Static

from teamwright.core.data.extensions.server import ELICITATION
from teamwright.core.ids import QuestionId
from teamwright.core.permissions.consent import Allow, Decision, Deny, Question
from teamwright.surfaces.port.answering import Scope
from teamwright.surfaces.terminal.dialogs.ask_form import AskScreen, questions_of
from teamwright.surfaces.terminal.dialogs.base import QuestionScreen
from teamwright.surfaces.terminal.dialogs.docked import DockBox, DockedScreen, most_rows
from teamwright.surfaces.terminal.dialogs.elicit_form import ElicitScreen
from teamwright.surfaces.terminal.messages import AnswerQuestion
from teamwright.surfaces.terminal.render.themes import Palette, agent_style
from teamwright.surfaces.terminal.widgets.choices import GRACE
from teamwright.surfaces.terminal.widgets.rows import Piece, RowList, app_of, palette_of, row
from teamwright.surfaces.terminal.widgets.sheet import Sheet
from teamwright.surfaces.view.diff import DiffRow, count, lines_of, rows_of
from teamwright.surfaces.view.sentences import refusal
from teamwright.surfaces.view.shapes import AgentView
from teamwright.surfaces.view.text import one_line, title
from teamwright.tools.catalog import traits_of

REFRESH = 0.3
_KEYS = "Space selects · y allow · a/p always · n deny · Enter opens · Esc: no, and why · Ctrl+L: later"
_ALWAYS = "a: in this session · p: in this project"


def screen_for(
    question: Question, agents: Mapping[object, AgentView], *, others: int = 0, grace: float = GRACE
) -> QuestionScreen | AskScreen | ElicitScreen:
    """The dialog for one question."""
    if question.tool == ELICITATION:
        return ElicitScreen(question, grace=grace)
    if questions_of(question) is not None:
        return AskScreen(question, agents, others=others, grace=grace)
    return QuestionScreen(question, agents, others=others, grace=grace)


def _asks_for_itself(question: Question) -> bool:
    """A yes to a whole list must not cover a plan, nor questions that only the person's own words answer."""
    return question.tool == ELICITATION or traits_of(question.tool).asks != ""


def question_row(question: Question, agent: AgentView | None, width: int, palette: Palette, *, marked: bool) -> Content:
    rows = rows_of(question.tool, question.args, patch=question.patch)
    more = len(rows) - 1
    right: list[Piece] = [(f"  {count(rows) or (f'+{more} lines' if more > 0 else '')}", palette.dim)]
    about = f"({one_line(agent.description, 24)}) " if agent and agent.name == agent.kind and agent.description else ""
    left = [
        ("[x] " if marked else "[ ] ", palette.accent if marked else palette.dim),
        (f"{one_line(question.agent_name, 20)} ", agent_style(agent.color if agent else "", palette)),
        (about, palette.dim),
        (f"{one_line(question.tool, 40)} ", "bold"),
        (one_line(_what(question, agent, rows), 200), palette.text),
    ]
    return row(left, right, width)


def _what(question: Question, agent: AgentView | None, rows: Sequence[DiffRow]) -> str:
    if traits_of(question.tool).path is not None:
        return title(question.tool, question.args, agent.cwd if agent else "")
    return rows[0].text if rows else ""


class QuestionsScreen(DockedScreen):
    """`waiting` returns the questions that wait now: those that others answer leave the list by themselves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "Mark", priority=True),
        Binding("y", "answer('once')", "Yes"),
        Binding("a", "answer('all')", "Always in this session"),
        Binding("p", "answer('project')", "Always in this project"),
        Binding("n", "refuse", "No"),
    ]
    DEFAULT_CSS = """
    QuestionsScreen {
        & Static { height: auto; }
        & .list--keys { color: $text-muted; }
        & RowList { height: auto; max-height: 12; margin: 1 0; }
        &.-small RowList, &.-small Sheet { margin: 0; }
        & Sheet { max-height: 12; margin-bottom: 1; }
    }
    """

    def __init__(
        self, waiting: Callable[[], Sequence[Question]], agents: Mapping[object, AgentView], *, grace: float = GRACE
    ) -> None:
        super().__init__()
        self._waiting, self._agents, self._grace = waiting, agents, grace
        self._marked: set[QuestionId] = set()
        self._shown: QuestionId | None = None
        self._read: set[QuestionId] = set()  # seen completely
        self._since = 0.0

    def compose(self) -> ComposeResult:
        with DockBox():
            yield Static("", classes="list--head", markup=False)
            yield RowList()
            yield Sheet()
            yield Static(_KEYS, classes="list--keys", markup=False)

    def on_mount(self) -> None:
        self._since = time.monotonic()
        self.set_interval(REFRESH, self._draw)
        self.call_after_refresh(self._draw)
        self.query_one(RowList).focus()

    def on_resize(self) -> None:
        """The list and the question below it share the screen's room."""
        super().on_resize()
        room = max(4, most_rows(self) - (5 if self.has_class("-small") else 8))
        self.query_one(RowList).styles.max_height = max(2, min(12, room // 2))
        self.query_one(Sheet).styles.max_height = max(2, min(12, room - room // 2))

    def _draw(self) -> None:
        questions = list(self._waiting())
        if not questions:
            if self.is_current:
                self.dismiss()
            return
        self._marked &= {question.id for question in questions}
        palette = palette_of(self)

        def rows(width: int) -> list[tuple[str, Content]]:
            return [
                (q.id, question_row(q, self._agents.get(q.agent), width, palette, marked=q.id in self._marked))
                for q in questions
            ]

        self.query_one(RowList).show(rows)
        words = (
            "1 question is waiting for you"
            if len(questions) == 1
            else f"{len(questions)} questions are waiting for you"
        )
        self.query_one(".list--head", Static).update(Content.assemble((words, "bold")))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Ignore keys for a moment, as every dialog does: the next key may have been meant for something else."""
        return action not in ("answer", "refuse") or time.monotonic() - self._since >= self._grace

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show the question under the cursor completely, with the rules that `a` and `p` would add."""
        event.stop()
        found = next((q for q in self._waiting() if q.id == event.option_id), None)
        if found is not None:
            self._note_read()
            word = "always outside" if found.outside else "always"
            given = found.outside or found.suggestions
            rules = [row for rule in given for row in lines_of("dim", f"{word}: {rule}")]
            rules += lines_of("dim", _ALWAYS) if rules else []
            sheet, self._shown = self.query_one(Sheet), found.id
            sheet.show([*rows_of(found.tool, found.args, patch=found.patch), *rules])
            sheet.scroll_home(animate=False)

    def on_sheet_scrolled(self, event: Sheet.Scrolled) -> None:
        self._note_read()
        unread = self._shown is not None and self._shown not in self._read
        words = f"lines {event.first} to {event.last} of {event.total}: y opens it · " if unread else ""
        self.query_one(".list--keys", Static).update(Content(words + _KEYS))

    def _note_read(self) -> None:
        if self._shown is not None and self.query_one(Sheet).is_read:
            self._read.add(self._shown)

    def action_mark(self) -> None:
        if (chosen := self.query_one(RowList).chosen) is not None:
            self._marked ^= {QuestionId(chosen)}
            self._draw()
            self.query_one(RowList).action_cursor_down()

    def _meant(self) -> list[Question]:
        """The marked questions, or else the one under the cursor."""
        chosen = self.query_one(RowList).chosen
        meant = self._marked or ({QuestionId(chosen)} if chosen else set[QuestionId]())
        return [question for question in self._waiting() if question.id in meant]

    def action_answer(self, scope: Scope) -> None:
        """Say yes. Of questions that need more than that, or were not completely seen, the first is opened instead."""
        self._note_read()
        opened: list[Question] = []
        for question in self._meant():
            if _asks_for_itself(question) or question.id not in self._read:
                opened.append(question)
            else:
                self._send(question, Allow(), scope)
        if opened:
            self._open(opened[0])

    def action_say_no(self) -> None:
        """Refuse the question under the cursor, which is opened for that."""
        found = next((q for q in self._waiting() if q.id == self.query_one(RowList).chosen), None)
        if found is not None:
            opened = self._open(found)
            opened.call_after_refresh(opened.action_say_no)

    def action_refuse(self) -> None:
        for question in self._meant():
            self._send(question, Deny(refusal()))

    def _send(self, question: Question, decision: Decision, scope: Scope = "once") -> None:
        self._marked.discard(question.id)
        app_of(self).post_message(AnswerQuestion(question, decision, scope))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        found = next((q for q in self._waiting() if q.id == event.option_id), None)
        if found is not None:
            self._open(found)

    def _open(self, question: Question) -> QuestionScreen | AskScreen | ElicitScreen:
        opened = screen_for(question, self._agents, grace=self._grace)
        app_of(self).push_screen(opened)
        return opened
