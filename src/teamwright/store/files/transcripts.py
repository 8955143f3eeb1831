"""An agent's transcript: an append-only file of JSON lines with one writer, from which the agent can be resumed.

A line survives kill -9 once `append` returns, and a power cut once `sync` returns. After a failed sync the kernel may
have dropped what it could not write, though reading still shows it. So whatever the last good sync does not cover is
written again or cut off.
"""

import os
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from math import inf
from pathlib import Path
from typing import BinaryIO, ClassVar, Protocol, Self

import anyio
import msgspec
from msgspec import Struct, field

from teamwright.core.crashpoint import Armed, crashpoint
from teamwright.core.data.event import FORMAT, AgentStarted, Durable, Line
from teamwright.core.errors import DiskError, StoreError
from teamwright.osfiles.private import create_file, fault, open_file, sync_dir, write_all
from teamwright.store.db.disk_policy import Pace

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Line)
_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has only fsync
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Transcript(Struct, eq=False):
    """The writing end. A file has only one: in the process that runs the agent."""

    _doubts: ClassVar[dict[Path, int]] = {}  # where files end whose rest may not be on the disk
    _speed: ClassVar[float] = inf  # seconds that the last sync of any of them took: what a new one expects

    path: Path
    _fd: int
    lines: int
    _size: int
    _synced: int  # size that is surely on the disk
    _pace: Pace
    _unnamed: bool = False  # the directory must be synced once, too
    _unsynced: list[bytes] = []  # lines since the last sync
    _broken: str = ""
    _closed: bool = False
    _syncing: anyio.Lock = field(default_factory=partial(anyio.Lock, fast_acquire=True))
    started: Callable[[], Awaitable[None]] | None = None  # None: a line is safe as soon as it is written

    @classmethod
    def create(cls, path: Path) -> Self:
        try:
            fd = create_file(path, os.O_WRONLY | os.O_APPEND | os.O_EXCL)
        except FileExistsError:
            raise StoreError(f"{path} exists already: resume that session, or choose another id.") from None
        return cls(path, fd, 0, 0, 0, Pace(Transcript._speed), _unnamed=True)

    @classmethod
    def open(cls, path: Path) -> tuple[Self, list[Durable], int]:
        """Open a transcript to continue it. Returns it, its events, and how many bytes of a half-written end were cut
        off."""
        fd = open_file(path, os.O_RDWR | os.O_APPEND)
        try:
            if (end := Transcript._doubts.get(path)) is not None:
                os.ftruncate(fd, end)
            with os.fdopen(fd, "rb", closefd=False) as file:
                data = file.read()
            lines, size = _load(path, data)
            if size < len(data):
                _keep_damaged(path, data[size:])
                os.ftruncate(fd, size)
            _sync_data(fd)  # what a killed process wrote counts from here on, and may not be on the disk yet
            Transcript._doubts.pop(path, None)
        except OSError as error:
            os.close(fd)
            raise fault("read", path, error) from error
        except StoreError:
            os.close(fd)
            raise
        opened = cls(path, fd, len(lines), size, size, Pace(Transcript._speed), _unnamed=not lines)
        return opened, [line.event for line in lines], len(data) - size

    def append(self, event: Durable, at: int) -> int:
        """Write one whole line and return its number; on failure the file is as it was before."""
        self._check()
        data = _encode(Line(at, event))
        crashpoint("transcript.append")
        try:
            if Armed.name == "transcript.half":
                self._write_in_halves(data)
            else:
                write_all(self._fd, data)
        except OSError as error:
            self._undo()
            raise fault("write to", self.path, error) from error
        self._size += len(data)
        self._unsynced.append(data)
        self.lines += 1
        return self.lines

    def _write_in_halves(self, data: bytes) -> None:
        half = len(data) // 2
        write_all(self._fd, data[:half])
        crashpoint("transcript.half")
        write_all(self._fd, data[half:])

    def _undo(self) -> None:
        try:
            os.ftruncate(self._fd, self._size)
        except OSError as error:
            self._broken = f"half a line could not be taken back ({error.strerror})"

    async def sync(self) -> None:
        """Return when everything appended so far is on the disk. Concurrent calls share one sync."""
        self.check()
        target = self._size
        if self._synced >= target:
            return
        async with self._syncing:
            if self._synced < target:
                await self._sync_now()

    async def _sync_now(self) -> None:
        self._check()
        mark, many = self._size, len(self._unsynced)
        try:
            await self._pace.run(self._sync_blocking)
        except OSError as error:
            self._save(error)
            return
        self._synced, Transcript._speed = mark, self._pace.last
        del self._unsynced[:many]

    def _save(self, error: OSError) -> None:
        """Write everything since the last good sync once more; if that fails, the file ends there.

        Not in a thread: no line may be appended meanwhile.
        """
        try:
            os.ftruncate(self._fd, self._synced)
            write_all(self._fd, b"".join(self._unsynced))
            self._sync_blocking()
        except OSError as again:
            self._broken = f"the disk did not take what was written ({again.strerror})"
            self._size = Transcript._doubts[self.path] = self._synced
            self._undo()
            raise fault("sync", self.path, error) from error
        self._synced = self._size
        self._unsynced.clear()

    def _sync_blocking(self) -> None:
        crashpoint("transcript.sync")
        _sync_data(self._fd)
        if self._unnamed:
            sync_dir(self.path.parent)
            self._unnamed = False

    def rest(self) -> None:
        """Close the file handle until the next line: an agent that waits holds none."""
        if self._fd >= 0 and not self._syncing.locked():
            os.close(self._fd)
            self._fd = -1

    def close(self) -> None:
        self._closed = True
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def give_up(self, why: str) -> None:
        """Accept nothing more."""
        self._broken = why

    def check(self) -> None:
        """Raise if nothing more can be written, even once the disk works again."""
        if self._broken:
            raise DiskError(f"{self.path} takes no more lines: {self._broken}. Check the disk and resume the session.")

    def _check(self) -> None:
        if self._closed:
            raise StoreError(f"{self.path} is closed: nothing more can be written to it.")
        if self._broken:
            self.check()
        if self._fd < 0:
            self._fd = open_file(self.path, os.O_WRONLY | os.O_APPEND)


