"""Letters, the only way into an agent: stored first, then announced by a wake-up."""

from collections.abc import Sequence
from typing import Literal, assert_never

from msgspec import Struct

from teamwright.core.data.message import Block, Content, Message, Text
from teamwright.core.ids import AgentId, CallId, JobId, LetterId

Priority = Literal["now", "next", "later"]
JobStatus = Literal["running", "completed", "failed", "killed"]
ROOM = 200_000  # characters for what waits together, where the window is not known: a quarter of 200,000 tokens
LEAST = 500  # characters that every shortened text keeps
ELEMENTS = (  # how the words of others begin
    "<teammate-message ",
    "<task-notification",
    "<monitor-lines>",
    "<hook-context>",
    "<scheduled-prompt ",
    "<attached-",
    "<shell-input>",
)
LEAD = "team-lead"  # what the lead of a team is called by its members
FRAME = 600  # characters of a notice besides its result


class Sender(Struct, frozen=True, omit_defaults=True):
    """Set by the runtime, never taken from what somebody wrote."""

    kind: Literal["person", "system", "agent"]
    name: str = ""
    id: AgentId | None = None


PERSON = Sender("person")
SYSTEM = Sender("system")


class Prompt(Struct, frozen=True, tag="prompt"):
    """What a person, or a parent, asks for."""

    content: tuple[Content, ...]


class Said(Struct, frozen=True, tag="said", omit_defaults=True):
    """Words of another agent."""

    text: str
    summary: str = ""
    color: str = ""


class Figures(Struct, frozen=True):
    total_tokens: int = 0
    tool_uses: int = 0
    duration_ms: int = 0


class Notice(Struct, frozen=True, tag="notice", omit_defaults=True):
    """A job has ended."""

    job: JobId
    status: JobStatus
    summary: str
    result: str
    output: str
    call_id: CallId | None = None
    usage: Figures = Figures()


class Lines(Struct, frozen=True, tag="lines"):
    """What a monitor has seen."""

    job: JobId
    description: str
    text: str


SignalKind = Literal[
    "idle_notification",
    "shutdown_request",
    "shutdown_approved",
    "shutdown_rejected",
    "plan_approval_request",
    "plan_approval_response",
    "task_assignment",
]


class Signal(Struct, frozen=True, tag="signal", omit_defaults=True):
    """A record between teammates as its reader's model sees it: one line of JSON. It is acted on as a record.

    One that is `quiet` starts no turn: it is given together with whatever comes next.
    """

    kind: SignalKind
    line: str
    color: str = ""
    quiet: bool = False


Body = Prompt | Said | Notice | Lines | Signal


class Letter(Struct, frozen=True):
    id: LetterId
    to: AgentId
    sender: Sender
    body: Body
    priority: Priority = "next"


def due(letters: Sequence[Letter], *, at_rest: bool) -> list[Letter]:
    """The letters to hand over now, in the one order of every inbox; `later` ones only at rest.

    What is quiet wakes nobody: alone it waits.
    """
    found = sorted((x for x in letters if at_rest or x.priority != "later"), key=_rank)
    return [] if at_rest and all(map(is_quiet, found)) else found


def is_quiet(letter: Letter) -> bool:
    return isinstance(letter.body, Signal) and letter.body.quiet


def _rank(letter: Letter) -> int:
    """Person, shutdown request, other records, the lead, peers, notices."""
    match letter.body:
        case Prompt():
            return 0 if letter.sender.kind == "person" else 2
        case Signal(kind="shutdown_request"):
            return 1
        case Signal(kind="idle_notification"):
            return 4
        case Signal():
            return 2
        case Said():
            return 3 if letter.sender.name == LEAD else 4
        case Notice() | Lines():
            return 5
        case _:
            assert_never(letter.body)


