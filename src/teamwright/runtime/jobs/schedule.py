"""Timer of scheduled prompts: one that is due becomes a letter to the main agent."""

import os
from collections.abc import Callable
from datetime import tzinfo
from functools import partial
from typing import Protocol

import anyio

from teamwright.core.data.letter import SYSTEM, Letter, Prompt
from teamwright.core.data.message import Text
from teamwright.core.data.schedule import (
    Schedule,
    ScheduleId,
    next_time,
    read_cron,
    read_time,
    scheduled_words,
    shown_time,
)
from teamwright.core.errors import StoreError, ToolError
from teamwright.core.ids import AgentId, CallId, SessionId
from teamwright.runtime.concurrency.races import first
from teamwright.runtime.concurrency.unbroken import unbroken
from teamwright.store.tables.schedules import ScheduleTable, letter_id
from teamwright.store.tables.state import now_ms

MOST = 100  # schedules of one session
MOST_PROMPT = 16_000  # characters
# Sleep counts on a clock that stands still while the machine sleeps, and the wall clock can be changed. So the timer
# looks at the clocks now and then, without touching the store.
LONGEST_SLEEP = 60.0
JUMP_MS = 5_000  # drift between the two clocks: somebody has set the wall clock, or the machine slept
AGAIN = 30.0  # seconds until a store that failed is tried again


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since 1970."""
        ...

    def steady(self) -> float:
        """Seconds, on a monotonic clock."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class WallClock:
    def now(self) -> int:
        return now_ms()

    def steady(self) -> float:
        return anyio.current_time()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class Schedules:
    def __init__(
        self,
        table: ScheduleTable,
        session: SessionId,
        main: AgentId,
        *,
        clock: Clock,
        zone: Callable[[], tzinfo],
        ring: Callable[[], None],
        log: Callable[[str], None],
        stays: bool,
    ) -> None:
        """`stays`: the program does not end while something is scheduled."""
        self._table, self._session, self.main = table, session, main
        self._clock, self._make_zone, self._ring, self._log = clock, zone, ring, log
        self._zone: tzinfo | None = None
        self._rows: list[Schedule] = []
        self._changed = anyio.Event()
        self.stays = stays

    @property
    def zone(self) -> tzinfo:
        if self._zone is None:  # it needs a file and a module that most sessions do without
            self._zone = self._make_zone()
        return self._zone

    @property
    def rows(self) -> list[Schedule]:
        """The next one due comes first."""
        return list(self._rows)

    @property
    def hold(self) -> bool:
        """Whether the program stays because something is scheduled."""
        return self.stays and bool(self._rows)

    @property
    def now(self) -> int:
        return self._clock.now()

    # --- requests by the agent

    async def create(
        self, *, cron: str | None, at: str | None, prompt: str, recurring: bool | None, call: CallId
    ) -> Schedule:
        draft = self._draft(cron, at, prompt, recurring=recurring)
        made = await unbroken(self._table.add(self._session, draft, f"{self.main}/{call}", MOST))
        if made is None:
            raise ToolError(f"There are {MOST} schedules already: CronDelete some first.")
        await unbroken(self._reread())
        return made

    def _draft(self, cron: str | None, at: str | None, prompt: str, *, recurring: bool | None) -> Schedule:
        _check_prompt(prompt)
        if bool(cron) == bool(at):
            raise ToolError("Give either cron, for a time that comes again, or at, for one moment.")
        if at and recurring:
            raise ToolError("A moment comes once: use cron for what comes again.")
        now = self.now
        due = self._due(cron or "", at, now)
        id, words = ScheduleId("s" + os.urandom(4).hex()), " ".join((cron or "").split())
        return Schedule(id, prompt, words, not at and recurring is not False, due, now)

    def _due(self, cron: str, at: str | None, now: int) -> int:
        try:
            due = read_time(at, self.zone) if at else next_time(read_cron(cron), now, self.zone)
        except ValueError as error:
            raise ToolError(f"{error}.") from None
        if due is None:
            raise ToolError(f"There is no such day: {cron} never comes.")
        if due <= now:
            raise ToolError(f"{at} is past: it is {self.shown(now)} now.")
        return due

    async def delete(self, id: str) -> None:
        if not await unbroken(self._table.remove(self._session, ScheduleId(id))):
            raise ToolError(f"There is no schedule {id!r}. There are: {', '.join(r.id for r in self._rows) or 'none'}.")
        await unbroken(self._reread())

    def shown(self, instant: int) -> str:
        return shown_time(instant, self.zone)

    async def _reread(self) -> None:
        self._rows = await self._table.all(self._session)
        self._changed.set()

    # --- the timer

    async def open(self) -> None:
        """At resume: fire what was due meanwhile, and plan again, because the time zone or the clock may have
        changed."""
        try:
            self._rows = await self._table.all(self._session)
            await self._fire_all()
            await self._plan_again()
        except StoreError as error:
            self._log(f"schedules: {error}")
        finally:
            self._changed.set()

    async def run(self) -> None:
        """Runs as long as the session lives."""
        jumped = False
        while True:
            self._changed = anyio.Event()
            try:
                await self._fire_all()
                if jumped:
                    await self._plan_again()
                pause = self._pause()
            except StoreError as error:
                self._log(f"schedules: {error}")
                pause = AGAIN
            jumped = await self._sleep(pause)

    def _pause(self) -> float | None:
        if not self._rows:
            return None
        return min(LONGEST_SLEEP, max(0.0, (self._rows[0].next - self.now) / 1000))

    async def _sleep(self, seconds: float | None) -> bool:
        """Sleep that long, or until the schedules change. True if the wall clock was set meanwhile."""
        if seconds is None:
            await self._changed.wait()
            return False
        wall, steady = self.now, self._clock.steady()
        await first(partial(self._clock.sleep, seconds), self._changed.wait)
        return abs(self.now - wall - (self._clock.steady() - steady) * 1000) > JUMP_MS

    async def _plan_again(self) -> None:
        """Recompute cron times, which mean times of the wall clock; what is already due stays."""
        now = self.now
        for row in self._rows:
            if row.cron and row.next > now:
                due = next_time(read_cron(row.cron), now, self.zone)
                if due is not None and due != row.next:
                    await self._table.move(row.id, row.next, due)
        self._rows = await self._table.all(self._session)

    async def _fire_all(self) -> None:
        while self._rows and self._rows[0].next <= self.now:
            await self._fire(self._rows[0])
            self._rows = await self._table.all(self._session)

    async def _fire(self, row: Schedule) -> None:
        """Fire once, however often it was due meanwhile; the letter says so."""
        now = self.now
        after = next_time(read_cron(row.cron), now, self.zone) if row.recurring else None
        words = scheduled_words(row, row.next, now, self.zone)
        letter = Letter(letter_id(row.id, row.next), self.main, SYSTEM, Prompt((Text(words),)))
        if await self._table.fire(row, letter, after):
            self._ring()


def _check_prompt(prompt: str) -> None:
    if not prompt.strip():
        raise ToolError("prompt is empty: say what is to be done then.")
    if len(prompt) > MOST_PROMPT:
        raise ToolError(f"prompt has {len(prompt):,} characters; at most {MOST_PROMPT:,} fit. Name a file instead.")
