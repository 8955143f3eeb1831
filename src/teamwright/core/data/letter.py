"""Letters, the only way into an agent: stored first, then announced by a wake-up."""

from collections.abc import Sequence
from typing import Literal, assert_never

from msgspec import Struct

from teamwright.core.data.message import Content, Message, Text
from teamwright.core.ids import AgentId, CallId, JobId, LetterId

Priority = Literal["now", "next", "later"]
JobStatus = Literal["running", "completed", "failed", "killed"]
ELEMENTS = (  # elements that wrap the words of others
    "<teammate-message ",
    "<task-notification",
    "<monitor-lines>",
    "<hook-context>",
    "<scheduled-prompt ",
    "<attached-",
    "<shell-input>",
)
ASKS = "o-"  # how the ids of letters begin that ask a lead for its last message
LEAD = "team-lead"  # the name under which members address their lead


def said_in(message: Message) -> list[str]:
    """The prompts in a message, as they were typed."""
    own = (b for b in message.blocks if isinstance(b, Text) and not b.text.startswith(ELEMENTS))
    return [block.shown for block in own if block.typed != ""]


class Sender(Struct, frozen=True, omit_defaults=True):
    """Set by the runtime, never taken from a text."""

    kind: Literal["person", "system", "agent"]
    name: str = ""
    id: AgentId | None = None


PERSON = Sender("person")
SYSTEM = Sender("system")


class Prompt(Struct, frozen=True, tag="prompt", omit_defaults=True):
    """A request from a person or a parent. `trace` is the W3C `traceparent` of the program that asks."""

    content: tuple[Content, ...]
    trace: str = ""


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
    """A job has ended. A `quiet` notice starts no turn."""

    job: JobId
    status: JobStatus
    summary: str
    result: str
    output: str
    call_id: CallId | None = None
    usage: Figures = Figures()
    quiet: bool = False


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
    """A record between teammates, as the reader's model sees it: one line of JSON. The runtime acts on the record.

    A `quiet` signal starts no turn: it is delivered with the next letter. So is one that is `held`, as long as a
    teammate is at work.
    """

    kind: SignalKind
    line: str
    color: str = ""
    quiet: bool = False
    held: bool = False


Body = Prompt | Said | Notice | Lines | Signal


class Letter(Struct, frozen=True):
    id: LetterId
    to: AgentId
    sender: Sender
    body: Body
    priority: Priority = "next"


def due(letters: Sequence[Letter], *, at_rest: bool) -> list[Letter]:
    """The letters to hand over now, in the order every inbox uses; `later` ones only at rest.

    Quiet letters wake nobody and lengthen no turn, so they wait for the end of a turn and for company. An idle notice
    goes along with any other letter.
    """

    def is_ready(letter: Letter) -> bool:
        return at_rest or not (letter.priority == "later" or is_quiet(letter))

    if all(is_quiet(x) for x in letters if is_ready(x)):
        return []
    return sorted((x for x in letters if is_ready(x) or is_idle_notice(x)), key=_rank)


def is_quiet(letter: Letter) -> bool:
    return not has_news(letter) or (isinstance(letter.body, Signal) and letter.body.held)


def has_news(letter: Letter) -> bool:
    """Whether its reader is woken for it, at once or when everybody rests."""
    return not (isinstance(letter.body, Signal | Notice) and letter.body.quiet)


def is_idle_notice(letter: Letter) -> bool:
    return isinstance(letter.body, Signal) and letter.body.kind == "idle_notification"


def _rank(letter: Letter) -> int:
    """Order: person, shutdown request, other records, the lead, peers, notices."""
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
