"""The port that surfaces see of an open session: one in this process, or one behind a door."""

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
    """The session as it stands now, for a surface that has just come."""

    id: SessionId
    cwd: str
    model: str
    mode: Mode
    running: bool
    questions: tuple[Question, ...]
    usage: Usage
    usd: float


class SessionFacts(Struct, frozen=True):
    """What the screen says of a session all the time, as it is now."""

    model: str
    mode: Mode
    cwd: str  # working directory of the main agent
    usd: float = 0.0  # of the whole session, also before it was resumed
    left: str = ""  # of the budget, in words
    window: int = 0  # tokens that the conversation has
    begun: bool = False  # something was said
    colors: dict[AgentId, str] = {}  # of teammates
    room: int = 0  # tokens that fit into the model's window; 0: not known
    jobs: dict[JobKind, int] = {}  # that run in the background
    sandbox: str = ""  # what holds commands; `none`: it is on, and nothing does; empty: it is off
    unpriced: bool = False  # some of what was used has no known price: `usd` is the rest


class ContextUse(Struct, frozen=True):
    """What fills the main agent's window, in tokens."""

    model: str
    window: int  # 0: not known
    system: int
    tools: Mapping[str, int]
    messages: int


class SessionStatus(Struct, frozen=True):
    """What the screen shows only if somebody asks."""

    context: ContextUse
    servers: tuple[ServerState, ...] = ()
    effort: Effort | int | None = None
    key: str = ""  # where the provider's key comes from; empty: none is used


class Named(Struct, frozen=True):
    """A skill, or a prompt of a server."""

    name: str
    description: str
    hint: str = ""  # what may be said after it


class StandingRule(Struct, frozen=True):
    """A permission rule in effect."""

    behaviour: Behaviour
    rule: str
    source: str
    agent: str = ""  # the name of the one that it is for, if it is for one alone


class Crew(Struct, frozen=True):
    """What no event tells: read from the store when somebody looks at it."""

    teams: tuple[str, ...] = ()
    tasks: tuple[Task, ...] = ()
    mail: tuple[MailEntry, ...] = ()
    landing: tuple[LandEntry, ...] = ()  # of the repository, whoever queued it


class RewindPoint(Struct, frozen=True):
    """A place in the main conversation to go back to, with what was changed from there to the next one."""

    line: int  # of the transcript: back to before it
    at: int
    kind: Literal["prompt", "rewind"]
    text: str = ""  # of the prompt
    files: int = 0
    plus: int = 0
    minus: int = 0
    gaps: tuple[str, ...] = ()  # why some of what was changed is not known


class RewindPreview(Struct, frozen=True):
    """What a rewind of files would do: those that come back, that go, and that somebody else has changed since."""

    restores: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()  # among both
    left: tuple[str, ...] = ()  # stay as they are; one line each, with the reason
    notes: tuple[str, ...] = ()  # what is not covered, who still works


class Live(Protocol):
    """What happens from now on; it ends with the session."""

    def __aiter__(self) -> AsyncIterator[Record]: ...
    def close(self) -> None: ...


class SessionPort(Protocol):
    """Ops in, events out, and what no event tells."""

    @property
    def id(self) -> SessionId: ...
    @property
    def main(self) -> AgentId: ...
    @property
    def cwd(self) -> Path: ...
    @property
    def notes(self) -> Sequence[str]:
        """What the person should know about how it was opened."""
        ...

    @property
    def elsewhere(self) -> bool:
        """In another process: it continues when we leave."""
        ...

    @property
    def model_names(self) -> Sequence[str]: ...
    @property
    def facts(self) -> SessionFacts: ...
    def color(self, agent: AgentId, kind: str) -> str:
        """Of a teammate, or of its kind of agent."""
        ...

    async def begin(self, newest: int = END) -> tuple["Past", Live]:
        """What was, and what comes. Once. So many lines of each transcript at least come as records."""
        ...

    async def past(self, agent: AgentId, before: int = END, newest: int = END) -> list[Record]:
        """One agent's transcript: about so many lines before one, or more."""
        ...

    async def submit(self, op: Op) -> None:
        """Returns when it is stored or done; raises UsageError for what cannot be done."""
        ...

    async def say(self, op: Say) -> LetterId: ...

    async def withdraw(self, letter: LetterId, agent: AgentId | None) -> bool:
        """False if it was read already."""
        ...

    async def stop(self, agent: AgentId | None) -> None:
        """A teammate by force, an agent's job, the main agent's turn; None: all of them."""
        ...

    async def expand(self, text: str) -> "Expanded | None":
        """`/name words` instead of a prompt; None: it is meant for the model as it is."""
        ...

    async def skills(self) -> list[Named]:
        """What can be said as `/name` besides the app's own commands."""
        ...

    async def rules(self) -> list[StandingRule]:
        """Those that restrict first."""
        ...

    async def settled(self) -> Mapping[AgentId, int]:
        """When the main agent rests and nobody works for it: the last line of every transcript then.

        Commands in the background do not count.
        """
        ...

    async def crew(self) -> Crew: ...
    async def status(self) -> SessionStatus: ...

    async def points(self) -> list[RewindPoint]:
        """Where the main conversation can go back to by a `Rewind`, the oldest first."""
        ...

    async def preview(self, line: int) -> RewindPreview:
        """What going back to before this line would do to files. Raises UsageError where it is no such point."""
        ...
