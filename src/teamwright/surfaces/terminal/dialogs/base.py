"""Dialogs for approval: of a call, and of a plan."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from anyio import to_thread
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from teamwright.core.permissions.consent import Allow, Decision, Deny, Question
from teamwright.surfaces.terminal.messages import AnswerQuestion, Scope
from teamwright.surfaces.terminal.render.themes import Palette, agent_style
from teamwright.surfaces.terminal.widgets.choices import GRACE, Choice, Choices, no_first
from teamwright.surfaces.terminal.widgets.rows import Piece, app_of, palette_of
from teamwright.surfaces.terminal.widgets.sheet import Sheet
from teamwright.surfaces.view.diff import DiffRow, count, lines_of, read_before, replaces_file, rows_of
from teamwright.surfaces.view.sentences import refusal
from teamwright.surfaces.view.shapes import AgentView
from teamwright.surfaces.view.text import one_line, title
from teamwright.tools.bounds import counted, visible
from teamwright.tools.catalog import traits_of

UNREAD = "PgDn to the end to allow it"
YES = ("once", "edits", "all", "project", "agent")
MOST_RULES = 60  # characters of rules that stand in an answer itself
SMALL, LEAST = 26, 3  # lines of a screen that is used whole, and of the request and its answers
BOX = """
    align: center bottom;
    & > Vertical {
        height: auto; max-height: 90%; width: 100%; max-width: 120;
        background: $surface; border: round $warning; padding: 0 1;
    }
    & .dialog--head, & .dialog--reason, & .dialog--note { height: auto; }
    & .dialog--reason { color: $text-muted; margin-bottom: 1; }
    & .dialog--note { color: $text-muted; margin-top: 1; }
    & .dialog--more { height: auto; color: $text-warning; display: none; }
    & Sheet { max-height: 20; margin-bottom: 1; }
    & Input { display: none; border: tall $border; }
    &.-saying Input { display: block; }
    &.-saying Choices { display: none; }
"""


def is_plan(question: Question) -> bool:
    return traits_of(question.tool).asks == "plan"


def choices_for(question: Question, *, wide: bool = False) -> list[Choice]:
    """No comes first, because Enter chooses it: a yes must be deliberate. `wide`: always means the wider rules."""
    if is_plan(question):
        yes, no = Choice("once", "Yes, carry out the plan", "y"), Choice("no", "No, keep planning", "n")
        return no_first([yes, no, Choice("words", "No, and say what to change …", "w")], "no")
    choices = [Choice("once", "Yes, this once", "y")]
    if question.is_edit:
        choices.append(Choice("edits", "Yes, and accept edits from now on", "e"))
    if question.suggestions:
        rules = _worded(question.wider if wide else question.suggestions)
        name = one_line(question.agent_name, 30)
        choices.append(Choice("all", f"Yes, and always in this session: {rules}", "a"))
        choices.append(Choice("project", f"Yes, and always in this project: {rules}", "p"))
        choices.append(Choice("agent", f"Yes, and always for {name}: {rules}", "t"))
    if question.wider:
        other = _worded(question.suggestions if wide else question.wider)
        choices.append(Choice("wide", f"Let always mean {'only ' * wide}{other}", "x"))
    return no_first([*choices, Choice("no", "No", "n"), Choice("words", "No, and say why …", "w")], "no")


def _worded(rules: Sequence[str]) -> str:
    words = counted(visible(", ".join(rules))).replace("\n", "\\n")
    return words if len(words) <= MOST_RULES else "the rules above" if len(rules) > 1 else "the rule above"


def _rule_rows(question: Question) -> list[DiffRow]:
    """Rules that are too long to stand in an answer."""
    kinds = (("always", question.suggestions), ("always, wider", question.wider))
    long = [(word, rules) for word, rules in kinds if sum(map(len, rules)) + 2 * len(rules) > MOST_RULES]
    return [row for word, rules in long for rule in rules for row in lines_of("dim", f"{word}: {rule}")]


def asked_rows(question: Question, before: str | None = None) -> list[DiffRow]:
    """All that a yes would cover; what is said beside it may be cut, this is not."""
    rows = rows_of(question.tool, question.args, before, question.patch)
    if question.blocked_path and question.blocked_path not in question.reason:
        rows += lines_of("dim", f"path: {question.blocked_path}")
    return rows + _rule_rows(question)


def head_of(question: Question, agent: AgentView | None, palette: Palette) -> list[Piece]:
    """Who asks, in its colour. The name is the runtime's, never what a model wrote."""
    style = agent_style(agent.color if agent else "", palette)
    name = one_line(question.agent_name, 40)
    kind = f" ({one_line(agent.kind, 40)})" if agent and agent.kind not in ("main", question.agent_name) else ""
    team = f" of {one_line(agent.team, 40)}" if agent and agent.team else ""
    wants = " has a plan" if is_plan(question) else ": "
    return [
        ("■ ", style),
        (name, style),
        (f"{kind}{team}", palette.dim),
        (wants, palette.text),
        (_use(question), "bold"),
    ]


def _use(question: Question) -> str:
    """`Edit src/a.py?`; a command or anything else is shown whole below."""
    if is_plan(question):
        return ""
    about = f" {title(question.tool, question.args)}" if traits_of(question.tool).path else ""
    return f"{one_line(question.tool, 60)}{about}?"


def reason_of(question: Question) -> str:
    """Why it needs approval, without repeating the command."""
    if is_plan(question):
        return "Nothing changes until you approve it."
    command = question.args.get("command")
    named = f"`{command}`"
    reason = question.reason.replace(named, "this command") if command else question.reason
    return one_line(counted(f"{reason[:1].upper()}{reason[1:]}"), 600)


