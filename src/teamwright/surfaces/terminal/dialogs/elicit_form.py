"""Form for an MCP server's questions during a call: one field after the other, checked by the server's schema."""

import time
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, cast

from msgspec import Struct
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from teamwright.core.data.extensions.server import ELICITATION
from teamwright.core.jsontext import as_list, as_object
from teamwright.core.permissions.consent import Allow, Decision, Deny, Question
from teamwright.surfaces.terminal.dialogs.base import UNREAD
from teamwright.surfaces.terminal.dialogs.docked import DockBox, DockedScreen
from teamwright.surfaces.terminal.messages import AnswerQuestion
from teamwright.surfaces.terminal.widgets.choices import GRACE, Choice, Choices, no_first
from teamwright.surfaces.terminal.widgets.rows import app_of, palette_of
from teamwright.surfaces.terminal.widgets.sheet import Sheet
from teamwright.surfaces.view.diff import DiffRow, lines_of
from teamwright.surfaces.view.text import one_line

MOST_FIELDS = 20
MOST_MESSAGE = 100_000  # characters
DECLINED = "The person would rather not answer."
LONGEST_TITLE, LONGEST_LABEL = 600, 200  # characters next to the field; longer texts are shown above it
_SKIP, _REFUSE = "skip", "refuse"


class FormField(Struct, frozen=True):
    name: str
    title: str
    kind: Literal["text", "number", "integer", "choice"]
    values: tuple[Any, ...] = ()  # of a choice
    labels: tuple[str, ...] = ()
    required: bool = False
    default: Any = None


def fields_of(question: Question) -> list[FormField] | None:
    """None if no server asks. A field of an unknown kind is a text field."""
    if question.tool != ELICITATION:
        return None
    schema = as_object(question.args.get("schema"))
    wanted = as_list(schema.get("required"))
    properties = list(as_object(schema.get("properties")).items())[:MOST_FIELDS]
    return [_field(str(name), as_object(part), required=name in wanted) for name, part in properties]


def _field(name: str, part: Mapping[str, Any], *, required: bool) -> FormField:
    title = " · ".join(str(part[key]) for key in ("title", "description") if part.get(key)) or name
    kind = part.get("type")
    if isinstance(values := part.get("enum"), list) and values:
        values = tuple(cast("list[Any]", values))
        names = part.get("enumNames")
        labels = tuple(map(str, cast("list[Any]", names))) if isinstance(names, list) else tuple(map(str, values))
        return FormField(
            name, title, "choice", values, labels or tuple(map(str, values)), required, part.get("default")
        )
    if kind == "boolean":
        return FormField(name, title, "choice", (True, False), ("yes", "no"), required, part.get("default"))
    known: Literal["number", "integer", "text"] = kind if kind in ("number", "integer") else "text"
    return FormField(name, title, known, required=required, default=part.get("default"))


