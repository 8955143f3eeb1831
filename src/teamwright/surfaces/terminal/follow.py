"""Feeds events into the view, yielding often so that keys come first however much arrives."""

import time
from collections.abc import Callable
from typing import Protocol

from anyio import lowlevel, to_thread

from teamwright.core.data.event import Asked, Record, TurnEnded
from teamwright.core.ids import AgentId
from teamwright.runtime.port import END, Live, SessionPort
from teamwright.surfaces.view.shapes import Item
from teamwright.surfaces.view.talk import first_of_newest
from teamwright.surfaces.view.view import SessionFold, older

SLICE = 0.008  # seconds of folding before keys are looked at
NEWEST = 300  # lines of each transcript folded at first
LINES = 2  # of a transcript per item on the screen, roughly


class FollowerNews(Protocol):
    def __call__(self, *, ended: bool, asked: bool) -> None: ...


class EventFollower:
    def __init__(self, session: SessionPort, view: SessionFold, heard: FollowerNews, wake: Callable[[], None]) -> None:
        self._session, self._view, self._heard, self._wake = session, view, heard, wake
        self._seen: dict[AgentId, int] = {}  # the last line of each transcript

    async def follow(self) -> None:
        """Follow the session until it ends. The newest part of the past is folded at once, and drawn once."""
        past, live = await self._session.begin(NEWEST)
        try:
            for record in past.records:
                self._apply(record)
            past.records.clear()
            for agent, skimmed in past.skimmed.items():  # afterwards, because agents are ordered by their start
                self._view.pass_over(agent, skimmed)
            if self._view.questions:
                self._heard(ended=False, asked=True)
            await self._go_on(live)
        finally:
            live.close()

    async def _go_on(self, live: Live) -> None:
        since = time.monotonic()
        async for record in live:
            if record.n and record.n <= self._seen.get(record.agent, 0):
                continue  # it was already there
            self._apply(record)
            ended = isinstance(record.event, TurnEnded) and record.agent == self._view.main
            asked = isinstance(record.event, Asked)
            if ended or asked:
                self._heard(ended=ended, asked=asked)
            if time.monotonic() - since > SLICE:
                await lowlevel.checkpoint()
                since = time.monotonic()

    def _apply(self, record: Record) -> None:
        if record.n:
            self._seen[record.agent] = record.n
        self._view.apply(record)
        self._wake()


async def read_again(session: SessionPort, agent: AgentId, before: int = END, most: int = END) -> list[Item]:
    """The newest items of an agent's transcript before a line."""
    found: list[Item] = []
    while not found and before > 1:
        records = await session.past(agent, before, min(END, LINES * most))
        found = await to_thread.run_sync(older, records, agent, before, abandon_on_cancel=True)
        first = next((record.n for record in records if record.n > 1), 0)
        before = first if first < before else 0  # go further back if these lines show nothing
    return found[first_of_newest(found, most) :]


async def read_missing(session: SessionPort, view: SessionFold, agent: AgentId) -> None:
    """Read an agent of an earlier run, of which nothing is in memory yet."""
    talk = view.talk(agent)
    if not talk.items:
        talk.items[:0] = await read_again(session, agent)
        talk.version += 1
