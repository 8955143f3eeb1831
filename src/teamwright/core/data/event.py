"""Events: frozen facts that the terminal, JSON output, transcripts, resume and tests read.

Durable facts are appended to the agent's transcript; the others are for current watchers only.
"""

from typing import Any, ClassVar, Literal, TypeGuard

from msgspec import Struct

from teamwright.core.data.code import TreeSaved
from teamwright.core.data.job import JobKind
from teamwright.core.data.letter import Figures, JobStatus
from teamwright.core.data.message import Content, Delta, Effort, Message, Stop, Usage
from teamwright.core.ids import AgentId, CallId, JobId, LetterId, QuestionId, SessionId
from teamwright.core.permissions.consent import Consent, Decision, Mode, Question

FORMAT = 1  # of transcripts; a program refuses what is newer than it knows


class Seen(Struct, frozen=True, omit_defaults=True):
    """A file as an agent last read or wrote it; what is on disk must still agree before it is changed."""

    path: str
    mtime_ns: int
    size: int


class Source(Struct, frozen=True):
    """Where a fork branched off: after this line of that agent's transcript."""

    agent: AgentId
    line: int


class AgentStarted(Struct, frozen=True, tag="agent_started", omit_defaults=True):
    """Once in an agent's life, the first line of its transcript."""

    session: SessionId
    cwd: str
    version: str
    format: int = FORMAT
    kind: str = "main"
    name: str = "main"
    parent: AgentId | None = None
    depth: int = 0
    call_id: CallId | None = None  # the tool call that started it
    description: str = ""
    worktree: str = ""  # its own directory, if it has one
    limits: dict[str, tuple[str, ...]] = {}  # patterns that its definition sets to the use of tools
    may_start: tuple[str, ...] | None = None  # kinds of agents; None: all
    denied: tuple[str, ...] = ()  # rules of its definition: what it may not do with its tools
    source: Source | None = None  # a fork begins with the history of another agent
    team: str = ""  # of a teammate
    imported: str = ""  # the program whose session this was; `description` is its title
    durable: ClassVar[bool] = True


class Resumed(Struct, frozen=True, tag="resumed", omit_defaults=True):
    """Another process resumes this agent. `torn` bytes of a half-written line were cut off."""

    version: str
    torn: int = 0
    durable: ClassVar[bool] = True


class Rendered(Struct, frozen=True, tag="rendered", omit_defaults=True):
    """System prompt and tools, stored by content under `prompt`.

    Only this, `Compacted`, `Mended` and `Rewound` may break the prefix.
    """

    prompt: str
    model: str
    reason: str
    effort: Effort | int | None = None
    durable: ClassVar[bool] = True


class LettersTaken(Struct, frozen=True, tag="letters_taken", omit_defaults=True):
    """Letters entered the conversation. Their ids here are what makes delivery exactly once."""

    letters: tuple[LetterId, ...]
    message: Message
    trace: str = ""  # of the program that asked (a W3C `traceparent`), if it has one
    durable: ClassVar[bool] = True


class Reminded(Struct, frozen=True, tag="reminded"):
    """The runtime told the model something: a cut reply, a limit, a changed mode."""

    message: Message
    durable: ClassVar[bool] = True


class Replied(Struct, frozen=True, tag="replied", omit_defaults=True):
    message: Message
    stop: Stop
    usage: Usage
    id: str = ""
    ms: int = 0
    durable: ClassVar[bool] = True


Why = Literal["auto", "manual", "too_long"]


class Compacted(Struct, frozen=True, tag="compacted", omit_defaults=True):
    """The conversation continues from `messages` alone: a summary of it, and what has not been answered yet."""

    messages: tuple[Message, ...]
    why: Why
    tokens: int  # that the conversation had before
    usage: Usage  # of the request that summarised it
    durable: ClassVar[bool] = True


class Replaced(Struct, frozen=True):
    index: int  # of the conversation's messages, from 0
    message: Message


