"""What teams must know of the worker that runs a teammate: which agent it is, and where its files are."""

from typing import Protocol

from msgspec import Struct

from teamwright.core.data.team import Member
from teamwright.core.ids import AgentId
from teamwright.store.tables.processes import Process


class TeammateRoom(Protocol):
    """Where a teammate on a worker has its files. The others see them, and it sees theirs. `words` tell it so."""

    @property
    def words(self) -> str: ...

    async def refresh(self, member: Member) -> None:
        """Show what the others have published."""
        ...

    async def publish(self) -> None:
        """Show the others what it has."""
        ...


class Hosting(Struct, frozen=True):
    """One agent on a worker, whose process is already registered, and told when there is something to look at."""

    agent: AgentId
    process: Process
    room: TeammateRoom
