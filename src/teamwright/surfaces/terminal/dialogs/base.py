"""Dialogs for approval of calls and plans."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from anyio import to_thread
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Static

from teamwright.core.permissions.consent import Allow, Decision, Deny, Question
from teamwright.surfaces.port.answering import Scope
from teamwright.surfaces.terminal.dialogs.docked import DockBox, DockedScreen, most_rows
from teamwright.surfaces.terminal.messages import AnswerQuestion
from teamwright.surfaces.terminal.render.themes import Palette, agent_style
from teamwright.surfaces.terminal.widgets.choices import GRACE, Choice, Choices, no_first
from teamwright.surfaces.terminal.widgets.rows import Piece, app_of, palette_of
from teamwright.surfaces.terminal.widgets.sheet import PlanSheet, Sheet
from teamwright.surfaces.view.diff import DiffRow, count, lines_of, read_before, replaces_file, rows_of
from teamwright.surfaces.view.sentences import refusal
from teamwright.surfaces.view.shapes import AgentView
from teamwright.surfaces.view.text import one_line, title
from teamwright.tools.bounds import counted, visible
from teamwright.tools.catalog import traits_of

UNREAD = "PgDn to the end to allow it"
WHY = "What should it do instead? (may be empty)"
YES = ("once", "edits", "all", "project", "agent")
GAP = lines_of("dim", "⋯")  # between lines that do not start at the file's beginning
MOST_RULES = 60  # characters of rules shown in an answer itself
LEAST = 3  # lines that a long request and its answers keep
BOX = """
    & .dialog--head, & .dialog--reason, & .dialog--note { height: auto; }
    & .dialog--reason { color: $text-muted; margin-bottom: 1; }
    & .dialog--note { color: $text-muted; margin-top: 1; }
    & .dialog--more { height: auto; color: $text-warning; display: none; }
    & Sheet { max-height: 20; margin-bottom: 1; }
    & Input { display: none; border: tall $border; }
    &.-saying Input { display: block; }
    &.-saying Choices { display: none; }
    &.-small .dialog--reason, &.-small Sheet { margin-bottom: 0; }
    &.-small .dialog--note { margin-top: 0; }
    &.-small.-plain .dialog--reason { display: none; }
"""


def is_plan(question: Question) -> bool:
    return traits_of(question.tool).asks == "plan"


def choices_for(question: Question, *, wide: bool = False, main: bool = False) -> list[Choice]:
    """No comes first, because Enter chooses it: a yes must be deliberate.

    `wide`: "always" means the wider rules. `main`: the main agent asks, whose mode an answer can change.
    """
    if is_plan(question):
        yes, no = Choice("once", "Yes, carry out the plan", "y"), Choice("no", "No, keep planning", "n")
        edits = [Choice("edits", "Yes, and accept edits from now on", "e")] if main else []
        return no_first([yes, *edits, no, Choice("words", "No, and say what to change …", "w")], "no")
    choices = [Choice("once", "Yes, this once", "y")]
    if question.is_edit:
        choices.append(Choice("edits", "Yes, and accept edits from now on", "e"))
    if question.outside:
        rules = _worded([rule.removeprefix("Bash(").removesuffix(")") for rule in question.outside])
        choices.append(Choice("all", f"Yes, and always outside in this session: {rules}", "a"))
        choices.append(Choice("project", f"Yes, and always outside in this project: {rules}", "p"))
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
    """Rules that are too long for the answer itself."""
    kinds = (
        ("always", question.suggestions),
        ("always, wider", question.wider),
        ("always outside", question.outside),
    )
    long = [(word, rules) for word, rules in kinds if sum(map(len, rules)) + 2 * len(rules) > MOST_RULES]
    return [row for word, rules in long for rule in rules for row in lines_of("dim", f"{word}: {rule}")]


def asked_rows(question: Question, before: str | None = None, *, cwd: str = "") -> list[DiffRow]:
    """Everything that a yes would cover, without cuts; only text beside it may be cut. The agent works in `cwd`."""
    rows = rows_of(question.tool, question.args, before, question.patch)
    if _is_named(rows, question, cwd):
        del rows[0]
        rows = rows[1:] if rows[:1] == GAP else rows  # line numbers show as much
    if question.blocked_path and not _names_path(question, question.blocked_path):
        inside = f"{cwd.rstrip('/')}/" if cwd else ""
        rows += lines_of("dim", f"path: {question.blocked_path.removeprefix(inside)}")
    return rows + _rule_rows(question)


def _is_named(rows: Sequence[DiffRow], question: Question, cwd: str) -> bool:
    """Whether the dialog's head names the file in the same way as the first row."""
    if not rows or traits_of(question.tool).path is None:
        return False
    named = title(question.tool, question.args, cwd)
    return rows[0] in [*lines_of("strong", named), *lines_of("strong", f"{cwd.rstrip('/')}/{named}")]


