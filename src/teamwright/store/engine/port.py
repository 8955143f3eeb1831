"""Port of an engine: an ordered, durable log, and files."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from teamwright.core.errors import DiskError
from teamwright.core.policies.authority import Role

MOST_BYTES = 512 * 1024  # of one entry


Guard = Callable[[], Awaitable[bool]]


class EngineError(DiskError):
    """The engine cannot be reached, refuses, or is not the one that it was."""


class ForbiddenError(EngineError):
    """The engine refuses it to this identity."""


class UnopenedSpaceError(EngineError):
    """No lead has opened the space yet, and this identity cannot."""


class Entry(Struct, frozen=True):
    """One message of the log. Role and name belong to the identity that the engine let write it."""

    seq: int  # counts up from 1 without gaps
    at_ms: int  # by the engine's clock
    role: Role
    name: str
    data: bytes


class Extent(Struct, frozen=True):
    """What a log has now."""

    space: str  # empty: there is no space any more
    first: int
    last: int  # 0: the log is empty
    replicas: int  # nodes that keep it
    server: str = ""  # name of the leading node


class Log(Protocol):
    def watch_over(self, guard: Guard) -> None:
        """Call the guard whenever the engine was lost and found again, before anything is exchanged with it.

        The guard raises if it is another log now; False: it could not find out.
        """
        ...

    @property
    def space(self) -> str:
        """An id that no other log ever has."""
        ...

    async def append(self, entry: bytes, id: str) -> int:
        """Durable and in order on return. A known id returns the same number."""
        ...

    def entries(self, after: int) -> AsyncGenerator[list[Entry]]:
        """All entries after that one, in order, without gaps, for ever."""
        ...

    async def extent(self) -> Extent: ...

    async def entry(self, seq: int) -> Entry | None:
        """None if the log does not have it."""
        ...


class Objects(Protocol):
    """Files in the engine, under names."""

    async def put(self, name: str, path: Path) -> None: ...

    async def get(self, name: str, path: Path) -> bool:
        """False if there is none."""
        ...

    async def has(self, name: str) -> bool: ...

    async def remove(self, name: str) -> None: ...