class Mended(Struct, frozen=True, tag="mended"):
    """The provider refused the conversation for what it held, and takes it with these messages in place of theirs."""

    replaced: tuple[Replaced, ...]
    durable: ClassVar[bool] = True


class Words(Struct, frozen=True, omit_defaults=True):
    """A list that goes on from its beginning: so many of it stay, these follow."""

    keep: int
    more: tuple[str, ...] = ()


class Rewound(Struct, frozen=True, tag="rewound", omit_defaults=True):
    """The person went back to where things stood before the line `to`: a prompt, or an earlier rewind.

    With `talk` the conversation continues from its first `keep` messages and from `messages`, which are those that had
    been summarised or left before. What was used stays counted, and letters that were read stay read.
    """

    to: int
    began: int  # when: files that are put back were kept from then on
    talk: bool = False
    files: tuple[str, ...] = ()  # that were put back or removed
    keep: int = 0
    messages: tuple[Message, ...] = ()
    prompts: Words = Words(0)
    heard: Words = Words(0)
    forgets: tuple[str, ...] = ()  # files that must be read again before they are changed
    cwd: str = ""
    asked: int = 0
    tokens: int = 0
    stop: Stop | None = None
    durable: ClassVar[bool] = True


class ToolStarted(Struct, frozen=True, tag="tool_started"):
    """Only for tools with effects: after a crash it tells `outcome unknown` from `never begun`."""

    call_id: CallId
    durable: ClassVar[bool] = True


class ToolEnded(Struct, frozen=True, tag="tool_ended", omit_defaults=True):
    """Exactly one for each call. The message with the results is a fold of these."""

    call_id: CallId
    content: tuple[Content, ...]
    is_error: bool = False
    data: dict[str, Any] | None = None
    seen: tuple[Seen, ...] = ()
    cwd: str = ""  # the working directory from here on, if it changed
    args: dict[str, Any] | None = None  # what really ran, if a person or hook changed the input
    ends_turn: bool = False  # the agent rests once all results are there
    words: str = ""  # of the person: what they answered
    consent: Consent | None = None  # who said yes or no to it, where somebody was asked
    durable: ClassVar[bool] = True


class Denied(Struct, frozen=True, tag="denied", omit_defaults=True):
    """A call was refused by a rule, a mode, a person, or because there was nobody to ask."""

    call_id: CallId
    tool: str
    args: dict[str, Any]
    reason: str
    words: str = ""  # of the person: why not
    durable: ClassVar[bool] = True


class ModeChanged(Struct, frozen=True, tag="mode_changed"):
    mode: Mode
    durable: ClassVar[bool] = True


TurnEnd = Literal["done", "max_turns", "max_budget", "interrupted", "refused", "failed"]


class TurnEnded(Struct, frozen=True, tag="turn_ended", omit_defaults=True):
    """The agent stopped asking. `text` is its answer, `error` one sentence if it is not a good end."""

    reason: TurnEnd
    text: str = ""
    error: str = ""
    stop: Stop | None = None
    status: int | None = None  # of the API, if it refused
    data: dict[str, Any] | None = None  # the answer by a schema: for code that asked, no transcript has it here
    fault: str = ""  # the kind of failure, if the model could not be asked
    durable: ClassVar[bool] = True


class AgentEnded(Struct, frozen=True, tag="agent_ended", omit_defaults=True):
    """The end of one run. An agent that is woken later continues after a `Resumed`."""

    status: JobStatus
    text: str = ""
    error: str = ""
    durable: ClassVar[bool] = True


class JobStarted(Struct, frozen=True, tag="job_started", omit_defaults=True):
    """Told under the id of the job's owner."""

    job: JobId
    kind: JobKind
    description: str
    call_id: CallId | None = None
    background: bool = False
    durable: ClassVar[bool] = False


class JobProgressed(Struct, frozen=True, tag="job_progressed", omit_defaults=True):
    job: JobId
    description: str
    usage: Figures
    last_tool: str = ""
    summary: str = ""  # what it is doing, in its own words, if it was asked just now
    durable: ClassVar[bool] = False


