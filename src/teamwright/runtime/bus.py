"""Event stream of a session. Publishing never waits; a slow watcher reads what it missed from the transcripts."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Self

import anyio
from msgspec import Struct, field

from teamwright.core.data.event import JobProgressed, Record, Streamed, ToolProgressed, Warned
from teamwright.core.data.message import Retrying
from teamwright.core.ids import AgentId

Cursor = dict[AgentId, int]  # the last line seen of each agent's transcript
Reread = Callable[[AgentId, int], Iterator[Record]]  # the durable records of an agent after a given line

MOST_WAITING, MOST_EARLY = 10_000, 100
_PASSING = (Streamed, ToolProgressed, JobProgressed)  # the next one, or a record of the end, replaces them


class Watch(Struct, eq=False):
    """An async iterator over records. If it falls behind, it reads what it missed from the transcripts."""

    _bus: "Bus"
    _place: Cursor
    _deltas: bool
    _most: int
    _behind: bool  # missed records must be read from the log first
    _from_place: bool  # it wants all that is after a place in the transcripts, also of agents that it does not name
    lagged: int = 0  # how often it fell behind
    _waiting: deque[Record] = field(default_factory=deque[Record])
    _bell: anyio.Event = field(default_factory=anyio.Event)
    _closed: bool = False

    def put(self, record: Record) -> None:
        if not self._deltas and isinstance(record.event, Streamed) and not isinstance(record.event.delta, Retrying):
            return
        if len(self._waiting) >= self._most:
            self._waiting = deque(r for r in self._waiting if _is_kept(r))
            self._behind = True
            self.lagged += 1
        self._waiting.append(record)
        self._bell.set()

    def close(self) -> None:
        """Take no more records; those that wait are still given out."""
        self._closed = True
        self._bus.forget(self)
        self._bell.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        while True:
            if self._behind:
                self._catch_up()
            while self._waiting:
                record = self._waiting.popleft()
                if record.n and record.n <= self._place.get(record.agent, 0):
                    continue  # already read from the transcript
                if record.n:
                    self._place[record.agent] = record.n
                return record
            if self._closed:
                raise StopAsyncIteration
            self._bell = anyio.Event()
            await self._bell.wait()

    def _catch_up(self) -> None:
        self._behind = False
        first = {} if self._from_place else self._bus.first
        unseen = {agent: self._place.get(agent, first.get(agent, 0)) for agent in self._bus.agents}
        missed = [record for agent, line in unseen.items() for record in self._bus.reread(agent, line)]
        kept = [record for record in self._waiting if _is_kept(record)]
        rest = [record for record in self._waiting if not record.n and isinstance(record.event, _PASSING)]
        self._waiting = deque([*sorted([*missed, *kept], key=lambda record: record.at), *rest])


def _is_kept(record: Record) -> bool:
    """It is in no transcript, so a watcher that falls behind must not drop it."""
    return not record.n and not isinstance(record.event, _PASSING)


class Bus(Struct, eq=False):
    reread: Reread
    agents: Cursor = {}  # every agent, and its last published line
    first: Cursor = {}  # where each agent was when it came: an earlier process published what is before
    _watches: list[Watch] = []
    early: list[Record] = []  # warnings that nobody watched: the next watch gets them
    _taps: list[Callable[[Record], None]] = []

    def publish(self, record: Record, *, elsewhere: bool = False) -> None:
        """`elsewhere`: another process does it, and we only show it, so no tap hears it."""
        if record.n:
            self.agents[record.agent] = record.n
        if not self._watches and isinstance(record.event, Warned):
            self.early = [*self.early, record][-MOST_EARLY:]
        for watch in self._watches:
            watch.put(record)
        for tap in () if elsewhere else self._taps:
            tap(record)

    def tap(self, hear: Callable[[Record], None]) -> None:
        """Call `hear`, which never raises, at once for everything that happens in this process."""
        self._taps.append(hear)

    def watch(self, since: Cursor | None = None, *, deltas: bool = True, most: int = MOST_WAITING) -> Watch:
        """Watch from now on, or from a place in the transcripts. Close it when done."""
        watch = Watch(self, dict(since or self.agents), deltas, most, bool(since), bool(since))
        self._watches.append(watch)
        early, self.early = self.early, []
        for record in early:
            watch.put(record)
        return watch

    def forget(self, watch: Watch) -> None:
        if watch in self._watches:
            self._watches.remove(watch)

    def close(self) -> None:
        for watch in tuple(self._watches):
            watch.close()
