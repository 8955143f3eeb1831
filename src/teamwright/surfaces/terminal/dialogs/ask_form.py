"""Form for an agent's questions to the person, one after the other, each with options or free text."""

from collections.abc import Mapping

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, SelectionList, Static
from textual.widgets.selection_list import Selection

from teamwright.core.permissions.consent import Allow, Decision, Deny, Question
from teamwright.surfaces.terminal.dialogs.docked import DockBox, DockedScreen
from teamwright.surfaces.terminal.messages import AnswerQuestion
from teamwright.surfaces.terminal.render.themes import agent_style
from teamwright.surfaces.terminal.widgets.choices import GRACE, Choice, Choices
from teamwright.surfaces.terminal.widgets.rows import app_of, palette_of
from teamwright.surfaces.view.sentences import DECLINED, SAID_WHY
from teamwright.surfaces.view.shapes import AgentView
from teamwright.surfaces.view.text import one_line, safe
from teamwright.tools.agents.ask import AskArgs, AskedQuestion
from teamwright.tools.bounds import counted
from teamwright.tools.catalog import traits_of

OTHER, REFUSE = "other", "refuse"
ANSWER = "Type your answer; Enter sends it, Esc goes back"
WHY = "Say why you skip it; Enter alone: just skip · Esc: back"


def questions_of(question: Question) -> list[AskedQuestion] | None:
    """None if it is no such question, or cannot be read: then it is shown like any other call."""
    if traits_of(question.tool).asks != "questions":
        return None
    try:
        return msgspec.convert(question.args, AskArgs).questions
    except (msgspec.ValidationError, ValueError):
        return None


def declined(words: str = "") -> Deny:
    return Deny(f"The person would rather not answer.{SAID_WHY}{words}" if words else DECLINED, words=words)


class AskScreen(DockedScreen):
    DEFAULT_CSS = """
    AskScreen {
        & DockBox { border: round $accent; overflow-y: auto; }
        & Static { height: auto; }
        & .ask--question { text-style: bold; margin-bottom: 1; }
        & .ask--note { color: $text-muted; margin-top: 1; }
        & SelectionList { border: none; height: auto; max-height: 12; padding: 0; background: transparent; }
        & Input { display: none; border: tall $border; }
        &.-saying Input { display: block; }
        &.-saying Choices, &.-saying SelectionList { display: none; }
        &.-small .ask--note { margin-top: 0; }
    }
    """

    def __init__(
        self, question: Question, agents: Mapping[object, AgentView], *, grace: float = GRACE, others: int = 0
    ) -> None:
        super().__init__()
        self.question, self._grace = question, grace
        self._asked = questions_of(question) or []
        self._agent, self._others = agents.get(question.agent), others
        self._answers: dict[str, str] = {}
        self._at = 0
        self._refusing = False  # the typed text is a reason for refusing, not an answer

    def compose(self) -> ComposeResult:
        with DockBox():
            yield Static("", classes="ask--who", markup=False)
            yield Static("", classes="ask--question", markup=False)
            yield Vertical(id="answers")
            yield Input(select_on_focus=False)
            yield Static("", classes="ask--note", markup=False)

    async def on_mount(self) -> None:
        palette = palette_of(self)
        style = agent_style(self._agent.color if self._agent else "", palette)
        name = one_line(self.question.agent_name, 40)
        who = Content.assemble(("■ ", style), (name, style), (" asks you", palette.text))
        self.query_one(".ask--who", Static).update(who)
        self.query_one("#answers").styles.height = "auto"
        await self._show()

    async def _show(self) -> None:
        asked = self._asked[self._at]
        place = self.query_one("#answers", Vertical)
        await place.remove_children()
        self.query_one(".ask--question", Static).update(Content(safe(counted(asked.question))))
        number = f"question {self._at + 1} of {len(self._asked)} · " if len(self._asked) > 1 else ""
        how = "Space selects, Enter continues · " if asked.multi_select else ""
        waiting = f" · {self._others} more waiting" if self._others else ""
        self.query_one(".ask--note", Static).update(Content(f"{number}{how}Esc: skip · Ctrl+L: decide later{waiting}"))
        chosen: SelectionList[str] | Choices
        if asked.multi_select:
            marks = [Selection(self._label(o.label, o.description), o.label) for o in asked.options]
            chosen = SelectionList[str](*marks)
        else:
            chosen = Choices(self._choices(asked), grace=self._grace)
        await place.mount(chosen)
        chosen.focus()

    def _label(self, label: str, description: str) -> Content:
        return Content.assemble((one_line(label, 80), "bold"), (f"  {one_line(description, 300)}", "dim"))

    def _choices(self, asked: AskedQuestion) -> list[Choice]:
        options = [
            Choice(f"o{n}", f"{one_line(o.label, 80)}: {one_line(o.description, 300)}")
            for n, o in enumerate(asked.options)
        ]
        return [*options, Choice(OTHER, "Something else …", "w"), Choice(REFUSE, "Skip", "n")]

    @on(Choices.Chosen)
    async def _chosen(self, event: Choices.Chosen) -> None:
        if event.choice == OTHER:
            self._ask_for_words(ANSWER, refusing=False)
        elif event.choice == REFUSE:
            self._answer(declined())
        else:
            await self._next(self._asked[self._at].options[int(event.choice[1:])].label)

    @on(Input.Submitted)
    async def _said(self, event: Input.Submitted) -> None:
        words = event.value.strip()
        if self._refusing:
            self._answer(declined(words))
        elif words:
            self.remove_class("-saying")
            event.input.clear()
            await self._next(words)

    async def key_enter(self) -> None:
        marked = self.query(SelectionList[str])
        if marked and (chosen := marked.first().selected):
            await self._next(", ".join(chosen))

    async def _next(self, answer: str) -> None:
        self._answers[self._asked[self._at].question] = answer
        self._at += 1
        if self._at < len(self._asked):
            await self._show()
        else:
            self._answer(Allow({**self.question.args, "answers": self._answers}))

    def _answer(self, decision: Decision) -> None:
        app_of(self).post_message(AnswerQuestion(self.question, decision))
        self.dismiss()

    def _ask_for_words(self, placeholder: str, *, refusing: bool) -> None:
        self._refusing = refusing
        self.add_class("-saying")
        entry = self.query_one(Input)
        entry.placeholder = placeholder
        entry.focus()

    def action_say_no(self) -> None:
        """Refuse, with a reason if the person gives one; a second press returns to the answers."""
        if self.has_class("-saying"):
            self.remove_class("-saying")
            self.query("#answers > *").first().focus()
        else:
            self._ask_for_words(WHY, refusing=True)
