"""A store that is a replica of an engine's log: what is written goes to the log, and comes back as rows.

Reads are local. A write is queued, published with whatever else waits as one entry, and answered once that entry is
applied here. The log's order decides, on every machine alike.
"""

import os
import sqlite3
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio
import msgspec
from anyio.abc import TaskStatus
from msgspec import Struct

from teamwright.core.data.team import ProcessId
from teamwright.core.errors import Fenced, StoreError
from teamwright.osfiles.locks import Lock
from teamwright.store.acts.act import Act
from teamwright.store.acts.hosts import JoinHost, LeaveHost, ReturnHost
from teamwright.store.acts.registry import encode_acts
from teamwright.store.db.database import Database
from teamwright.store.engine.entry import MOST_DEPTH, MOST_PLAIN, Applied, ApplyEntries, Batch, encode_entry, is_deep
from teamwright.store.engine.outcomes import decode_outcomes
from teamwright.store.engine.port import MOST_BYTES, EngineError, Entry, Log
from teamwright.store.engine.presence import Living, Presence
from teamwright.store.engine.rebuild import Rebuilder, check_history
from teamwright.store.engine.tables import read_cursor
from teamwright.store.engine.touched import ANYBODY, NOBODY, Touched

Value = TypeVar("Value")
_CATCH_UP = 60.0  # seconds
_FRAME = 1024  # bytes of an entry besides its acts


class _Asked(Struct, eq=False):
    act: Act[Any]
    size: int
    soon: bool = False
    sent: bool = False
    done: anyio.Event = msgspec.field(default_factory=anyio.Event)
    outcome: Any = None


class Parts(Struct, frozen=True):
    """What a replica is made of."""

    database: Database
    log: Log
    process: ProcessId
    lock: Lock | None  # shows others of this machine that its process lives; None: it only reads
    living: Living
    joins: JoinHost
    rebuilder: Rebuilder