class Transcripts(Protocol):
    """Makes and opens transcripts: `Transcript` itself, or those that an engine shares."""

    def create(self, path: Path) -> Transcript: ...

    def open(self, path: Path) -> tuple[Transcript, list[Durable], int]: ...


def read(path: Path, since: int = 0) -> Iterator[tuple[int, Line]]:
    """Lines after number `since`, even while another process writes; a half-written end is left for later."""
    try:
        with path.open("rb") as file:
            for n, data in enumerate(file, 1):
                if not data.endswith(b"\n"):
                    return
                if n > since:
                    yield n, decode_line(path, n, data)
    except OSError as error:
        raise fault("read", path, error) from error


class TranscriptTail:
    """Reads what another process appends to a transcript, each time from where the last read ended."""

    def __init__(self, path: Path, since: int = 0) -> None:
        """Lines up to number `since` are skipped."""
        self.path = path
        self.lines = since  # known so far
        self._passed = self._offset = 0  # lines and bytes read

    def read(self) -> Iterator[tuple[int, Line]]:
        """New lines; a half-written end is left for later."""
        try:
            with self.path.open("rb") as file:
                self._find_place(file)
                for data in file:
                    if not data.endswith(b"\n"):
                        return
                    n = self._passed + 1
                    line = decode_line(self.path, n, data) if n > self.lines else None
                    self._passed, self._offset = n, self._offset + len(data)
                    if line is not None:
                        self.lines = n
                        yield n, line
        except OSError as error:
            raise fault("read", self.path, error) from error

    def _find_place(self, file: BinaryIO) -> None:
        """Go to where the last read ended. A file that was cut or replaced since is read from its start."""
        if self._offset:
            file.seek(self._offset - 1)
            if file.read(1) == b"\n":
                return
            self._passed = self._offset = 0
            file.seek(0)


def _encode(line: Line) -> bytes:
    try:
        data = _encoder.encode(line)
    except (UnicodeEncodeError, RecursionError) as error:
        raise StoreError(f"An event cannot be recorded: {error}.") from error
    if b"\n" in data:  # verbatim blocks may have line ends between their tokens, where a space means the same
        data = data.replace(b"\n", b" ")
    return data + b"\n"


def decode_line(path: Path, n: int, data: bytes) -> Line:
    try:
        line = _decoder.decode(data)
    except msgspec.ValidationError as error:
        raise StoreError(
            f"{path}, line {n}: this version of teamwright does not know such an event ({error}). "
            "A newer version has probably written it: update the program."
        ) from None
    except _UNREADABLE as error:
        raise StoreError(
            f"{path}, line {n} is damaged ({error}), though later lines are whole. "
            "Restore the file from a backup, or remove that line if you know what it held."
        ) from None
    if isinstance(line.event, AgentStarted) and line.event.format > FORMAT:
        raise StoreError(
            f"{path} has format {line.event.format}; this version of teamwright knows {FORMAT}. Update the program."
        )
    return line


def _load(path: Path, data: bytes) -> tuple[list[Line], int]:
    """All whole lines, and the length that they fill."""
    end = data.rfind(b"\n") + 1
    try:
        lines = _decoder.decode_lines(data[:end])
    except _UNREADABLE:
        lines = None
    first = lines[0].event if lines else None
    newer = isinstance(first, AgentStarted) and first.format > FORMAT
    if lines is None or newer or len(lines) != data.count(b"\n"):
        return _load_slowly(path, data[:end])
    return lines, end


def _load_slowly(path: Path, data: bytes) -> tuple[list[Line], int]:
    """Find out what is wrong. Damage counts as a torn end only if nothing after it can be read."""
    rows = data.split(b"\n")[:-1]
    whole = len(rows)
    while whole and not _is_json(rows[whole - 1]):
        whole -= 1
    lines = [decode_line(path, n, row) for n, row in enumerate(rows[:whole], 1)]
    return lines, sum(len(row) + 1 for row in rows[:whole])


def _is_json(row: bytes) -> bool:
    try:
        msgspec.json.decode(row)
    except RecursionError:
        return True  # too deeply nested for us is not torn
    except _UNREADABLE:
        return False
    return True


def _keep_damaged(path: Path, cut: bytes) -> None:
    """Keep whole lines that cannot be read in a file beside it. An unfinished line is no loss."""
    if b"\n" not in cut:
        return
    fd = open_file(path.with_name(path.name + ".damaged"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        write_all(fd, cut)
        os.fsync(fd)
    finally:
        os.close(fd)
