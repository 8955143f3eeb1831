"""Port of a teammate's files on a worker."""

from typing import Protocol

from teamwright.core.data.team import Member


class TeammateRoom(Protocol):
    """Where a teammate on a worker has its files: others see them, and it sees theirs."""

    async def begin_turn(self, member: Member) -> None: ...

    async def end_turn(self, member: Member) -> None: ...
