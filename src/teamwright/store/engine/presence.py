"""Presence of this process among the others: it gives signs of life, and reports processes that give none.

Only the time stamps of the log decide whether a process is gone, when the entry that says so is applied. Clocks of this
machine only tell when it is worth asking.
"""

import contextlib
import hashlib
import sqlite3
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Protocol, TypeVar

import anyio

from teamwright.core.data.team import ProcessId
from teamwright.core.errors import StoreError
from teamwright.store.acts.act import Act
from teamwright.store.acts.hosts import DOUBT, Beat, BuryHost, LeaveHost, SnapshotMade
from teamwright.store.acts.remotes import PassOver
from teamwright.store.db.liveness import is_alive, is_joined, lock_path
from teamwright.store.engine.port import EngineError, Objects
from teamwright.store.engine.snapshot import EVERY, put_snapshot
from teamwright.store.engine.tables import Cursor, Host, read_cursor, read_hosts, shortest_lease
from teamwright.store.tables.rows.remotes import select_doubted, select_unclaimed

Value = TypeVar("Value")
_LOOK = 1.0  # seconds between looks at the others
_TURN = 1000  # milliseconds for which the others leave it to the process whose turn it is


class Store(Protocol):
    """The part of a replica that is needed here."""

    process: ProcessId

    @property
    def path(self) -> Path: ...

    async def write(self, act: Act[Value]) -> Value: ...

    async def look(self, look: Callable[[sqlite3.Connection], Value]) -> Value: ...


class Living:
    """Tells from the rows who lives, over a connection of its own, without waiting for anything."""

    def __init__(self, path: Path, objects: Objects | None = None) -> None:
        self.run, self.objects = path.parent / "run", objects
        self._db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None, check_same_thread=False)

    def alive(self, process: ProcessId) -> bool:
        return is_joined(self._db, process)

    def close(self) -> None:
        self._db.close()


class Presence:
    def __init__(self, living: Living, store: Store) -> None:
        self._living, self._store = living, store
        self._stamp, self._heard, self._sent = 0, 0.0, 0.0

    def heard(self, at: int) -> None:
        """An entry with this time stamp was applied."""
        self._stamp, self._heard = at, time.monotonic()

    def sent(self) -> None:
        """An entry was sent: each is a sign of life."""
        self._sent = time.monotonic()

    async def bury_neighbours(self) -> None:
        """Remove processes of this machine that the kernel knows to be dead, without waiting for their leases."""
        hosts = await self._store.look(read_hosts)
        if any(host.process == self._store.process and host.role != "lead" for host in hosts):
            return
        for host in hosts:
            lock = lock_path(self._living.run, host.process)
            if host.process != self._store.process and lock.exists() and not is_alive(self._living.run, host.process):
                await self._store.write(LeaveHost(host.process))
                lock.unlink(missing_ok=True)

    async def watch(self) -> None:
        """Runs until it is cancelled, or nothing more can be written."""
        with contextlib.suppress(StoreError):
            while True:
                hosts, cursor = await self._store.look(read_hosts), await self._store.look(read_cursor)
                shortest = (shortest_lease(hosts) or 15_000) / 1000
                if time.monotonic() - self._sent >= shortest / 3:
                    await self._store.write(Beat(cursor.seq, cursor.digest.hex()))
                for host in self._silent(hosts, await self._store.look(select_doubted)):
                    await self._store.write(BuryHost(host.process))
                for worker in await self._store.look(self._unclaiming):
                    if self._is_first(hosts, f"pass over {worker}"):
                        await self._store.write(PassOver(worker))
                if self._owes_snapshot(hosts, cursor):
                    await self._make_snapshot()
                await anyio.sleep(min(_LOOK, shortest / 6))

    def _unclaiming(self, db: sqlite3.Connection) -> set[ProcessId]:
        """Workers that live, but do not claim what they were given."""
        late = select_unclaimed(db, self._stamp)
        return {remote.worker for remote in late if remote.worker is not None}

    def _silent(self, hosts: list[Host], doubted: Collection[ProcessId] = ()) -> list[Host]:
        """Processes whose lease is over. All processes but one wait a little longer, so that only one reports it."""
        now = self._stamp + (time.monotonic() - self._heard) * 1000
        others = [host for host in hosts if host.process != self._store.process]
        due = [(host, host.lease) for host in others if not host.gone]
        due += [(host, host.lease * DOUBT) for host in others if host.process in doubted]
        return [host for host, silence in due if host.beat + silence + self._patience(hosts, host.process) < now]

    def _patience(self, hosts: list[Host], about: str) -> int:
        return 0 if self._is_first(hosts, about) else _TURN

    def _is_first(self, hosts: list[Host], about: str) -> bool:
        """Whether it is this process's turn, of all others that live."""
        names = [host.process for host in hosts if not host.gone and host.process != about]
        return min(names, key=_place_for(about), default=None) == self._store.process

    def _owes_snapshot(self, hosts: list[Host], cursor: Cursor) -> bool:
        leads = [host for host in hosts if host.role == "lead"]
        due = cursor.seq - cursor.snapshot >= EVERY and self._living.objects is not None
        return due and self._is_first(leads, f"snapshot {cursor.snapshot}")

    async def _make_snapshot(self) -> None:
        objects = self._living.objects
        if objects is not None:
            with contextlib.suppress(EngineError):  # the next look tries again
                await self._store.write(SnapshotMade(await put_snapshot(self._store.path, objects)))


def _place_for(about: str) -> Callable[[str], Any]:
    """An order of processes that all machines agree on, another one for each question."""

    def place(name: str) -> bytes:
        return hashlib.sha256(f"{about} {name}".encode()).digest()

    return place
