"""The one SQLite connection of a process: opened with care, written in groups.

The first caller runs everything that waits, one job at a time, with one commit for all.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import anyio
import anyio.to_thread
from anyio.lowlevel import checkpoint_if_cancelled
from msgspec import Struct, field

from teamwright.core.crashpoint import crashpoint
from teamwright.core.data.team import ProcessId
from teamwright.core.errors import DiskError, StoreError
from teamwright.core.text import shown
from teamwright.osfiles.locks import Lock, hold
from teamwright.osfiles.private import fault, make_dir, open_file
from teamwright.store.acts.act import Act, Context, apply
from teamwright.store.db.clock import now_ms
from teamwright.store.db.disk_policy import QUICK, Pace
from teamwright.store.db.liveness import is_alive, is_joined, lock_path
from teamwright.store.db.schema import STEPS, Step

Value = TypeVar("Value")
Look = Callable[[sqlite3.Connection], Any]

_BUSY_SECONDS = 10.0
_SETTINGS = (
    "synchronous = FULL",
    "foreign_keys = ON",
    "secure_delete = ON",
    # The log stays short and is reused: overwriting its pages takes half as long as extending the file.
    "wal_autocheckpoint = 500",
    f"journal_size_limit = {4 * 2**20}",
)
_FEW = 32  # jobs that may run without a thread
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_PASSING = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL})  # perhaps temporary: tried once more
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_FAULTS = (sqlite3.Error, OverflowError, UnicodeError)  # the last two: a value that no column can hold


class _Job(Struct, eq=False):
    """Either an act or a look."""

    act: Act[Any] | None = None
    look: Look | None = None
    soon: bool = False
    begun: bool = False
    value: Any = None
    error: StoreError | None = None
    again: bool = False  # not its own fault: it may be tried once more
    busy: bool = False  # another process had the lock


class Database(Struct, eq=False):
    """Reads see every write that was queued before them."""

    is_replica: ClassVar[bool] = False
    path: Path
    _connection: sqlite3.Connection | None
    notes: list[str]  # what the person should know: a file that was set aside, a queued write that failed
    _now: Callable[[], int] = now_ms
    commits: int = 0
    _queue: list[_Job] = []
    _turn: anyio.Lock = field(default_factory=anyio.Lock)
    _pace: Pace = field(default_factory=Pace)
    _joined: bool = False  # a replica of an engine, as it was last applied: rows tell who lives

    async def write(self, act: Act[Value]) -> Value:
        """Apply an act in the next group; durable on return. If it raises, only this act is undone."""
        return cast("Value", await self._run(_Job(act)))

    async def read(self, look: Callable[[sqlite3.Connection], Value]) -> Value:
        job = _Job(look=look)
        if self._queue or self._turn.locked() or self._pace.last > QUICK:
            return cast("Value", await self._run(job))
        await checkpoint_if_cancelled()  # nobody is ahead of it
        db = self._check()
        self._pace.run_here(lambda: self._attempt(db, job, None))
        if job.again:
            return cast("Value", await self._run(job))
        if job.error is not None:
            raise job.error
        return cast("Value", job.value)

    def write_soon(self, act: Act[Any]) -> None:
        """Queue an act for the next group: that of the next read or write, `flush` or `close`."""
        self._check()
        self._queue.append(_Job(act, soon=True))

    async def flush(self) -> None:
        """Write what is queued. Raises if it cannot be written now; then it stays queued."""
        if self._queue:
            await self.read(lambda _: None)
            if failed := [job.error for job in self._queue if job.error is not None]:
                raise failed[0]

    def alive(self, process: ProcessId) -> bool:
        if self._joined and self._connection is not None:
            return is_joined(self._connection, process)
        return is_alive(self.path.parent / "run", process)

    async def note_deaths(self) -> None:
        """Nothing to do here: the kernel is asked each time whether a process lives."""

    def own_process(self) -> tuple[ProcessId, Lock | None]:
        """An id for this process, and the lock that shows others that it lives."""
        id = ProcessId("p" + os.urandom(8).hex())
        # Nobody else knows a file of this name before the row is there, so the lock is free.
        return id, hold(lock_path(self.path.parent / "run", id))

    async def data_version(self) -> int:
        """A number that changes when another process, or another connection, has committed."""
        return await self.read(lambda db: db.execute("PRAGMA data_version").fetchone()[0])

    async def pause(self, most: float) -> None:
        """Wait before the next look for changes of others."""
        await anyio.sleep(most)

    async def close(self) -> None:
        if self._connection is None:
            return
        with anyio.CancelScope(shield=True):
            try:
                await self.flush()
            finally:
                async with self._turn:
                    connection, self._connection = self._connection, None
                    await self._pace.run_there(connection.close)

    def _check(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError(f"{self.path} is closed: nothing more can be read or written.")
        return self._connection

    async def _run(self, job: _Job) -> Any:
        self._queue.append(job)
        try:
            async with self._turn:
                if not job.begun:
                    await self._run_queue()
        finally:
            if not job.begun:  # cancelled while it waited
                self._queue.remove(job)
        if job.error is not None:
            raise job.error
        return job.value

    async def _run_queue(self) -> None:
        db, jobs, self._queue = self._check(), self._queue, []
        for job in jobs:
            job.begun = True
        try:
            if self._pace.last <= QUICK and len(jobs) <= _FEW:
                self._pace.run_here(lambda: self._run_group(db, jobs))
                jobs = [job for job in jobs if job.again]
            if jobs:
                await self._pace.run_there(lambda: self._run_patiently(db, jobs))
        except BaseException as bug:  # a bug in one of them: the others, which wait, must not take it for their success
            _undo(jobs, StoreError(f"{self.path}: nothing was stored, because of {bug!r}."))
            raise
        self._queue[:0] = [job for job in jobs if job.again and job.soon]  # nobody waits for these: kept for later

    def _run_patiently(self, db: sqlite3.Connection, jobs: list[_Job]) -> None:
        """Run jobs in a thread, where there is time to wait for other processes."""
        db.execute(f"PRAGMA busy_timeout = {_BUSY_SECONDS * 1000:.0f}")
        self._run_group(db, jobs, patient=True)
        if again := [job for job in jobs if job.again and not job.busy]:
            self._run_group(db, again, patient=True)
        db.execute("PRAGMA busy_timeout = 0")

    def _run_group(self, db: sqlite3.Connection, jobs: list[_Job], *, patient: bool = False) -> None:
        reads = [job for job in jobs if job.look is not None]
        if writes := [job for job in jobs if job.act is not None]:
            self._commit(db, writes)
            if not patient and any(job.again for job in writes):
                for job in reads:  # they must see the writes before them, so they wait with those
                    job.again = True
                return
        for job in reads:
            self._attempt(db, job, None)

    def _commit(self, db: sqlite3.Connection, jobs: list[_Job]) -> None:
        try:
            db.execute("BEGIN IMMEDIATE")
            ctx = Context(self._now(), self.alive)
            for job in jobs:
                db.execute("SAVEPOINT job")
                if not self._attempt(db, job, ctx):
                    if not db.in_transaction:  # a fault so grave (a full disk) that SQLite undid all of them
                        return _undo(jobs, job.error)
                    db.execute("ROLLBACK TO job")
                db.execute("RELEASE job")
            crashpoint("state.commit")
            db.execute("COMMIT")
            crashpoint("state.committed")
        except sqlite3.Error as error:
            _roll_back(db)
            return _undo(jobs, explain(self.path, error), busy=_code(error) in _BUSY)
        self.commits += 1
        self.notes += [str(job.error) for job in jobs if job.soon and job.error is not None]
        return None

    def _attempt(self, db: sqlite3.Connection, job: _Job, ctx: Context | None) -> bool:
        job.error, job.again, job.busy = None, False, False
        try:
            if job.act is not None and ctx is not None:
                job.value = apply(db, job.act, ctx)
            elif job.look is not None:
                job.value = job.look(db)
        except StoreError as error:
            job.error = error
        except _FAULTS as error:
            job.error, job.busy = explain(self.path, error), _code(error) in _BUSY
            job.again = job.busy or _code(error) in _PASSING
        return job.error is None


def _undo(jobs: list[_Job], error: StoreError | None, *, busy: bool = False) -> None:
    """None of the jobs is stored, and each gets the error."""
    for job in jobs:
        job.error, job.again, job.busy = type(error or StoreError())(str(error)), True, busy


def _roll_back(db: sqlite3.Connection) -> None:
    """A rollback that fails leaves the transaction open: then no later one begins, and nothing counts as stored."""
    with suppress(sqlite3.Error):
        if db.in_transaction:
            db.execute("ROLLBACK")


async def open_database(path: Path, steps: Sequence[Step] = STEPS, now: Callable[[], int] = now_ms) -> Database:
    connection, notes = await anyio.to_thread.run_sync(_open, path, steps)
    joined = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'hosts'").fetchone() is not None
    return Database(path, connection, notes, now, _joined=joined)


def _open(path: Path, steps: Sequence[Step]) -> tuple[sqlite3.Connection, list[str]]:
    """Only one process opens at a time, so that making, upgrading and setting aside need no further care."""
    lock = hold(path.parent / "run" / "state.lock", wait=_BUSY_SECONDS)
    if lock is None:
        raise StoreError(f"{path} is being opened by another process for more than {_BUSY_SECONDS:g} s. Try again.")
    try:
        try:
            return _connect(path, steps), []
        except sqlite3.DatabaseError as error:
            if _code(error) not in _DAMAGED:
                raise
            aside = _set_aside(path)
        note = (
            f"{path} was damaged and is now {aside.name}; a new one was begun. "
            "Teams, mail, tasks, prompts that waited and the costs of earlier sessions are in the old file."
        )
        return _connect(path, steps), [note]
    except sqlite3.Error as error:
        raise explain(path, error) from error
    except OSError as error:
        raise fault("open", path, error) from error
    finally:
        lock.release()


def _connect(path: Path, steps: Sequence[Step]) -> sqlite3.Connection:
    make_dir(path.parent)
    os.close(open_file(path, os.O_RDWR | os.O_CREAT))  # SQLite gives its side files the mode of this one
    db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        version: int = db.execute("PRAGMA user_version").fetchone()[0]
        if version > len(steps):
            raise StoreError(
                f"{path} has version {version}; this version of teamwright knows {len(steps)}. Update the program."
            )
        if version == 0:
            db.execute("PRAGMA page_size = 1024")  # rows are small: fewer bytes for each commit
            db.execute("PRAGMA journal_mode = WAL")
        for setting in _SETTINGS:
            db.execute(f"PRAGMA {setting}")
        if version < len(steps):
            _upgrade(db, path, version, steps)
        # Reading one page of each table finds a file that was cut short or overwritten.
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            db.execute(f'SELECT 1 FROM "{name}" NOT INDEXED LIMIT 1').fetchone()  # noqa: S608
        db.execute("PRAGMA busy_timeout = 0")  # from here on only threads wait for a lock
    except (sqlite3.Error, StoreError):
        db.close()
        raise
    return db


def _upgrade(db: sqlite3.Connection, path: Path, version: int, steps: Sequence[Step]) -> None:
    """Run all steps or none; a copy of the file as it was stays beside it."""
    if version:
        _copy(db, path.with_name(f"{path.name}.before-v{len(steps)}"))
    db.execute("BEGIN EXCLUSIVE")
    try:
        for step in steps[version:]:
            for statement in step:
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {len(steps)}")
        crashpoint("state.upgrade")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _copy(db: sqlite3.Connection, path: Path) -> None:
    draft = path.with_name(path.name + ".draft")
    draft.unlink(missing_ok=True)
    os.close(open_file(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    copy = sqlite3.connect(draft)
    try:
        db.backup(copy)
    finally:
        copy.close()
    draft.replace(path)


def _set_aside(path: Path) -> Path:
    aside = path.with_name(f"{path.name}.corrupt-{time.strftime('%Y%m%dT%H%M%S')}-{time.time_ns() % 10**9:09}")
    for end in ("-wal", "-shm", ""):
        old = path.with_name(path.name + end)
        if old.exists():
            old.replace(aside.with_name(aside.name + end))
    return aside


def _code(error: Exception) -> int:
    """SQLite's result code without its extension; 0 for other errors."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def explain(path: Path, error: Exception) -> StoreError:
    """The sentence for a person: what happened, to what, and what to do now."""
    code = _code(error)
    if code == sqlite3.SQLITE_FULL:
        return DiskError(f"The disk is full: cannot write to {path}. Free some space and resume.")
    if code == sqlite3.SQLITE_IOERR:  # a quota or a limit on the size of files looks like a failing disk
        return DiskError(
            f"The disk is full or failing: cannot use {path} ({error}). Free some space, or check the disk, and resume."
        )
    if code in _BUSY:
        return DiskError(
            f"{path} has been locked by another process for more than {_BUSY_SECONDS:g} s. "
            "End the program that holds it (`fuser` names it) and try again."
        )
    if code in _DAMAGED:
        return DiskError(
            f"{path} is damaged ({error}). End every teamwright, move the file away and resume: "
            "conversations are in the transcripts; what waited and the costs stay in the old file."
        )
    if isinstance(error, OverflowError | UnicodeError):
        why = f"{shown(error.object, 80)} is not UTF-8" if isinstance(error, UnicodeEncodeError) else str(error)
        return StoreError(f"{path} can neither hold nor find this: {why}.")
    kind = DiskError if isinstance(error, sqlite3.OperationalError) else StoreError
    return kind(f"{path} cannot be used: {error}. Check the disk and the permissions of that path.")
