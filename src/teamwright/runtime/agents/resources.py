"""Resources of one agent (hooks, rules, MCP servers of its definition), released when it ends."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from anyio.abc import TaskGroup
from msgspec import Struct

from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.message import Text
from teamwright.core.ids import AgentId
from teamwright.core.ports import Tool
from teamwright.runtime.extensions.hook_points import HookPoints

if TYPE_CHECKING:
    from teamwright.core.data.extensions.server import ServerPrompt
    from teamwright.core.data.op import SetServer
    from teamwright.library.skills.file import Skill
    from teamwright.runtime.extensions.hooks import Hooks
    from teamwright.runtime.extensions.mcp_pool import ServerPool
    from teamwright.runtime.extensions.skills import Expanded


class AgentResources(Struct, frozen=True):
    tools: Mapping[str, Tool] | None  # of all servers that it can reach; None: the session's
    close: Callable[[], Awaitable[None]]


Equip = Callable[
    [AgentDefinition | None, AgentId, AgentId | None], Awaitable[AgentResources | None]
]  # (definition, agent, its parent)
Exchange = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any] | None]]


class Extensions(Protocol):
    """What people brought to a session: skills, servers, hooks."""

    @property
    def points(self) -> HookPoints: ...

    @property
    def pool(self) -> "ServerPool | None": ...

    async def set_server(self, op: "SetServer") -> None:
        """Raises UsageError if there is no such server."""
        ...

    @property
    def failures(self) -> Sequence[str]:
        """One line for each server that could not be connected to at the start, once that is told."""
        ...

    @property
    def prompts(self) -> "list[tuple[str, ServerPrompt]]":
        """Prompts of servers, as commands."""
        ...

    @property
    def offered(self) -> "list[Skill]":
        """Skills that the model may call."""
        ...

    @property
    def commands(self) -> "list[Skill]":
        """Skills that a person may call as `/name`."""
        ...

    async def mentions(self, text: str) -> tuple[Text, ...]:
        """Files and servers' resources that a prompt names with `@`."""
        ...

    async def expand(self, text: str) -> "Expanded | None":
        """What `/name words` stands for; None: the model gets the text as it is."""
        ...

    def make_hooks(self) -> "Hooks": ...

    def open(self, group: TaskGroup) -> None:
        """Start connecting to servers."""
        ...

    async def arrive(self) -> None:
        """Before the first turn: wait until servers are connected or have failed, or the time is over."""
        ...

    async def arrived(self) -> None:
        """Wait until `arrive` has finished."""
        ...

    async def leave(self, *, limit: float, ends: bool = True) -> None:
        """After the last turn, while tasks still run. `ends`: the session ends, not only this process."""
        ...

    def add_agents(self, agents: Mapping[str, Any]) -> None:
        """Add definitions; before the first turn."""
        ...

    def only_skills(self, names: Sequence[str]) -> None:
        """Offer the model only these skills."""
        ...

    def use_driver(self, exchange: Exchange) -> None:
        """Set how to talk to the servers of the driving program."""
        ...
