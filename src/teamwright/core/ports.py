"""Ports of the core: the protocols that other packages implement."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from teamwright.core.data.event import Event, Seen, TurnEnded, Why
from teamwright.core.data.letter import Letter
from teamwright.core.data.message import Content, Delta, Reply, Request, Text, ToolCall, ToolSpec
from teamwright.core.errors import ModelError
from teamwright.core.ids import AgentId, CallId, LetterId
from teamwright.core.permissions.consent import Consent, Decision, Fence
from teamwright.core.policies.budget import Reached

Emit = Callable[[Event], None]
OnDelta = Callable[[Delta], None]


class Model(Protocol):
    async def reply(self, request: Request, on_delta: OnDelta) -> Reply:
        """One whole answer. Retries live behind this door; raises ModelError once they are used up."""
        ...


class Desk(Struct):
    """What an agent has at hand for its tools: where it stands, where it may go, what it has read."""

    cwd: Path
    roots: tuple[Path, ...]  # working directories, resolved; the first is the project's
    seen: dict[str, Seen] = field(default_factory=dict[str, Seen])
    spill: Path | None = None  # directory for the rest of an output that is too long to show
    hidden: Callable[[str], bool] | None = None  # resolved paths that searches must leave out (denied to Read)
    trusted: bool = False  # a person agreed to what the project is configured to run
    near: bool = False  # the roots lie on a disk of this machine: looking at a small file needs no thread
    env: dict[str, str] = field(default_factory=dict[str, str])  # names the agent for its subprocesses

    def add_roots(self, paths: Sequence[Path]) -> None:
        self.roots = tuple(dict.fromkeys((*self.roots, *paths)))

    def remove_roots(self, paths: Sequence[Path]) -> None:
        """But never the project's."""
        self.roots = (self.roots[0], *(root for root in self.roots[1:] if root not in paths))


class ToolContext(Struct):
    """Who calls, and the exact request and reply that led here."""

    agent: AgentId
    call_id: CallId
    desk: Desk
    request: Request
    reply: Reply
    emit: Emit
    paths: Mapping[str, str] = {}  # path argument -> resolved path as judged
    fence: Fence = "none"  # on which side of the sandbox's fence it was judged to run


class Outcome(Struct, frozen=True):
    """What a tool gives back: content for the model, the same as data for programs."""

    content: tuple[Content, ...]
    data: dict[str, Any] | None = None
    is_error: bool = False
    seen: tuple[Seen, ...] = ()  # files as they are now, after this call read or wrote them
    cwd: str = ""
    ends_turn: bool = False  # nothing is to be done until somebody answers
    words: str = ""  # of the person, which outlive the conversation's shortening
    consent: Consent | None = None  # where the tool itself asked somebody


def said(text: str, data: dict[str, Any] | None = None, *, is_error: bool = False) -> Outcome:
    """An outcome of plain words."""
    return Outcome((Text(text),), data, is_error)


class Tool(Protocol):
    @property
    def spec(self) -> ToolSpec: ...

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        """Raises ToolError for what the model can act on; anything else that escapes is a bug."""
        ...


class Indirect(ABC):
    """A tool through which others are called. Not a protocol: every call of every reply is compared with it."""

    @abstractmethod
    def real(self, call: ToolCall) -> ToolCall:
        """The call that is meant; the same one if it means no tool."""


class Inbox(Protocol):
    async def take(self, *, at_rest: bool) -> Sequence[Letter]:
        """Letters that are due, in order; not consumed until they are acknowledged."""
        ...

    def acknowledge(self, letters: Sequence[LetterId]) -> None:
        """Their ids are synced in the reader's transcript."""
        ...


class Compactor(Protocol):
    """Keeps the conversation within the model's window."""

    async def make_room(self) -> None:
        """Before a request: shorten a conversation that is about to fill the window."""
        ...

    async def overflowed(self, error: ModelError) -> bool:
        """The provider refused it as too long. True if it is shorter now."""
        ...

    async def compact(self, why: Why, instructions: str = "") -> bool:
        """False if there was nothing to shorten."""
        ...


Fate = Literal["ran", "denied", "unfit"]  # of a call; `unfit`: there is no such tool, or no such arguments


class Received(Struct, frozen=True):
    """What is left of letters that were looked at before the agent reads them."""

    letters: Sequence[Letter]
    context: tuple[str, ...] = ()  # told to the model beside them
    refused: str = ""  # why a prompt is not among them


class Around(Protocol):
    """What people have hung around an agent's turns: their hooks."""

    async def receive(self, agent: AgentId, letters: Sequence[Letter]) -> Received: ...

    async def after(
        self, agent: AgentId, call: ToolCall, args: Mapping[str, Any] | None, outcome: Outcome, fate: Fate
    ) -> Outcome:
        """The result as the model gets it. `args` are given where they were changed."""
        ...

    async def stopping(self, agent: AgentId, text: str, rounds: int) -> str | None:
        """Words that send it back to work; `rounds` times it was sent in this turn."""
        ...

    async def failed(self, agent: AgentId, end: TurnEnded) -> None: ...


class Keeper(Protocol):
    """Keeps what calls change, so that a person can have it back."""

    async def around(
        self,
        tool: str,
        args: Mapping[str, Any],
        ctx: ToolContext,
        run: Callable[[Mapping[str, Any], ToolContext], Awaitable[Outcome]],
    ) -> Outcome:
        """What `run` gives, which is the call itself."""
        ...


class Gate(Protocol):
    async def ask(self, agent: AgentId, call: ToolCall) -> Decision: ...


class Meter(Protocol):
    def reached(self) -> Reached | None:
        """Which limit forbids another model call now."""
        ...
