"""Loop of a worker: starts the agents given to it, stops those that are to stop, and lets go of those it has lost."""

import time
from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread
from msgspec import Struct

from teamwright.core.data.job import JobResult
from teamwright.core.data.team import ProcessId, Refused
from teamwright.core.errors import StoreError, TeamwrightError
from teamwright.core.ids import AgentId
from teamwright.runtime.workers.hosted import Hosted
from teamwright.store.db.database import Database
from teamwright.store.engine.touched import NOBODY, Touched
from teamwright.store.tables.remotes import OfferSlots, Remote, RemoteTable

_LOOK = 1.0  # seconds between looks without news
_AGAIN = 2.0  # seconds before an agent that could not go on is tried again
_SWEEP = 60.0  # seconds that leftovers of ended agents may wait for a moment when nobody works


class OfficeDeps(Struct, frozen=True, kw_only=True):
    database: Database
    process: ProcessId
    offer: OfferSlots
    open: Callable[[Remote], Awaitable[Hosted]]
    say: Callable[[str], None]  # one line for a person at the worker
    log: Callable[[str], None]
    sweep: Callable[[], None]  # deletes what ended agents left; runs in a thread
    once: bool = False


class Office:
    def __init__(self, deps: OfficeDeps) -> None:
        self._deps, self.table = deps, RemoteTable(deps.database)
        self._hosted: dict[AgentId, Hosted | None] = {}  # None: being opened
        self._news, self._answers, self._group = anyio.Event(), anyio.Event(), anyio.create_task_group()
        self._touched, self._due = NOBODY, True  # whom changes since the last look concern; whether a look is due
        self._heard = self._summed = 0.0
        self._spent = False  # somebody has spent since agents with a limit were last told
        self._leaving, self.done = False, anyio.Event()
        self._litter = anyio.Event()  # an agent has left something behind
        self.fault: StoreError | None = None  # why it cannot go on

    def news(self) -> anyio.Event:
        """Set by a lead's next answer."""
        return self._answers

    def heed(self, touched: Touched) -> None:
        """Note a change of the store."""
        self._touched |= touched
        self._announce()

    async def run(self) -> None:
        """Runs until it is cancelled, the store fails or, with `once`, its first agent is done."""
        async with self._group:
            self._group.start_soon(self._keep_tidy)
            try:
                await self._watch()
            except StoreError as error:
                self.fault = error
                for hosted in self._opened():
                    hosted.lose()  # the next worker must find what a kill would have left
            self._group.cancel_scope.cancel()

    async def _watch(self) -> None:
        while not self.done.is_set():
            touched, self._touched, news = self._touched, NOBODY, self._news
            self._ring(touched)
            late = time.monotonic() - self._heard > _LOOK
            if self._due or late or touched.anybody or self._deps.process in touched.workers:
                self._due, self._heard = False, time.monotonic()
                await self._look()
            with anyio.move_on_after(_LOOK):
                await news.wait()

    async def sweep(self) -> None:
        await anyio.to_thread.run_sync(self._deps.sweep)

    async def _keep_tidy(self) -> None:
        """Clean up when nobody works, or after a while; what a killed worker left, at once."""
        while True:
            await self.sweep()
            await self._litter.wait()
            with anyio.move_on_after(_SWEEP):
                while self._hosted:
                    await self._news.wait()
            self._litter = anyio.Event()

    def _ring(self, touched: Touched) -> None:
        """Wake only those whom it concerns: there may be hundreds here, and thousands of changes elsewhere."""
        if touched.answers or touched.anybody:
            self._answers.set()
            self._answers = anyio.Event()
        self._spent |= touched.spent or touched.anybody
        if sums := self._spent and time.monotonic() - self._summed > _LOOK:
            self._spent, self._summed = False, time.monotonic()
        for hosted in self._hosted.values():
            if hosted is not None and (hosted.is_touched(touched) or (sums and hosted.limited)):
                hosted.heard()

    def _opened(self) -> list[Hosted]:
        return [hosted for hosted in self._hosted.values() if hosted is not None]

    def _announce(self, *, due: bool = False) -> None:
        self._due |= due
        self._news.set()
        self._news = anyio.Event()

    async def offer(self) -> None:
        """From now on agents may be given to this worker."""
        await self.table.offer(self._deps.offer)

    async def _look(self) -> None:
        await self._deps.database.data_version()  # raises if the replica has stopped: its rows can be read even then
        if not self._leaving and await self.table.is_passed_over(self._deps.process):
            self._deps.say("this worker was too slow to take its agents, which went to others; it is ready again")
            await self.offer()
        rows = {row.agent: row for row in await self.table.given(self._deps.process)}
        for agent, hosted in list(self._hosted.items()):
            row = rows.get(agent)
            if hosted is None:
                continue
            if row is None or (row.state == "given" and hosted.began):
                hosted.lose()
            elif row.state == "stopping":
                hosted.stop()
        if self._deps.once and not self._leaving and any(hosted.began for hosted in self._opened()):
            self._leaving = True
            await self.table.drain()  # anything else that it was given goes to others
        for row in rows.values():
            full = self._leaving or (self._deps.once and self._hosted)
            if row.agent not in self._hosted and not full:
                self._hosted[row.agent] = None
                self._group.start_soon(self._host, row)

    # --- one agent

    async def _host(self, row: Remote) -> None:
        """The boundary for all that concerns one agent."""
        again, hosted = 0.0, None
        try:
            hosted = await self._open(row)
            if hosted is not None:
                self._deps.say(f"{hosted.name} ({row.agent}) comes")
                fate = await hosted.live()
                self._deps.say(f"{hosted.name} ({row.agent}) {'was lost: ' if fate == 'lost' else ''}{hosted.words}")
                again = _AGAIN if fate == "lost" else 0.0
        except StoreError as error:
            self._deps.say(f"agent {row.agent} could not be begun: {error}")
            again = _AGAIN
        except TeamwrightError as error:
            await self._refuse(row, str(error))
        if again:
            await anyio.sleep(again)
        self._hosted.pop(row.agent, None)
        self._litter.set()
        self._announce(due=True)
        if self._deps.once and hosted is not None:
            self.done.set()

    async def _open(self, row: Remote) -> Hosted | None:
        """None if another worker has it by now."""
        if isinstance(await self.table.claim(row.agent), Refused):
            return None
        if row.state == "stopping":
            await self.table.ended(row.agent, "killed", JobResult(error=row.why, summary="it was stopped"))
            return None
        hosted = self._hosted[row.agent] = await self._deps.open(row)
        return hosted

    async def _refuse(self, row: Remote, why: str) -> None:
        """End an agent that no worker can run: there is no code, or no model."""
        self._deps.say(f"agent {row.agent} failed: {why}")
        try:
            await self.table.ended(row.agent, "failed", JobResult(error=why, summary=f"failed: {why}"))
        except StoreError as error:
            self._deps.log(f"the end of agent {row.agent} could not be recorded: {error}")

    # --- the end

    async def leave(self, limit: float) -> None:
        """Take nothing new, let running calls end, hand everything over. Leases end when the process leaves."""
        self._leaving = True
        try:
            with anyio.move_on_after(limit):  # the engine may be away
                await self.table.drain()
        except StoreError as error:
            self._deps.log(f"that this worker leaves could not be told: {error}")
        async with anyio.create_task_group() as group:
            for hosted in self._opened():
                group.start_soon(hosted.leave, limit)
        self.done.set()
        self._announce()

    def leave_now(self) -> None:
        """Cut off what runs: others find its outcome unknown."""
        for hosted in self._opened():
            hosted.park()