def as_message(letters: Sequence[Letter], room: int = ROOM) -> Message:
    """What waits together is given together: one user message, each letter in blocks of its own.

    A person's words are whole. The rest share `room` characters; what is too long for its share is shortened, and
    where there are too many notices for that, the later ones are told in a line each.
    """
    shown, rest = _divide(letters, room)
    share = room // 2 - len(shown) * FRAME if rest else room
    most = max(LEAST, share // max(1, len(shown)))
    fits = sum(_size(letter.body) for letter in shown) <= share
    blocks: list[Block] = []
    for letter in shown:
        blocks += _blocks(letter, None if fits else most)
    if rest:
        blocks.append(Text(_in_short(rest, room // 2)))
    return Message("user", tuple(blocks))


def _divide(letters: Sequence[Letter], room: int) -> tuple[Sequence[Letter], list[Notice]]:
    """What is shown one by one, and the notices beyond what there is room for."""
    notices = [letter.body for letter in letters if isinstance(letter.body, Notice)]
    fits = sum(_size(letter.body) for letter in letters) <= room
    if len(notices) * (FRAME if fits else LEAST + FRAME) <= room:
        return letters, []
    rest = notices[max(1, room // (2 * (LEAST + FRAME))) :]
    short = {notice.job for notice in rest}
    return [x for x in letters if not (isinstance(x.body, Notice) and x.body.job in short)], rest


def _in_short(notices: Sequence[Notice], room: int) -> str:
    """Ids and states, as many as fit; the output files have the rest."""
    lines = [f"{escape(notice.job)} {notice.status}" for notice in notices]
    fitting = lines[: max(1, room // 30)]
    more = f"\n... and {len(lines) - len(fitting)} more" if len(fitting) < len(lines) else ""
    folder = escape(notices[0].output.rpartition("/")[0])
    return (
        f"<task-notifications>\n{len(lines)} further jobs have ended; what each said is in {folder}/ID.output\n"
        + "\n".join(fitting)
        + more
        + "\n</task-notifications>"
    )


def _size(body: Body) -> int:
    match body:
        case Prompt():
            return 0
        case Said() | Lines():
            return len(escape(body.text))
        case Signal():
            return len(escape(body.line))
        case Notice():
            return len(escape(body.result))
        case _:
            assert_never(body)


def added(message: Message, context: Sequence[str]) -> Message:
    """With what hooks have to say beside it, marked: it is not the person's own word."""
    blocks = tuple(Text(f"<hook-context>\n{words}\n</hook-context>") for words in context)
    return Message(message.role, (*message.blocks, *blocks)) if blocks else message


def _blocks(letter: Letter, most: int | None) -> tuple[Content, ...]:
    body = letter.body
    match body:
        case Prompt():
            return body.content
        case Said():
            return (Text(_said(letter.sender, body, most)),)
        case Signal():
            return (Text(_said(letter.sender, Said(body.line, color=body.color), None)),)
        case Notice():
            return (Text(_notice(body, most)),)
        case Lines():
            return (Text(_lines(body, most)),)
        case _:
            assert_never(body)


def _said(sender: Sender, body: Said, most: int | None) -> str:
    """Marked with its sender and escaped, so that it cannot pose as the person or the system."""
    marks = [f'teammate_id="{escape(sender.name)}"']
    marks += [f'summary="{escape(body.summary)}"'] if body.summary else []
    marks += [f'color="{escape(body.color)}"'] if body.color else []
    text = _short(escape(body.text), most, "its sender")
    return f"<teammate-message {' '.join(marks)}>\n{text}\n</teammate-message>"


def _notice(body: Notice, most: int | None) -> str:
    usage = body.usage
    parts = [
        _tag("task-id", body.job),
        _tag("tool-use-id", body.call_id or ""),
        _tag("output-file", body.output),
        _tag("status", body.status),
        _tag("summary", body.summary),
        f"<result>\n{_short(escape(body.result), most, escape(body.output))}\n</result>",
        f"<usage>total_tokens: {usage.total_tokens}\ntool_uses: {usage.tool_uses}\n"
        f"duration_ms: {usage.duration_ms}</usage>",
    ]
    return "<task-notification>\n" + "\n".join(parts) + "\n</task-notification>"


def _lines(body: Lines, most: int | None) -> str:
    text = _short(escape(body.text), most, "the job's output file")
    return f"<monitor-lines>{_tag('task-id', body.job)}{_tag('summary', body.description)}\n{text}\n</monitor-lines>"


def escape(text: str) -> str:
    """No text can open or close an element, or end an attribute."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _tag(name: str, text: str) -> str:
    return f"<{name}>{escape(text)}</{name}>"


def _short(text: str, most: int | None, whole: str) -> str:
    """Of text that is escaped already: that can be six times as long, and its length is what the window sees."""
    if most is None or len(text) <= most:
        return text
    head, tail = text[: most // 2], text[-(most // 2) :]
    return f"{head}\n[... {len(text) - most} characters left out; the whole is in {whole} ...]\n{tail}"
