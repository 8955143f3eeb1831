"""The hub as a guest at one session's door: follows its records, and passes on ops."""

import time
from collections.abc import Callable

import anyio
import msgspec
from anyio import lowlevel

from teamwright.core.data.event import Record
from teamwright.core.errors import TeamwrightError
from teamwright.core.ids import AgentId, SessionId
from teamwright.store.files.paths import Home
from teamwright.surfaces.port.remote_session import RemoteSession
from teamwright.surfaces.port.visiting import visit
from teamwright.surfaces.view.shapes import AgentView
from teamwright.surfaces.web.sessions.fold import PageFold

EVERY_MS = 50
SLICE = 0.008  # seconds of folding before requests are looked at

Heard = Callable[[SessionId, Record], None]


class Guest:
    """`ready`: the past is folded. `over`: the session has gone, or did not let us in."""

    def __init__(self, home: Home, id: SessionId, heard: Heard) -> None:
        self._home, self.id, self._heard = home, id, heard
        self.ready, self.over, self._settled = anyio.Event(), anyio.Event(), anyio.Event()
        self.fold = PageFold(AgentId(id))
        self.port: RemoteSession | None = None
        self._scope = anyio.CancelScope()
        self._seen: dict[AgentId, int] = {}
        self._told = anyio.Event()

    @property
    def inside(self) -> bool:
        return self.ready.is_set() and not self.over.is_set()

    async def stay(self) -> None:
        """Stay until the session ends, or until `leave`."""
        try:
            with self._scope:
                await self._stay()
        except* (TeamwrightError, OSError, ValueError, msgspec.MsgspecError):
            pass  # it ended while we came in: the next look at the doors shows it
        finally:
            self.over.set()
            self._settled.set()
            self._told.set()

    async def settled(self) -> None:
        """Wait until we are in, or know that we will not be."""
        await self._settled.wait()

    async def until(self, seen: Callable[[], bool]) -> None:
        """Wait until records make `seen` true. The caller sets the limit."""
        while not seen() and not self.over.is_set():
            self._told = anyio.Event()
            await self._told.wait()

    def leave(self) -> None:
        self._scope.cancel()

    async def _stay(self) -> None:
        async with visit(self._home, self.id, every_ms=EVERY_MS) as port:

            def color(agent: AgentView) -> str:
                return port.color(agent.id, agent.kind)

            self.port, self.fold = port, PageFold(port.main, color=color)
            past, live = await port.begin()
            try:
                await self._follow(past.records)
                self.ready.set()
                self._settled.set()
                async for record in live:
                    await self._follow((record,))
                    self._heard(self.id, record)
                    self._told.set()
            finally:
                live.close()

    async def _follow(self, records: list[Record] | tuple[Record, ...]) -> None:
        since = time.monotonic()
        for record in records:
            if record.n and record.n <= self._seen.get(record.agent, 0):
                continue  # it was already there
            if record.n:
                self._seen[record.agent] = record.n
            self.fold.apply(record)
            if time.monotonic() - since > SLICE:
                await lowlevel.checkpoint()
                since = time.monotonic()
