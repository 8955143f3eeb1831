"""Incremental parser for Server-Sent Events: bytes in, complete events out, however they are chunked."""

from typing import NamedTuple

MOST = 64 * 1024 * 1024  # bytes per event
_BOM = b"\xef\xbb\xbf"


class ServerEvent(NamedTuple):
    event: str
    data: bytes


class EventTooLong(ValueError):
    """One event is larger than any honest server sends."""


class EventReader:
    """Feed it chunks as they arrive. An event that is incomplete when the stream ends is discarded."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._tail: list[bytes] = []  # pieces of an unfinished line
        self._data: list[bytes] = []
        self._event = ""
        self._size = 0  # bytes held for the unfinished event
        self.comments = 0  # servers send them to keep the connection open while their model thinks
        self._first = True
        self._after_cr = False  # the last chunk ended in CR: a LF that comes next belongs to it

    @property
    def growing(self) -> bool:
        """Has an event begun that may carry data?"""
        return bool(self._data) or (bool(self._tail) and self._tail[0][:1] != b":")

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events completed by this chunk."""
        if self._after_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
            self._after_cr = False
        if not chunk:
            return []
        self._after_cr = chunk[-1:] == b"\r"
        found: list[ServerEvent] = []
        for piece in chunk.splitlines(keepends=True):
            self._hold(len(piece))
            if piece[-1] not in b"\r\n":
                self._tail.append(piece)
                break
            line = piece.rstrip(b"\r\n")
            if self._tail:
                line = b"".join((*self._tail, line))
                self._tail.clear()
            if self._first:
                self._first = False
                line = line.removeprefix(_BOM)
            if line:
                self._field(line)
            else:
                self._dispatch(found)
        return found

    def _hold(self, size: int) -> None:
        self._size += size
        if self._size > self._most:
            raise EventTooLong(f"an event of over {self._most:,} bytes")

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif not name:
            self.comments += 1
        # we ignore id, retry and unknown fields

    def _dispatch(self, found: list[ServerEvent]) -> None:
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            found.append(ServerEvent(self._event or "message", data))
        self._data, self._event, self._size = [], "", 0