class JobEnded(Struct, frozen=True, tag="job_ended", omit_defaults=True):
    job: JobId
    status: JobStatus
    summary: str
    output: str
    usage: Figures
    call_id: CallId | None = None
    durable: ClassVar[bool] = False


TeamKind = Literal["spawn", "idle", "wake", "message", "claim", "completed", "shutdown", "died", "moved"]


class TeamChanged(Struct, frozen=True, tag="team_changed", omit_defaults=True):
    """Told under the id of the member that it is about; `agent` is its address, `name@team`."""

    team: str
    kind: TeamKind
    agent: str
    text: str = ""  # a few words: the reason, the summary of a message
    to: str = ""  # of a message: who gets it
    task: str = ""  # of a claim: its number
    message: str = ""  # of a message: all of it
    durable: ClassVar[bool] = False


class TurnStarted(Struct, frozen=True, tag="turn_started", omit_defaults=True):
    asked: bool = True  # False: a notice or a message continues with what was asked before
    durable: ClassVar[bool] = False


class Streamed(Struct, frozen=True, tag="streamed"):
    delta: Delta
    durable: ClassVar[bool] = False


class ToolProgressed(Struct, frozen=True, tag="tool_progressed", omit_defaults=True):
    call_id: CallId
    text: str
    output: str = ""  # all of it so far, or its head and tail
    durable: ClassVar[bool] = False


class Asked(Struct, frozen=True, tag="asked"):
    question: Question
    durable: ClassVar[bool] = False


class Answered(Struct, frozen=True, tag="answered"):
    """`decision` is None where the question was withdrawn."""

    question: QuestionId
    decision: Decision | None
    durable: ClassVar[bool] = False


class AsideAnswered(Struct, frozen=True, tag="aside_answered"):
    """A side question and its answer; neither is part of the conversation."""

    question: str
    text: str
    durable: ClassVar[bool] = False


class Suggested(Struct, frozen=True, tag="suggested"):
    """What the person might say next, on one line."""

    text: str
    durable: ClassVar[bool] = False


class PromptPosted(Struct, frozen=True, tag="prompt_posted"):
    """A person has said something, which the agent has not read yet. `text` is what was typed."""

    letter: LetterId
    text: str
    durable: ClassVar[bool] = False


class PromptWithdrawn(Struct, frozen=True, tag="prompt_withdrawn"):
    """The person took it back before it was read."""

    letter: LetterId
    durable: ClassVar[bool] = False


class Warned(Struct, frozen=True, tag="warned"):
    """One line for the person."""

    text: str
    durable: ClassVar[bool] = False


class FilesRestored(Struct, frozen=True, tag="files_restored", omit_defaults=True):
    """Files were put back as they were; `left` says of others, one line each, why they were not."""

    files: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    durable: ClassVar[bool] = False


Durable = (
    AgentStarted
    | Resumed
    | Rendered
    | LettersTaken
    | Reminded
    | Replied
    | Compacted
    | Mended
    | Rewound
    | ToolStarted
    | ToolEnded
    | Denied
    | ModeChanged
    | TreeSaved
    | TurnEnded
    | AgentEnded
)
Event = (
    Durable
    | TurnStarted
    | Streamed
    | ToolProgressed
    | Asked
    | Answered
    | Warned
    | AsideAnswered
    | Suggested
    | JobStarted
    | JobProgressed
    | JobEnded
    | TeamChanged
    | PromptPosted
    | PromptWithdrawn
    | FilesRestored
)


def is_durable(event: Event) -> TypeGuard[Durable]:
    return event.durable


class Line(Struct, frozen=True):
    """One line of a transcript; its number is its place in the file."""

    at: int  # milliseconds since 1970
    event: Durable


class Record(Struct, frozen=True):
    """An event as watchers see it. `n` is the transcript's line number; 0 for what is not durable."""

    agent: AgentId
    n: int
    at: int
    event: Event