class ElicitScreen(DockedScreen):
    """The answer goes to the app as a message."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+n", "refuse", "Decline", priority=True),
    ]
    DEFAULT_CSS = """
    ElicitScreen {
        & DockBox { border: round $accent; }
        & Static, & #field { height: auto; }
        & Sheet { max-height: 50%; margin-bottom: 1; }
        & .elicit--more { color: $text-warning; display: none; }
        & .elicit--note { color: $text-muted; margin-top: 1; }
        & Input { border: tall $border; }
    }
    """

    def __init__(self, question: Question, *, grace: float = GRACE) -> None:
        super().__init__()
        self.question, self._grace = question, grace
        self._fields = fields_of(question) or []
        self._at, self._since = 0, 0.0
        self._content: dict[str, Any] = {}

    def compose(self) -> ComposeResult:
        with DockBox():
            yield Static("", classes="elicit--who", markup=False)
            yield Sheet()
            yield Static("", classes="elicit--more", markup=False)
            yield Static("", classes="elicit--title", markup=False)
            yield Vertical(id="field")
            yield Static("", classes="elicit--note", markup=False)

    async def on_mount(self) -> None:
        palette = palette_of(self)
        who = one_line(str(self.question.args.get("server", "")), 60)
        words = Content.assemble(("■ the MCP server ", palette.dim), (who, palette.accent), (" asks you", palette.text))
        self.query_one(".elicit--who", Static).update(words)
        await self._show()

    async def _show(self) -> None:
        place = self.query_one("#field", Vertical)
        await place.remove_children()
        sheet = self.query_one(Sheet)
        sheet.show(self._rows())
        sheet.scroll_home(animate=False)
        if not self._fields:
            yes, no = Choice("yes", "Yes", "y"), Choice(_REFUSE, "No", "n")
            asked: Choices | Input = Choices(no_first([yes, no], _REFUSE), grace=self._grace)
        else:
            field = self._fields[self._at]
            need = "" if field.required else " (optional)"
            self.query_one(".elicit--title", Static).update(Content(one_line(field.title, LONGEST_TITLE) + need))
            asked = self._choices(field) if field.kind == "choice" else self._input(field)
        self._note("")
        await place.mount(asked)
        self._since = time.monotonic()
        asked.focus()

    def _rows(self) -> list[DiffRow]:
        """Everything that the server says, unless it is shown completely next to the field."""
        rows = lines_of("strong", str(self.question.args.get("message", ""))[:MOST_MESSAGE])
        field = self._fields[self._at] if self._fields else None
        if field is not None:
            long = [field.title] if len(field.title) > LONGEST_TITLE else []
            long += [label for label in field.labels if len(label) > LONGEST_LABEL]
            rows += [row for words in long for row in lines_of("plain", words)]
        return rows

    def on_sheet_scrolled(self, event: Sheet.Scrolled) -> None:
        more, read = self.query_one(".elicit--more", Static), self.query_one(Sheet).is_read
        rest = "PgUp and PgDn show the rest" if read else UNREAD
        more.update(Content(f"lines {event.first} to {event.last} of {event.total}: {rest}"))
        more.display = event.total > event.last - event.first + 1
        for choices in self.query(Choices):
            choices.hold([id for id in choices.ids if id != _REFUSE], held=not read)

    def _choices(self, field: FormField) -> Choices:
        found = [
            Choice(f"v{n}", one_line(label, LONGEST_LABEL)) for n, label in enumerate(field.labels[: len(field.values)])
        ]
        skip = [] if field.required else [Choice(_SKIP, "Leave it empty", "s")]
        refuse = Choice(_REFUSE, "Decline", "n")
        return Choices(no_first([*found, *skip, refuse], _REFUSE), grace=self._grace)

    def _input(self, field: FormField) -> Input:
        value = "" if field.default is None else one_line(str(field.default), 1_000)
        return Input(value=value, select_on_focus=False)

    def _note(self, wrong: str) -> None:
        many = f"field {self._at + 1} of {len(self._fields)} · " if len(self._fields) > 1 else ""
        words = f"{wrong}{' · ' if wrong else ''}{many}Enter: next · Esc: decline · Ctrl+L: decide later"
        self.query_one(".elicit--note", Static).update(Content(words))

    @on(Choices.Chosen)
    async def _chosen(self, event: Choices.Chosen) -> None:
        if event.choice != _REFUSE and not self.query_one(Sheet).is_read:
            return
        match event.choice:
            case "yes":
                self._answer(Allow({**self.question.args, "content": {}}))
            case "refuse":
                self.action_refuse()
            case "skip":
                await self._next()
            case chosen:
                field = self._fields[self._at]
                self._content[field.name] = field.values[int(chosen[1:])]
                await self._next()

    @on(Input.Submitted)
    async def _said(self, event: Input.Submitted) -> None:
        if time.monotonic() - self._since < self._grace:  # the Enter was meant for something else
            return
        if not self.query_one(Sheet).is_read:
            self._note("scroll to the end of the message first (PgDn)")
            return
        field = self._fields[self._at]
        words = event.value.strip()
        if not words and field.required:
            self._note("this field is required")
            return
        try:
            if words:
                kinds = {"integer": int, "number": float}
                self._content[field.name] = kinds.get(field.kind, str)(words)
        except ValueError:
            self._note("enter a number")
            return
        await self._next()

    async def _next(self) -> None:
        self._at += 1
        if self._at < len(self._fields):
            await self._show()
        else:
            self._answer(Allow({**self.question.args, "content": self._content}))

    def action_say_no(self) -> None:
        if time.monotonic() - self._since >= self._grace:  # otherwise the Esc was meant for something else
            self.action_refuse()

    def action_refuse(self) -> None:
        self._answer(Deny(DECLINED))

    def _answer(self, decision: Decision) -> None:
        app_of(self).post_message(AnswerQuestion(self.question, decision))
        self.dismiss()
