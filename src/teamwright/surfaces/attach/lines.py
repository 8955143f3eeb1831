"""Converts stream-json to lines for a plain terminal, and typed lines to stream-json."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from teamwright.core.data.message import ToolCall
from teamwright.core.errors import UsageError
from teamwright.core.ids import CallId
from teamwright.core.text import whole_number
from teamwright.surfaces.plain import last_lines, paint, summary
from teamwright.surfaces.view.diff import rows_of
from teamwright.surfaces.view.sentences import refusal
from teamwright.tools.agents.ask import AskArgs, AskedQuestion
from teamwright.tools.bounds import counted, visible
from teamwright.tools.catalog import traits_of

HELP = "Type a prompt; /to AGENT words, /interrupt [AGENT], /stop ID, /stop-all, /background, /quit."
SCREEN = 18  # lines of a question that any terminal shows at once
_MARKS = {"add": "+ ", "del": "- "}
_PLAIN = {"/interrupt": "interrupt", "/stop-all": "stop_all", "/background": "background"}
_numbers = itertools.count(1)


class Block(Struct):
    type: str = ""
    text: str = ""
    name: str = ""
    input: dict[str, Any] = {}
    content: "str | list[Block]" = ""


class SaidBlock(Struct):
    content: str | list[Block] = ""


class RuleParts(Struct):
    toolName: str
    ruleContent: str = ""

    def __str__(self) -> str:
        return f"{self.toolName}({self.ruleContent})" if self.ruleContent else self.toolName


class Update(Struct):
    type: str = "addRules"
    rules: list[RuleParts] = []
    behavior: str = "allow"
    destination: str = "session"
    mode: str = ""
    directories: list[str] = []

    @property
    def words(self) -> list[str]:
        """What the update would allow."""
        return [*map(str, self.rules), *([f"the mode {self.mode}"] if self.mode else []), *self.directories]


class CallQuestion(Struct):
    """A question about a call."""

    subtype: str = ""
    tool_name: str = ""
    input: dict[str, Any] = {}
    agent_name: str = ""
    decision_reason: str = ""
    permission_suggestions: list[Update] = []

    @property
    def rules(self) -> list[str]:
        return [words for update in self.permission_suggestions for words in update.words]

    @property
    def long(self) -> bool:
        """Whether it scrolls off the screen while it is printed: then a single letter is no answer."""
        return sum(1 + len(row.text) // 80 for row in rows_of(self.tool_name, self.input)) > SCREEN

    @property
    def parts(self) -> list[AskedQuestion]:
        """The agent's own questions; none if it asks for something else."""
        try:
            return (
                msgspec.convert(self.input, AskArgs).questions if traits_of(self.tool_name).asks == "questions" else []
            )
        except msgspec.ValidationError:
            return []


class RequestOutcome(Struct):
    subtype: str = ""
    error: str = ""


class AttachLine(Struct):
    """All fields that are used of any line."""

    type: str
    subtype: str = ""
    message: SaidBlock | None = None
    request: CallQuestion | None = None
    response: RequestOutcome | None = None
    request_id: str = ""
    isReplay: bool = False
    is_error: bool = False
    result: Any = None
    agent_id: str | None = None
    session_id: str = ""
    text: str = ""
    task_id: str = ""
    description: str = ""
    summary: str = ""
    cwd: str = ""
    model: str = ""
    running: bool = False
    agent: str = ""
    name: str = ""
    kind: str = ""
    agents: dict[str, str] = {}
    to: str | None = None


class ToldLine(Struct):
    """What earlier lines said, as far as later lines need it."""

    colours: bool = False
    questions: dict[str, CallQuestion] = field(default_factory=dict[str, CallQuestion])  # waiting ones, by id
    answers: dict[str, str] = field(default_factory=dict[str, str])  # to the parts of the first question
    names: dict[str, str] = field(default_factory=dict[str, str])  # of agents, by id

    def paint(self, style: str, text: str) -> str:
        return paint(style, text, colours=self.colours)


_lines = msgspec.json.Decoder(AttachLine)

# --- output


