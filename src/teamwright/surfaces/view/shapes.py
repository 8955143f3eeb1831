"""Plain data that the screen shows: items of a conversation, agents, jobs, news of teams."""

from typing import Any, Literal

from msgspec import Struct, field

from teamwright.core.data.content.patch import Hunk
from teamwright.core.data.event import TeamKind
from teamwright.core.data.job import JobKind
from teamwright.core.data.letter import JobStatus
from teamwright.core.data.message import Usage
from teamwright.core.ids import AgentId, CallId, JobId, LetterId

Status = Literal["running", "ok", "error", "denied"]
State = Literal["running", "waiting", "idle", "done", "failed", "stopped"]
NoteKind = Literal["info", "warning", "error", "message", "notice", "aside", "output"]


class Spoken(Struct, eq=False):
    """Words of the person or of the agent. `n` is the transcript line, or 0 while it is streamed."""

    role: Literal["person", "agent"]
    text: str
    streaming: bool = False
    n: int = 0
    at: int = 0


class Thought(Struct, eq=False):
    text: str
    streaming: bool = False
    n: int = 0
    at: int = 0


class Step(Struct, eq=False):
    """One call of a tool."""

    call_id: CallId
    tool: str
    title: str  # what it is about, on one line, already safe to draw
    args: dict[str, Any]
    status: Status = "running"
    result: str = ""  # bounded but raw: it must pass `text.safe` before it is drawn
    progress: str = ""
    asked: bool = False  # waits for approval
    queued: bool = False  # waits for the call before it
    agent: AgentId | None = None  # the agent that this call started
    n: int = 0
    at: int = 0
    begun: int = 0  # when it began after approval; 0: unknown
    ended: int = 0
    patch: tuple[Hunk, ...] = ()  # what it changed in its file
    answers: tuple[tuple[str, str], ...] = ()  # questions to the person, with their answers


class Note(Struct, eq=False):
    """A line of the program's own, or what others told the agent. `who` is the sender of a message."""

    kind: NoteKind
    text: str
    who: str = ""
    n: int = 0
    at: int = 0
    job: str = ""  # job whose end it reports


Item = Spoken | Thought | Step | Note


class AgentView(Struct):
    """One agent as a person follows it. Times are milliseconds since 1970; 0 if unknown."""

    id: AgentId
    name: str
    kind: str = "main"
    parent: AgentId | None = None
    team: str = ""
    color: str = ""
    state: State = "idle"
    doing: str = ""  # a few words
    tokens: int = 0
    usd: float | None = 0.0  # None: unknown price
    started: int = 0
    ended: int = 0
    turn: int = 0  # when its running turn began
    waiting_for: str = ""
    background: bool = False
    description: str = ""
    model: str = ""
    summary: str = ""  # in its own words, if it was asked for them
    cwd: str = ""  # where it works
    used: dict[str, Usage] = field(default_factory=dict[str, Usage])  # by model; `usd` is computed from it


class JobView(Struct):
    id: JobId
    kind: JobKind
    description: str
    owner: AgentId
    status: JobStatus = "running"
    background: bool = False
    summary: str = ""
    started: int = 0
    ended: int = 0


class TeamEvent(Struct, frozen=True):
    at: int
    team: str
    kind: TeamKind
    agent: str
    text: str = ""
    to: str = ""
    task: str = ""


class Queued(Struct, frozen=True):
    """A prompt that waits until the agent can read it."""

    letter: LetterId
    text: str
    agent: AgentId | None = None  # None: the main agent


class Talk(Struct):
    """The newest part of an agent's conversation. Anything older than `items` is read again from the transcript."""

    items: list[Item] = field(default_factory=list[Item])
    dropped: int = 0  # number of items dropped before the first one
    version: int = 0  # grows with every change
    cuts: int = 0  # how often a rewind removed its end, or brought it back
