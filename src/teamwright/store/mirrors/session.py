"""Copies a main conversation to another program's sessions, in its layout, so that readers of those find it, too."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from teamwright.core.data.claude_lines import ClaudeLines
from teamwright.core.data.event import Record
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, SessionId
from teamwright.osfiles.private import create_file, fault, write_all

_TAIL = 64 * 1024  # bytes read first to find a file's last line
_encode = msgspec.json.Encoder().encode


class SessionMirror:
    """Grows with the conversation. A file whose last line is not ours is left alone: somebody else writes it."""

    def __init__(self, path: Path, session: SessionId, warn: Callable[[str], None]) -> None:
        self._path, self._warn = path, warn
        self._main = AgentId(session)
        self._lines = ClaudeLines(session, self._main)
        self._waiting: list[dict[str, Any]] = []  # until somebody has said something
        self._off = self._began = False

    def take_over(self, past: Iterable[Record], cwd: str) -> bool:
        """Append what earlier processes have said but not written. False: the file is not ours."""
        last = last_uuid(self._path)
        entries = [entry for record in past if (entry := self._lines.entry(record, cwd)) is not None]
        known = [n for n, entry in enumerate(entries) if entry["uuid"] == last]
        self._off = last is not None and not known
        self._write(entries[known[0] + 1 :] if known else entries)
        return not self._off

    def hear(self, record: Record, cwd: str) -> None:
        """Never raises."""
        if record.agent == self._main and (entry := self._lines.entry(record, cwd)) is not None:
            self._write([entry])

    def _write(self, entries: list[dict[str, Any]]) -> None:
        self._waiting += entries
        if self._off or not any("isMeta" not in entry for entry in self._waiting):
            return
        data = b"".join(_encode(entry) + b"\n" for entry in self._waiting)
        self._waiting.clear()
        try:
            self._append(data)
        except StoreError as error:
            self._off = True
            self._warn(f"the copy of this conversation for other programs is not written any more: {error}")

    def _append(self, data: bytes) -> None:
        file = create_file(self._path, os.O_RDWR | os.O_APPEND)
        try:
            if not self._began and (size := os.fstat(file).st_size) and os.pread(file, 1, size - 1) != b"\n":
                data = b"\n" + data  # a process was killed in the middle of a line
            self._began = True
            write_all(file, data)
        except OSError as error:
            raise fault("write", self._path, error) from error
        finally:
            os.close(file)


def last_uuid(path: Path) -> str | None:
    """The id in the last line that has one; empty if none has. None: there is no such file, or it is empty."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as file:
        return next(_uuids_backwards(file), "" if os.fstat(handle).st_size else None)


def _uuids_backwards(file: Any) -> Iterator[str]:
    size, tail = os.fstat(file.fileno()).st_size, _TAIL
    while True:
        start = max(0, size - tail)
        file.seek(start)
        lines = file.read(size - start).split(b"\n")
        for line in reversed(lines if start == 0 else lines[1:]):
            if (uuid := _uuid(line)) is not None:
                yield uuid
        if start == 0:
            return
        tail *= 8


def _uuid(line: bytes) -> str | None:
    try:
        found: Any = msgspec.json.decode(line) if line.strip() else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    uuid = found.get("uuid") if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return uuid if isinstance(uuid, str) else None