def describe(raw: bytes, told: ToldLine) -> list[str]:
    """A line as a person reads it; empty if it is not for people."""
    try:
        line = _lines.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    if line.type.startswith("control_"):
        return _control_line(line, told)
    match line:
        case AttachLine(type="assistant", message=SaidBlock(content=list(blocks))):
            return _by(line, told, _all(_block, blocks, told))
        case AttachLine(type="user", isReplay=True, message=SaidBlock(content=str(text))):
            return _by(line, told, [told.paint("bold", f"> {part}") for part in visible(text).split("\n")])
        case AttachLine(type="user", message=SaidBlock(content=list(blocks))):
            return _by(line, told, _all(_result, blocks, told))
        case AttachLine(type="result", is_error=True):
            return [told.paint("red", visible(str(line.result)))]
        case AttachLine(type="system"):
            return _system(line, told)
        case _:
            return []


def _control_line(line: AttachLine, told: ToldLine) -> list[str]:
    match line:
        case AttachLine(type="control_request", request=CallQuestion(subtype="can_use_tool") as request):
            told.questions[line.request_id] = request
            return question(request, told)
        case AttachLine(type="control_cancel_request"):
            gone = told.questions.pop(line.request_id, None)
            return [told.paint("dim", f"({visible(gone.tool_name)}: settled)")] if gone else []
        case AttachLine(type="control_response", response=RequestOutcome(subtype="error", error=text)):
            return [told.paint("red", visible(text))]
        case _:
            return []


def _system(line: AttachLine, told: ToldLine) -> list[str]:
    match line.subtype:
        case "agent_started" if line.agent_id:
            told.names[line.agent_id] = line.name
            return []
        case "attached":
            told.names |= line.agents
            state = "at work" if line.running else "waiting for you"
            return [told.paint("dim", visible(f"{line.cwd} · {line.model} · {state}"))]
        case "rewound":
            return [told.paint("dim", "* somebody at the app went back to an earlier prompt")]
        case "warning" | "refused":
            return [told.paint("yellow", visible(line.text))]
        case "task_started":
            told.names.setdefault(line.task_id, line.description or line.task_id)
            return [told.paint("dim", visible(f"* {line.description} ({line.task_id}) has started"))]
        case "task_notification":
            return [visible(f"* {line.summary}")]
        case "team_event":
            return [told.paint("dim", visible(f"* {_team_words(line)}").replace("\n", " "))]
        case _:
            return []


def _team_words(line: AttachLine) -> str:
    to = f"to {line.to}" if line.to else ""
    return " ".join(filter(None, (line.agent, line.kind, to, line.text)))


def _by(line: AttachLine, told: ToldLine, lines: list[str]) -> list[str]:
    """Put the name of another agent before its lines."""
    if not line.agent_id or line.agent_id == line.session_id:
        return lines
    name = told.paint("cyan", visible(told.names.get(line.agent_id, line.agent_id)))
    return [f"{name} | {text}" for text in lines]


def _all(draw: Callable[[Block, ToldLine], list[str]], blocks: Sequence[Block], told: ToldLine) -> list[str]:
    return [text for block in blocks for text in draw(block, told)]


def _block(block: Block, told: ToldLine) -> list[str]:
    if block.type == "text":
        return visible(block.text).split("\n")
    if block.type != "tool_use":
        return []
    call = ToolCall(CallId(""), block.name, msgspec.Raw(msgspec.json.encode(block.input)))
    return [f"{told.paint('green', '+')} {told.paint('cyan', visible(f'{block.name} {summary(call)}'.rstrip()))}"]


def _result(block: Block, told: ToldLine) -> list[str]:
    if block.type != "tool_result":
        return []
    parts = [block.content] if isinstance(block.content, str) else [part.text for part in block.content]
    lines = last_lines(visible("\n".join(parts).strip()).split("\n"))
    return [told.paint("dim", f"    {text}") for text in lines]