def _names_path(question: Question, path: str) -> bool:
    """Whether the reason names the path. For file tools it does, relative to the working directory."""
    by_path = traits_of(question.tool).path is not None
    return path in question.reason or (by_path and path.rpartition("/")[2] in question.reason)


def head_of(question: Question, agent: AgentView | None, palette: Palette) -> list[Piece]:
    """Who asks, in its colour. The name comes from the runtime, never from a model."""
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
        (_use(question, agent.cwd if agent else ""), "bold"),
    ]


def _use(question: Question, cwd: str) -> str:
    """`Edit src/a.py?`; a command or anything else is shown completely below."""
    if is_plan(question):
        return ""
    about = f" {title(question.tool, question.args, cwd)}" if traits_of(question.tool).path else ""
    return f"{one_line(question.tool, 60)}{about}?"


def reason_of(question: Question) -> str:
    """Why it needs approval, without repeating the command."""
    if is_plan(question):
        return "Nothing changes until you approve it."
    command = question.args.get("command")
    named = f"`{command}`"
    reason = question.reason.replace(named, "this command") if command else question.reason
    return one_line(counted(f"{reason[:1].upper()}{reason[1:]}"), 600)


def show_hidden(screen: Screen[Any], event: Sheet.Scrolled, *, yes: Sequence[str], never: str = "") -> None:
    """Point out what cannot be seen at once: no yes covers what nobody has looked at."""
    if not _is_whole(screen, "Sheet", ".dialog--more"):
        return
    read, more = screen.query_one(Sheet).is_read, screen.query_one(".dialog--more", Static)
    hidden = event.total - (event.last - event.first + 1)
    rest = "PgUp and PgDn show the rest" if read else UNREAD
    words = f"lines {event.first} to {event.last} of {event.total}: {rest}" if hidden > 0 else ""
    more.update(Content("\n".join(filter(None, (words, never)))))
    more.display = bool(words or never)
    screen.call_after_refresh(make_room, screen)
    for choices in screen.query(Choices):
        choices.hold(yes, held=bool(never) or not read)


def _is_whole(screen: Screen[Any], *parts: str) -> bool:
    """False while the dialog closes, answered meanwhile: its parts go one by one."""
    return all(screen.query(part) for part in parts)


def _margin(widget: Widget) -> int:
    around = widget.styles.margin
    return around.height


def make_room(screen: Screen[Any]) -> None:
    """Keep the answers on the screen, however long the request is."""
    if not _is_whole(screen, "Sheet", "Choices", ".dialog--more"):
        return
    sheet, choices = screen.query_one(Sheet), screen.query_one(Choices)
    box, most = sheet.parent, most_rows(screen)
    assert isinstance(box, Widget)
    more = screen.query_one(".dialog--more", Static)
    around = 2 + _margin(sheet)
    for child in box.children:
        if child not in (sheet, choices, more) and child.display:
            around += max(1, child.outer_size.height) + _margin(child)
    least = min(LEAST, max(1, sheet.height_needed))
    answers = max(LEAST, min(choices.virtual_size.height, most - around - least))
    room = most - around - answers
    if sheet.height_needed > room or (more.display and not isinstance(screen, DockedScreen)):
        room -= max(1, more.outer_size.height)  # for the line about hidden rows
    box.styles.max_height, choices.styles.max_height = most, answers
    sheet.styles.max_height = max(least, room)


