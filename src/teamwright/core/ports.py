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
        """Returns one complete answer. Retries happen inside; raises ModelError once they are used up."""
        ...


class Desk(Struct):
    """What an agent's tools share: where it stands, where it may go, what it has read."""

    cwd: Path
    roots: tuple[Path, ...]  # working directories, resolved; the first is the project's
    seen: dict[str, Seen] = field(default_factory=dict[str, Seen])
    spill: Path | None = None  # directory for the rest of an output that is too long to show
    hidden: Callable[[str], bool] | None = None  # resolved paths that searches must leave out (denied to Read)
    trusted: bool = False  # a person agreed to what the project is configured to run
    near: bool = False  # the roots are on a local disk: looking at a small file needs no thread
    env: dict[str, str] = field(default_factory=dict[str, str])  # identifies the agent to its subprocesses

    def add_roots(self, paths: Sequence[Path]) -> None:
        self.roots = tuple(dict.fromkeys((*self.roots, *paths)))

    def remove_roots(self, paths: Sequence[Path]) -> None:
        """Removes roots, but never the project's."""
        self.roots = (self.roots[0], *(root for root in self.roots[1:] if root not in paths))


class ToolContext(Struct):
    """The caller, and the exact request and reply that led to the call."""

    agent: AgentId
    call_id: CallId
    desk: Desk
    request: Request
    reply: Reply
    emit: Emit
    paths: Mapping[str, str] = {}  # path argument -> resolved path as judged
    fence: Fence = "none"  # the side of the sandbox on which it was judged to run


class Outcome(Struct, frozen=True):
    """A tool's result: content for the model, and the same as data for programs."""

    content: tuple[Content, ...]
    data: dict[str, Any] | None = None
    is_error: bool = False
    seen: tuple[Seen, ...] = ()  # state of files after this call read or wrote them
    cwd: str = ""
    ends_turn: bool = False  # nothing is left to do until somebody answers
    words: str = ""  # the person's words, which compaction keeps
    consent: Consent | None = None  # if the tool itself asked somebody


def said(text: str, data: dict[str, Any] | None = None, *, is_error: bool = False) -> Outcome:
    """An outcome of plain text."""
    return Outcome((Text(text),), data, is_error)


class Tool(Protocol):
    @property
    def spec(self) -> ToolSpec: ...

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        """Raises ToolError for what the model can act on; anything else that escapes is a bug."""
        ...


class Indirect(ABC):
    """A tool that calls other tools. An ABC, not a Protocol, because every call is checked with isinstance."""

    @abstractmethod
    def real(self, call: ToolCall) -> ToolCall:
        """The call that is meant; unchanged if it names no tool."""


class Inbox(Protocol):
    async def take(self, *, at_rest: bool) -> Sequence[Letter]:
        """Letters that are due, in order; they stay until acknowledged."""
        ...

    def acknowledge(self, letters: Sequence[LetterId]) -> None:
        """Marks letters as read; their ids are synced in the reader's transcript."""
        ...


class Compactor(Protocol):
    """Keeps the conversation within the model's window."""

    async def make_room(self) -> None:
        """Shortens the conversation before a request that would fill the window."""
        ...

    async def overflowed(self, error: ModelError) -> bool:
        """The provider refused it as too long. True if it is shorter now."""
        ...

    async def compact(self, why: Why, instructions: str = "") -> bool:
        """Returns False if there was nothing to shorten."""
        ...


Fate = Literal["ran", "denied", "unfit"]  # of a call; `unfit`: no such tool, or unusable arguments


class Received(Struct, frozen=True):
    """The letters left after hooks have seen them, before the agent reads them."""

    letters: Sequence[Letter]
    context: tuple[str, ...] = ()  # shown to the model with them
    refused: str = ""  # why a prompt is missing


class Around(Protocol):
    """The hooks around an agent's turns."""

    async def receive(self, agent: AgentId, letters: Sequence[Letter]) -> Received: ...

    async def after(
        self, agent: AgentId, call: ToolCall, args: Mapping[str, Any] | None, outcome: Outcome, fate: Fate
    ) -> Outcome:
        """The result as the model gets it. `args` is given only if the arguments were changed."""
        ...

    async def stopping(self, agent: AgentId, text: str, rounds: int) -> str | None:
        """Text that sends the agent back to work; `rounds` counts how often that happened in this turn."""
        ...

    async def failed(self, agent: AgentId, end: TurnEnded) -> None: ...


class Keeper(Protocol):
    """Keeps copies of what calls change, so that a person can restore it."""

    async def around(
        self,
        tool: str,
        args: Mapping[str, Any],
        ctx: ToolContext,
        run: Callable[[Mapping[str, Any], ToolContext], Awaitable[Outcome]],
    ) -> Outcome:
        """Returns the result of `run`, which makes the call."""
        ...


class Gate(Protocol):
    async def ask(self, agent: AgentId, call: ToolCall) -> Decision: ...


class Meter(Protocol):
    def reached(self) -> Reached | None:
        """The limit that forbids another model call now, if any."""
        ...