def question(request: CallQuestion, told: ToldLine) -> list[str]:
    """The whole question: a yes must not cover what was not seen."""
    head = f"{request.agent_name} wants to use {request.tool_name}: {request.decision_reason}"
    lines = [told.paint("yellow", "? " + counted(visible(head)).replace("\n", " "))]
    if request.parts:
        return [*lines, *_next_part(request, told)]
    rows = [f"  {_MARKS.get(row.kind, '  ')}{row.text}" for row in rows_of(request.tool_name, request.input)]
    always = f"{'always' if request.long else 'a'} (always: {', '.join(request.rules)}), " if request.rules else ""
    keys = f"  {'yes' if request.long else 'y'}, {counted(visible(always))}n, or n and why"
    more = [f"  these were {len(rows):,} lines: read them all, then answer with the whole word"] if request.long else []
    return [*lines, *rows, *(told.paint("yellow", line) for line in (*more, keys))]


def _next_part(request: CallQuestion, told: ToldLine) -> list[str]:
    part = next((p for p in request.parts if p.question not in told.answers), None)
    if part is None:
        return []
    options = [f"  {n}. {option.label}: {option.description}" for n, option in enumerate(part.options, 1)]
    return [counted(visible(text)).replace("\n", " ") for text in (part.question, *options)]


# --- input


def typed(text: str, told: ToldLine) -> list[dict[str, Any]]:
    """An answer if a question waits and the text looks like one, else a command or a prompt."""
    words = text.strip()
    if not words:
        return []
    if told.questions and (answer := _answer(words, told)) is not None:
        return answer
    name, _, rest = words.partition(" ")
    if name == "/to":
        who, _, said = rest.strip().partition(" ")
        if not said.strip():
            raise UsageError("/to needs an agent and a message")
        return [_user(said.strip()) | {"agent_id": who}]
    if name == "/stop":
        return [_control("stop_task", task_id=rest.strip())]
    if name in _PLAIN:
        key = "agent_id" if name == "/interrupt" else "task_id"
        return [_control(_PLAIN[name], **({key: rest.strip()} if rest.strip() else {}))]
    return [_user(text)]


def _answer(words: str, told: ToldLine) -> list[dict[str, Any]] | None:
    """Answers go to the oldest question."""
    id, request = next(iter(told.questions.items()))
    if request.parts:
        return _answer_part(words, id, request, told)
    letter, _, why = words.partition(" ")
    if words in ("y", "a") and request.long:
        raise UsageError("that question is longer than a screen: read it, then answer `yes`, `always` or `n`")
    letter = {"yes": "y", "always": "a", "no": "n"}.get(letter, letter)
    if letter not in ("y", "a", "n") or (why and letter != "n"):
        return None
    del told.questions[id]
    if letter == "n":
        said = refusal(why.strip())
        return [_respond(id, {"behavior": "deny", "message": said})]
    always = {"updatedPermissions": [_said(one) for one in request.permission_suggestions]} if letter == "a" else {}
    return [_respond(id, {"behavior": "allow"} | always)]


def _said(update: Update) -> dict[str, Any]:
    """The update without its empty fields."""
    return {name: value for name, value in msgspec.to_builtins(update).items() if value}


def _answer_part(words: str, id: str, request: CallQuestion, told: ToldLine) -> list[dict[str, Any]] | None:
    if words.startswith("/"):
        return None
    part = next((p for p in request.parts if p.question not in told.answers), None)
    if part is not None:
        labels = [option.label for option in part.options]
        picked = whole_number(words) or 0
        told.answers[part.question] = labels[picked - 1] if 0 < picked <= len(labels) else words
    if len(told.answers) < len(request.parts):
        return []
    answers, told.answers = told.answers, {}
    del told.questions[id]
    return [_respond(id, {"behavior": "allow", "updatedInput": request.input | {"answers": answers}})]


def _user(text: str) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": text}}


def _control(subtype: str, **fields: str) -> dict[str, Any]:
    request = {"subtype": subtype, **fields}
    return {"type": "control_request", "request_id": f"attach-{next(_numbers)}", "request": request}


def _respond(id: str, response: dict[str, Any]) -> dict[str, Any]:
    return {"type": "control_response", "response": {"subtype": "success", "request_id": id, "response": response}}
