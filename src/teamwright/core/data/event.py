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

FORMAT = 1  # transcript format; a newer one is refused


class Seen(Struct, frozen=True, omit_defaults=True):
    """A file as an agent last saw it. It may only be changed while the disk still agrees. `part`: a search showed some
    of its lines, so that it may be edited, but not replaced."""

    path: str
    mtime_ns: int
    size: int
    part: bool = False

    def agrees(self, other: "Seen") -> bool:
        return (self.mtime_ns, self.size) == (other.mtime_ns, other.size)


class Source(Struct, frozen=True):
    """Where a fork branched off: after this line of that agent's transcript."""

    agent: AgentId
    line: int


class AgentStarted(Struct, frozen=True, tag="agent_started", omit_defaults=True):
    """The first line of every transcript, written once."""

    session: SessionId
    cwd: str
    version: str
    format: int = FORMAT
    kind: str = "main"
    name: str = "main"
    parent: AgentId | None = None
    depth: int = 0
    call_id: CallId | None = None  # the tool call that started the agent
    description: str = ""
    worktree: str = ""  # its own directory, if any
    limits: dict[str, tuple[str, ...]] = {}  # patterns by which its definition limits tools
    may_start: tuple[str, ...] | None = None  # kinds of agents it may start; None: all
    denied: tuple[str, ...] = ()  # rules of its definition: what it may not do with its tools
    source: Source | None = None  # for a fork: the agent whose history it starts with
    team: str = ""  # set for a teammate
    imported: str = ""  # the program this session was imported from; `description` is its title
    where: str = ""  # for a teammate: the machine since its start, and the home on it; empty: not known
    durable: ClassVar[bool] = True


class Resumed(Struct, frozen=True, tag="resumed", omit_defaults=True):
    """Another process resumes this agent. `torn` bytes of a half-written line were cut off."""

    version: str
    torn: int = 0
    where: str = ""  # as in `AgentStarted`
    durable: ClassVar[bool] = True


class Rendered(Struct, frozen=True, tag="rendered", omit_defaults=True):
    """System prompt and tools, stored by content. Only this, `Compacted`, `Mended` and `Rewound` break the prefix."""

    prompt: str
    model: str
    reason: str
    effort: Effort | int | None = None
    durable: ClassVar[bool] = True


class LettersTaken(Struct, frozen=True, tag="letters_taken", omit_defaults=True):
    """Letters entered the conversation. Recording their ids here makes delivery exactly once."""

    letters: tuple[LetterId, ...]
    message: Message
    trace: str = ""  # W3C `traceparent` of the program that asked, if it has one
    durable: ClassVar[bool] = True


class Reminded(Struct, frozen=True, tag="reminded"):
    """The runtime told the model something: a reply was cut, a limit was reached, the mode changed."""

    message: Message
    durable: ClassVar[bool] = True


class Replied(Struct, frozen=True, tag="replied", omit_defaults=True):
    message: Message
    stop: Stop
    usage: Usage
    id: str = ""
    ms: int = 0
    report: bool = False  # at a limit: the calls in it are refused
    durable: ClassVar[bool] = True


Why = Literal["auto", "manual", "too_long"]


class Compacted(Struct, frozen=True, tag="compacted", omit_defaults=True):
    """The conversation continues from `messages` alone: a summary and whatever is still unanswered."""

    messages: tuple[Message, ...]
    why: Why
    tokens: int  # tokens of the conversation before
    usage: Usage  # of the request that made the summary
    durable: ClassVar[bool] = True


class Replaced(Struct, frozen=True):
    index: int  # position in the conversation, from 0
    message: Message


class Mended(Struct, frozen=True, tag="mended"):
    """The provider refused the conversation for its content and accepts it with these messages replaced."""

    replaced: tuple[Replaced, ...]
    durable: ClassVar[bool] = True


class Words(Struct, frozen=True, omit_defaults=True):
    """A change of a list: keep its first `keep` items, then append `more`."""

    keep: int
    more: tuple[str, ...] = ()