class QuestionScreen(DockedScreen):
    """One question, shown completely. The answer goes to the app as a message."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "app.focus_next", show=False)]
    DEFAULT_CSS = f"QuestionScreen {{ {BOX} }}"

    def __init__(
        self, question: Question, agents: Mapping[object, AgentView], *, others: int = 0, grace: float = GRACE
    ) -> None:
        """`others` is the number of other waiting questions."""
        super().__init__()
        self.question = question
        self._agent, self._others, self._grace = agents.get(question.agent), others, grace
        self._rows = asked_rows(question, cwd=self._cwd)
        self._wide = False
        self.set_class(question.is_edit, "-plain")  # on a small screen the reason would take the room of the change

    def compose(self) -> ComposeResult:
        with DockBox():
            yield Static("", classes="dialog--head", markup=False)
            yield Static("", classes="dialog--reason", markup=False)
            yield PlanSheet(self.question.args, self._rows) if is_plan(self.question) else Sheet(self._rows)
            yield Static("", classes="dialog--more", markup=False)
            yield Choices(self._choices(), grace=self._grace)
            yield Input(placeholder=WHY, select_on_focus=False)
            yield Static("", classes="dialog--note", markup=False)

    @property
    def _cwd(self) -> str:
        return self._agent.cwd if self._agent is not None else ""

    def _choices(self) -> list[Choice]:
        main = self._agent is not None and self._agent.kind == "main"
        return choices_for(self.question, wide=self._wide, main=main)

    def on_mount(self) -> None:
        palette = palette_of(self)
        self._show_head()
        reason = Content.assemble((reason_of(self.question), palette.dim))
        self.query_one(".dialog--reason", Static).update(reason)
        self._show_note()
        self.query_one(Choices).focus()
        if replaces_file(traits_of(self.question.tool)) and not self.question.patch:
            self._compare()

    def _show_note(self) -> None:
        note = "a letter, or ↑↓ Enter · Esc: no · Ctrl+L: decide later"
        if self._others:
            note = f"↑↓ Enter · Esc: no · Ctrl+L: later · {self._others} more waiting"
        if self.has_class("-saying"):
            note = "Enter: no · Esc: back to the answers · Ctrl+L: decide later"
        self.query_one(".dialog--note", Static).update(Content(note))

    def on_resize(self) -> None:
        super().on_resize()
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
            self._rows = asked_rows(self.question, before, cwd=self._cwd)
            sheet = self.query_one(Sheet)
            sheet.show(self._rows)
            sheet.scroll_home(animate=False)
            self._show_head()

    def on_sheet_scrolled(self, event: Sheet.Scrolled) -> None:
        offered = [choice.id for choice in self._choices()]
        show_hidden(self, event, yes=[id for id in YES if id in offered])

    @on(Choices.Chosen)
    def _chosen(self, event: Choices.Chosen) -> None:
        match event.choice:
            case "once" | "edits" | "all" | "project" | "agent":
                if self.query_one(Sheet).is_read:
                    self._answer(Allow(), event.choice)
            case "wide":
                self._wide = not self._wide
                self.query_one(Choices).reword(self._choices())
                self.call_after_refresh(make_room, self)
            case "no":
                self._answer(Deny(refusal()))
            case _:
                self.action_say_no()

    @on(Input.Submitted)
    def _said(self, event: Input.Submitted) -> None:
        if not self.query_one(Choices).deaf:  # otherwise the Enter was meant for something else
            words = event.value.strip()
            self._answer(Deny(refusal(words), words=words))

    def _answer(self, decision: Decision, scope: Scope = "once") -> None:
        """Send it to the app itself: this screen is gone when the answer is handled."""
        app_of(self).post_message(AnswerQuestion(self.question, decision, scope, wide=self._wide))
        self.dismiss()

    def action_say_no(self) -> None:
        """Refuse, with a reason if the person gives one; a second press returns to the answers."""
        self.toggle_class("-saying")
        self._show_note()
        (self.query_one(Input) if self.has_class("-saying") else self.query_one(Choices)).focus()