def show_hidden(screen: ModalScreen[Any], event: Sheet.Scrolled, *, yes: Sequence[str], never: str = "") -> None:
    """What cannot be seen at once must not go unnoticed, and no yes covers what nobody has looked at."""
    read, more = screen.query_one(Sheet).is_read, screen.query_one(".dialog--more", Static)
    hidden = event.total - (event.last - event.first + 1)
    rest = "PgUp and PgDn show the rest" if read else UNREAD
    words = f"lines {event.first} to {event.last} of {event.total}: {rest}" if hidden > 0 else ""
    more.update(Content("\n".join(filter(None, (words, never)))))
    more.display = bool(words or never)
    screen.call_after_refresh(make_room, screen)
    for choices in screen.query(Choices):
        choices.hold(yes, held=bool(never) or not read)


def make_room(screen: ModalScreen[Any]) -> None:
    """The answers stay on the screen, however long the request is."""
    sheet, choices = screen.query_one(Sheet), screen.query_one(Choices)
    box, height = screen.query_one(Vertical), screen.size.height
    most = height if height < SMALL else height * 9 // 10
    around = 2 + sheet.styles.margin.height
    for child in box.children:
        if child not in (sheet, choices) and (child.display or child.has_class("dialog--more")):
            around += max(1, child.outer_size.height) + child.styles.margin.height
    answers = max(LEAST, min(choices.virtual_size.height, most - around - LEAST))
    box.styles.max_height, choices.styles.max_height = most, answers
    sheet.styles.max_height = max(LEAST, most - around - answers)


def turn_page(sheet: Sheet, by: int) -> None:
    sheet.scroll_page_down(animate=False) if by > 0 else sheet.scroll_page_up(animate=False)


class QuestionScreen(ModalScreen[None]):
    """One question, whole. Esc leaves it waiting; the answer goes to the app as a message."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "later", "Later"),
        Binding("tab", "app.focus_next", show=False),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
    ]
    DEFAULT_CSS = f"QuestionScreen {{ {BOX} }}"

    def __init__(
        self, question: Question, agents: Mapping[object, AgentView], *, others: int = 0, grace: float = GRACE
    ) -> None:
        """`others` is how many more questions wait."""
        super().__init__()
        self.question = question
        self._agent, self._others, self._grace = agents.get(question.agent), others, grace
        self._rows = asked_rows(question)
        self._wide = False

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("", classes="dialog--head", markup=False)
            yield Static("", classes="dialog--reason", markup=False)
            yield Sheet(self._rows)
            yield Static("", classes="dialog--more", markup=False)
            yield Choices(choices_for(self.question), grace=self._grace)
            yield Input(placeholder="What should it do instead? Enter sends it, Esc goes back", select_on_focus=False)
            yield Static("", classes="dialog--note", markup=False)

    def on_mount(self) -> None:
        palette = palette_of(self)
        self._show_head()
        reason = Content.assemble((reason_of(self.question), palette.dim))
        self.query_one(".dialog--reason", Static).update(reason)
        note = "press a letter, or ↑↓ Enter · Esc: decide later"
        if self._others:
            note = f"a letter, or ↑↓ Enter · Esc: later · {self._others} more waiting"
        self.query_one(".dialog--note", Static).update(Content(note))
        self.query_one(Choices).focus()
        if replaces_file(traits_of(self.question.tool)) and not self.question.patch:
            self._compare()

    def on_resize(self) -> None:
        self.call_after_refresh(make_room, self)

    def _show_head(self) -> None:
        palette = palette_of(self)
        head = head_of(self.question, self._agent, palette)
        if changed := count(self._rows):
            head.append((f"  {changed}", palette.dim))
        self.query_one(".dialog--head", Static).update(Content.assemble(*head))

    @work
    async def _compare(self) -> None:
        """Compare with the file's current content: removals matter as much as additions."""
        before = await to_thread.run_sync(read_before, self.question.tool, self.question.args, abandon_on_cancel=True)
        if before:
            self._rows = asked_rows(self.question, before)
            sheet = self.query_one(Sheet)
            sheet.show(self._rows)
            sheet.scroll_home(animate=False)
            self._show_head()

    def on_sheet_scrolled(self, event: Sheet.Scrolled) -> None:
        offered = [choice.id for choice in choices_for(self.question)]
        show_hidden(self, event, yes=[id for id in YES if id in offered])

    @on(Choices.Chosen)
    def _chosen(self, event: Choices.Chosen) -> None:
        match event.choice:
            case "once" | "edits" | "all" | "project" | "agent":
                if self.query_one(Sheet).is_read:
                    self._answer(Allow(), event.choice)
            case "wide":
                self._wide = not self._wide
                self.query_one(Choices).reword(choices_for(self.question, wide=self._wide))
                self.call_after_refresh(make_room, self)
            case "no":
                self._answer(Deny(refusal()))
            case _:
                self.add_class("-saying")
                self.query_one(Input).focus()

    @on(Input.Submitted)
    def _said(self, event: Input.Submitted) -> None:
        words = event.value.strip()
        self._answer(Deny(refusal(words), words=words))

    def _answer(self, decision: Decision, scope: Scope = "once") -> None:
        """To the app itself: this screen is gone when it is handled."""
        app_of(self).post_message(AnswerQuestion(self.question, decision, scope, wide=self._wide))
        self.dismiss()

    def action_page(self, by: int) -> None:
        turn_page(self.query_one(Sheet), by)

    def action_later(self) -> None:
        if self.has_class("-saying"):
            self.remove_class("-saying")
            self.query_one(Choices).focus()
        else:
            self.dismiss()