class Replica:
    """Used like `Database`. Its task must be started: `await group.start(replica.run)`."""

    is_replica = True  # a write is a round trip, and an entry that stays

    def __init__(self, parts: Parts, cursor: int) -> None:
        self._parts, self._db, self._log, self.process = parts, parts.database, parts.log, parts.process
        self._seen = cursor  # how far the log is applied, as far as this process knows
        self._k = 0
        self._queue: list[_Asked] = []
        self._flying: list[_Asked] = []  # the entry in flight
        self._asked, self._applied = anyio.Event(), anyio.Event()
        self._own: Applied | None = None  # the last entry of this process, if it was applied here
        self._fault: StoreError | None = None
        self._others, self._heard = 0, anyio.Event()  # changes of other processes
        self._presence = Presence(parts.living, self)
        self.alive = parts.living.alive
        self.on_touched: Callable[[Touched], None] | None = None  # told whom a change concerns, also one of ours
        self._log.watch_over(self._check_history)

    @property
    def path(self) -> Path:
        return self._db.path

    @property
    def notes(self) -> list[str]:
        return self._db.notes

    @property
    def commits(self) -> int:
        return self._db.commits

    async def note_deaths(self) -> None:
        """Remove dead processes of this machine, without waiting for their leases."""
        await self._presence.bury_neighbours()

    def own_process(self) -> tuple[ProcessId, None]:
        """Its lock is already held."""
        return self.process, None

    async def write(self, act: Act[Value]) -> Value:
        """Durable in the engine and applied here on return. If it raises, only this act was undone."""
        asked = self._ask(act)
        try:
            await asked.done.wait()
        finally:
            if not asked.sent:  # cancelled while it waited: `flush` must not wait for it
                self._queue.remove(asked)
                asked.done.set()
        if isinstance(asked.outcome, StoreError):
            raise asked.outcome
        return cast("Value", asked.outcome)

    def write_soon(self, act: Act[Any]) -> None:
        """Queue an act for the next entry: that of the next read or write, `flush` or `close`."""
        self._ask(act, soon=True)

    async def read(self, look: Callable[[sqlite3.Connection], Value]) -> Value:
        """Sees everything that was queued before it."""
        await self.flush()
        return await self._db.read(look)

    async def flush(self) -> None:
        waiting = [*self._flying, *self._queue]
        self._asked.set()
        for asked in waiting:
            await asked.done.wait()
        if self._fault is not None and waiting:
            raise type(self._fault)(str(self._fault))

    async def data_version(self) -> int:
        """A number that changes when another process has written more than a sign of life.

        Raises once nothing more is applied here, so that a reader hears of it, too.
        """
        if self._fault is not None:
            raise type(self._fault)(str(self._fault))
        return self._others

    async def pause(self, most: float) -> None:
        """Wait until another process has written: the log is the bell."""
        with anyio.move_on_after(most):
            await self._heard.wait()

    async def look(self, look: Callable[[sqlite3.Connection], Value]) -> Value:
        """Read the rows as they are now, without waiting for what is queued."""
        return await self._db.read(look)

    async def close(self) -> None:
        """Store what is queued. The caller limits that: the engine may be away."""
        try:
            if self._fault is None and self._k:
                self.write_soon(LeaveHost(self.process))
            await self.flush()
        finally:
            with anyio.CancelScope(shield=True):
                self._parts.living.close()
                await self._db.close()
                if self._parts.lock is not None:
                    self._parts.lock.path.unlink(missing_ok=True)
                    self._parts.lock.release()

    def _ask(self, act: Act[Any], *, soon: bool = False) -> _Asked:
        if self._fault is not None:
            raise type(self._fault)(str(self._fault))
        if self._parts.lock is None:
            raise StoreError(f"{self.path} was opened to be read: nothing was stored.")
        try:
            data = encode_acts([act])
        except (UnicodeError, OverflowError, RecursionError) as error:
            raise StoreError(f"Nothing was stored: {error}.") from error
        if len(data) > MOST_PLAIN - _FRAME:
            raise _too_large(len(data))
        if is_deep(b"[%b]" % data):  # as in its entry
            raise StoreError(f"Nothing was stored: it has more than {MOST_DEPTH} levels.")
        asked = _Asked(act, len(data), soon)
        self._queue.append(asked)
        if not soon:
            self._asked.set()
        return asked

    # --- the tasks

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Runs until it is cancelled. After a fault it writes nothing more, and tells every caller why."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._follow)
            group.start_soon(self._publish)
            if self._parts.lock is not None:
                await self.write(self._parts.joins)
                await self._presence.bury_neighbours()
                group.start_soon(self._presence.watch)
            else:
                await self.catch_up()
            task_status.started()

    async def catch_up(self) -> bool:
        """Apply what the log has now; a writer has done so once it has joined. False: it took too long."""
        last = (await self._log.extent()).last
        with anyio.move_on_after(_CATCH_UP):
            while self._seen < last and self._fault is None:
                await self._applied.wait()
        return self._seen >= last

    async def _follow(self) -> None:
        try:
            while self._fault is None:
                async with aclosing(self._log.entries(self._seen)) as found:
                    async for entries in found:
                        if not await self._take(entries):
                            break
        except StoreError as error:
            self._stop(error)

    async def _check_history(self) -> bool:
        return await check_history(self._log, await self._db.read(read_cursor))

    async def _take(self, entries: list[Entry]) -> bool:
        """False if others have moved the replica: then it continues from where that is."""
        try:
            batch = await self._db.write(ApplyEntries(entries))
        except StoreError:
            if len(entries) == 1:
                raise
            for entry in entries:  # so that all before the one that cannot be applied are applied
                if not await self._take([entry]):
                    return False
            return True
        await self._heed(batch)
        return self._seen >= entries[-1].seq

    async def _heed(self, batch: Batch) -> None:
        for applied in batch.applied:
            if applied.process == self.process:
                self._own = applied
        touched = batch.touched if batch.cursor.seq - self._seen <= len(batch.applied) else ANYBODY
        if self.on_touched is not None and touched != NOBODY:
            self.on_touched(touched)
        if batch.cursor.seq - self._seen > sum(done.process == self.process or done.quiet for done in batch.applied):
            self._others += 1
            self._heard.set()
            self._heard = anyio.Event()
        if batch.differs is not None and await self._parts.rebuilder.heed(batch.differs, batch.cursor):
            self.notes.append(
                f"What this machine had applied of the engine's log differed from the others' at entry "
                f"{batch.differs}: it was built again."
            )
        self._seen = batch.cursor.seq
        self._presence.heard(batch.cursor.at)
        self._applied.set()
        self._applied = anyio.Event()

    def _stop(self, error: StoreError) -> None:
        self._fault = error
        self.notes.append(str(error))
        for asked in self._queue:
            asked.sent, asked.outcome = True, error
            asked.done.set()
        self._queue = []
        self._applied.set()
        self._heard.set()

    async def _publish(self) -> None:
        """One entry is in flight at a time; what is asked for meanwhile goes into the next."""
        while self._fault is None:
            await self._asked.wait()
            self._asked = anyio.Event()
            while (group := self._next_group()) and self._fault is None:
                try:
                    outcomes = await self._settle([asked.act for asked in group])
                except StoreError as error:
                    self._stop(error)
                    outcomes = [error] * len(group)
                self._flying = []
                for asked, outcome in zip(group, outcomes, strict=True):
                    self._answer(asked, outcome)

    def _next_group(self) -> list[_Asked]:
        """Small acts go together; a large one goes alone."""
        room, group = MOST_BYTES // 2, list[_Asked]()
        while self._queue and (not group or self._queue[0].size <= room):
            group.append(self._queue.pop(0))
            group[-1].sent = True
            room -= group[-1].size
        self._flying = group
        return group

    def _answer(self, asked: _Asked, outcome: Any) -> None:
        asked.outcome = outcome
        asked.done.set()
        if asked.soon and isinstance(outcome, StoreError):
            self.notes.append(str(outcome))

    async def _settle(self, acts: list[Act[Any]]) -> list[Any]:
        """Send acts. If this process was taken for dead meanwhile, it comes back first, if it still can."""
        outcomes = await self._send(acts)
        while outcomes and all(isinstance(outcome, Fenced) for outcome in outcomes):
            (back,) = await self._send([ReturnHost()])
            if back is not True:
                raise Fenced(
                    "This process was not heard by the engine for longer than its lease, and another one goes on in "
                    "its place. Nothing more is stored from here: end it."
                )
            outcomes = await self._send(acts)
        return outcomes

    async def _send(self, acts: list[Act[Any]]) -> list[Any]:
        data = encode_entry(self.process, self._k + 1, acts)
        if len(data) > MOST_BYTES:
            return [_too_large(len(data))] * len(acts)
        self._k += 1
        seq = await self._log.append(data, os.urandom(12).hex())  # an id that nobody can use up before
        self._presence.sent()
        while self._seen < seq and self._fault is None:
            await self._applied.wait()
        if self._fault is not None:
            raise type(self._fault)(str(self._fault))
        if self._own is not None and self._own.k == self._k:
            return self._own.outcomes
        stored = await self._db.read(self._stored_outcomes)
        if stored is None:  # its number was given to something else: this is not the same log
            await self._check_history()
            raise EngineError(f"The engine gave the number {seq} a second time. Restore the engine's own backup.")
        return decode_outcomes(stored)

    def _stored_outcomes(self, db: sqlite3.Connection) -> bytes | None:
        """For an entry that another process of this machine applied first."""
        sql = "SELECT outcomes FROM writers WHERE process = ? AND k = ?"
        row = db.execute(sql, (self.process, self._k)).fetchone()
        return row[0] if row else None


def _too_large(size: int) -> StoreError:
    return StoreError(f"Nothing was stored: {size:,} bytes do not fit into one entry of the engine; {MOST_BYTES:,} do.")
