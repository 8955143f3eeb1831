"""What the composition root tells of teammates: what each is given, and where it runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.team import Backend, Member
from teamwright.core.ports import Desk
from teamwright.runtime.agents.meter import AgentMeter
from teamwright.runtime.agents.spec import Toolset
from teamwright.runtime.agents.sub_agents import Served
from teamwright.store.tables.processes import Process


class TeammateHost(Protocol):
    """Where teammates run that have a process of their own."""

    @property
    def backend(self) -> Backend: ...

    async def start(self, member: Member) -> Member:
        """Start its process; raises ToolError."""
        ...

    async def watch(self, member: Member, process: Process) -> None:
        """Notice the end of a process that an earlier one of ours started."""
        ...

    async def stop(self, member: Member) -> None: ...

    async def close(self) -> None:
        """This session ends: none of its processes stays behind."""
        ...


class Base(Struct, frozen=True):
    """What every teammate starts from."""

    desk: Desk
    meter: AgentMeter


class Roles(Struct, frozen=True):
    """What the composition root knows about teammates."""

    kit: Callable[[AgentDefinition, int, Served], Toolset]
    system: Callable[[AgentDefinition, str, Path, Member], tuple[str, ...]]
    place: TeammateHost | None  # None: in this process
    keeper: Callable[[], TeammateHost]  # for those that live in other processes all the same
    base: Callable[[], Base]