class Rewound(Struct, frozen=True, tag="rewound", omit_defaults=True):
    """The person went back to the state before line `to`, which is a prompt or an earlier rewind. With `talk` the
    conversation continues from its first `keep` messages plus `messages`, which had been summarised or left before.
    Usage still counts, and letters stay read."""

    to: int
    began: int  # files are restored from copies kept since this time
    talk: bool = False
    files: tuple[str, ...] = ()  # files that were restored or removed
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
    """A tool with effects starts. After a crash this separates `outcome unknown` from `never begun`."""

    call_id: CallId
    durable: ClassVar[bool] = True


class ToolEnded(Struct, frozen=True, tag="tool_ended", omit_defaults=True):
    """Exactly one for each call. The message with the results is a fold of these."""

    call_id: CallId
    content: tuple[Content, ...]
    is_error: bool = False
    data: dict[str, Any] | None = None
    seen: tuple[Seen, ...] = ()
    cwd: str = ""  # the new working directory, if it changed
    args: dict[str, Any] | None = None  # the arguments that really ran, if a person or hook changed them
    ends_turn: bool = False  # the agent rests once all results are in
    words: str = ""  # the person's answer in words
    consent: Consent | None = None  # how the question about the call was answered, if one was asked
    durable: ClassVar[bool] = True


class Denied(Struct, frozen=True, tag="denied", omit_defaults=True):
    """A call was refused by a rule, a mode, a person, or because there was nobody to ask."""

    call_id: CallId
    tool: str
    args: dict[str, Any]
    reason: str
    words: str = ""  # why the person refused
    interrupt: bool = False  # it ends the turn, too
    durable: ClassVar[bool] = True


class ModeChanged(Struct, frozen=True, tag="mode_changed"):
    mode: Mode
    durable: ClassVar[bool] = True


TurnEnd = Literal["done", "max_turns", "max_budget", "interrupted", "refused", "failed"]


class TurnEnded(Struct, frozen=True, tag="turn_ended", omit_defaults=True):
    """The turn is over. `text` is the answer; `error` is one sentence if the turn did not end well."""

    reason: TurnEnd
    text: str = ""
    error: str = ""
    stop: Stop | None = None
    status: int | None = None  # HTTP status of the API, if it refused
    data: dict[str, Any] | None = None  # the answer as data, for code that gave a schema; not in transcripts
    fault: str = ""  # the kind of failure, if the model could not be asked
    durable: ClassVar[bool] = True


class AgentEnded(Struct, frozen=True, tag="agent_ended", omit_defaults=True):
    """One run has ended. An agent that is woken later continues after a `Resumed`."""

    status: JobStatus
    text: str = ""
    error: str = ""
    durable: ClassVar[bool] = True


class JobStarted(Struct, frozen=True, tag="job_started", omit_defaults=True):
    """Published under the id of the job's owner."""

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
    summary: str = ""  # what it is doing, in its own words, if it was just asked
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
    """Published under the id of the member it is about; `agent` is its address, `name@team`."""

    team: str
    kind: TeamKind
    agent: str
    text: str = ""  # a few words: the reason, the summary of a message
    to: str = ""  # for a message: the receiver
    task: str = ""  # for a claim: the task's number
    message: str = ""  # for a message: its full text
    durable: ClassVar[bool] = False


class TurnStarted(Struct, frozen=True, tag="turn_started", omit_defaults=True):
    asked: bool = True  # False: a notice or message continues earlier work
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
    """`decision` is None if the question was withdrawn."""

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
    """A person said something that the agent has not read yet. `text` is what was typed."""

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
    """Files were restored; `left` lists the others, one line each, with the reason they were not."""

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
    """One line of a transcript; its number is its position in the file."""

    at: int  # milliseconds since 1970
    event: Durable


class Record(Struct, frozen=True):
    """An event as watchers see it. `n` is its line number in the transcript, or 0 for events that are not stored."""

    agent: AgentId
    n: int
    at: int
    event: Event
