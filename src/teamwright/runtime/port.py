"""The port through which surfaces see an open session, in this process or behind a door."""

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

from teamwright.core.data.event import Record
from teamwright.core.data.extensions.server import ServerState
from teamwright.core.data.job import JobKind
from teamwright.core.data.landing import LandEntry
from teamwright.core.data.message import Effort, Usage
from teamwright.core.data.op import Op, Say
from teamwright.core.data.tasks import Task
from teamwright.core.ids import AgentId, LetterId, SessionId
from teamwright.core.permissions.consent import Behaviour, Mode, Question
from teamwright.store.tables.mail import MailEntry

if TYPE_CHECKING:
    from teamwright.runtime.extensions.skills import Expanded
    from teamwright.runtime.past.replay import Past

END = 1 << 60  # after the last line of any transcript


class SessionView(Struct, frozen=True):
    """The session's state now, for a surface that has just connected."""

    id: SessionId
    cwd: str
    model: str
    mode: Mode
    running: bool
    questions: tuple[Question, ...]
    usage: Usage
    usd: float


class SessionFacts(Struct, frozen=True):
    """What the screen always shows of a session."""

    model: str
    mode: Mode
    cwd: str  # working directory of the main agent
    usd: float = 0.0  # of the whole session, including the time before a resume
    left: str = ""  # what is left of the budget, in words
    window: int = 0  # tokens in the conversation
    begun: bool = False  # whether anything was said
    colors: dict[AgentId, str] = {}  # of teammates
    room: int = 0  # tokens that fit into the model's window; 0: unknown
    jobs: dict[JobKind, int] = {}  # number of running background jobs, by kind
    sandbox: str = ""  # tier that holds commands; `none`: on, but nothing holds them; empty: off
    unpriced: bool = False  # some usage has no known price, and `usd` leaves it out
    waited_for: bool = False  # an agent runs in the foreground: it can be moved to the background


class ContextUse(Struct, frozen=True):
    """What fills the main agent's window, in tokens."""

    model: str
    window: int  # 0: unknown
    system: int
    tools: Mapping[str, int]
    messages: int


class SessionStatus(Struct, frozen=True):
    """What the screen shows only on request."""

    context: ContextUse
    servers: tuple[ServerState, ...] = ()
    effort: Effort | int | None = None
    key: str = ""  # where the provider's key comes from; empty: no key is used


class Named(Struct, frozen=True):
    """A skill, or a server's prompt."""

    name: str
    description: str
    hint: str = ""  # the arguments it takes


class StandingRule(Struct, frozen=True):
    """A permission rule in effect."""

    behaviour: Behaviour
    rule: str
    source: str
    agent: str = ""  # name of the only agent that it applies to; empty: all


class Crew(Struct, frozen=True):
    """State that no event tells, read from the store on request."""

    teams: tuple[str, ...] = ()
    tasks: tuple[Task, ...] = ()
    mail: tuple[MailEntry, ...] = ()
    landing: tuple[LandEntry, ...] = ()  # queue of the repository, from all sessions


class RewindPoint(Struct, frozen=True):
    """A place in the main conversation to go back to, with what was changed from there to the next one."""

    line: int  # of the transcript; a rewind goes back to before it
    at: int
    kind: Literal["prompt", "rewind"]
    text: str = ""  # of the prompt
    files: int = 0
    plus: int = 0
    minus: int = 0
    gaps: tuple[str, ...] = ()  # why some changes are not known


class RewindPreview(Struct, frozen=True):
    """What a rewind would do to files."""

    restores: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()  # of both kinds: changed by somebody else since
    left: tuple[str, ...] = ()  # stay as they are; one line each, with the reason
    notes: tuple[str, ...] = ()  # what is not covered, and who still works


class Live(Protocol):
    """Events from now on; they end with the session."""

    def __aiter__(self) -> AsyncIterator[Record]: ...
    def close(self) -> None: ...


class SessionPort(Protocol):
    """Ops in, events out, and the state that no event tells."""

    @property
    def id(self) -> SessionId: ...
    @property
    def main(self) -> AgentId: ...
    @property
    def cwd(self) -> Path: ...
    @property
    def notes(self) -> Sequence[str]:
        """What the person should know about how the session was opened."""
        ...

    @property
    def elsewhere(self) -> bool:
        """Whether it runs in another process, and continues when we leave."""
        ...

    @property
    def model_names(self) -> Sequence[str]: ...
    @property
    def facts(self) -> SessionFacts: ...
    def color(self, agent: AgentId, kind: str) -> str:
        """Color of a teammate, or else of its agent type."""
        ...

    async def begin(self, newest: int = END) -> tuple["Past", Live]:
        """The past, and events from now on; call it once. At least `newest` lines of each transcript come as
        records."""
        ...

    async def past(self, agent: AgentId, before: int = END, newest: int = END) -> list[Record]:
        """About `newest` lines of an agent's transcript before the line `before`, or more."""
        ...

    async def submit(self, op: Op) -> None:
        """Returns once it is stored or done; raises UsageError for what cannot be done."""
        ...

    async def say(self, op: Say) -> LetterId: ...

    async def withdraw(self, letter: LetterId, agent: AgentId | None) -> bool:
        """False if it was already read."""
        ...

    async def stop(self, agent: AgentId | None) -> None:
        """Stop a teammate by force, an agent's job, or the main agent's turn; None: all of them."""
        ...

    async def expand(self, text: str) -> "Expanded | None":
        """What `/name words` stands for; None: the model gets the text as it is."""
        ...

    async def skills(self) -> list[Named]:
        """What can be called as `/name` besides the app's own commands."""
        ...

    async def rules(self) -> list[StandingRule]:
        """Restricting rules come first."""
        ...

    async def settled(self) -> Mapping[AgentId, int]:
        """Wait until the main agent rests and nobody works for it; returns the last line of every transcript.

        Commands in the background do not count.
        """
        ...

    async def crew(self) -> Crew: ...
    async def status(self) -> SessionStatus: ...

    async def points(self) -> list[RewindPoint]:
        """Places in the main conversation that a `Rewind` can go back to, oldest first."""
        ...

    async def preview(self, line: int) -> RewindPreview:
        """What going back to before this line would do to files. Raises UsageError if there is no such point."""
        ...
