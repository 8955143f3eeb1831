"""Reads lines from a file of any size, in bounded memory and time."""

import time
from collections.abc import Callable

from msgspec import Struct

from teamwright.core.errors import ToolError

_CHUNK = 1 << 18
_SCAN = 64 << 20  # bytes scanned for newlines after the first wanted line is found
_SKIP_SECONDS = 10.0  # time limit for finding it


class FileLine(Struct, frozen=True):
    """One line without its newline: a bounded part of its content, and its full length."""

    content: bytes
    length: int
    ended: bool  # by a newline


class Page(Struct, frozen=True):
    lines: tuple[FileLine, ...]
    total: int | None  # lines in the file; None: counting them would take too long
    more: bool
    endless: bool = False  # the end of the last line was not found in reasonable time


def read_page(read: Callable[[int], bytes], start: int, count: int, *, most: int, longest: int) -> Page:
    """Up to `count` lines from line `start` (counted from 1), about `most` bytes in total, each at most `longest`."""
    source = _Source(read)
    before = source.skip(start - 1)
    lines: list[FileLine] = []
    size = 0
    while len(lines) < count and size < most and (line := source.next(longest)):
        lines.append(line)
        size += len(line.content)
    more = source.fill()
    if source.spent:
        return Page(tuple(lines), None, more=True, endless=bool(lines) and not lines[-1].ended)
    rest = source.count()
    return Page(tuple(lines), None if rest is None else before + len(lines) + rest, more)


class _Source:
    """A position in a stream of bytes."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._chunk = b""
        self._at = 0
        self._scanned = 0
        self.spent = False

    def fill(self) -> bool:
        """Is there another byte? Also False once the scan limit is reached."""
        if self._at < len(self._chunk):
            return True
        if self._scanned >= _SCAN:
            self.spent = True
            return False
        self._chunk, self._at = self._read(_CHUNK), 0
        self._scanned += len(self._chunk)
        return bool(self._chunk)

    def skip(self, lines: int) -> int:
        """Skips lines; returns how many there were if the file ends earlier."""
        passed, last = 0, b"\n"
        deadline = time.monotonic() + _SKIP_SECONDS
        while passed < lines and self.fill():
            self._scanned = 0
            here = self._chunk.count(b"\n")
            if passed + here >= lines:
                for _ in range(lines - passed):
                    self._at = self._chunk.find(b"\n", self._at) + 1
                return lines
            passed += here
            last = self._chunk[-1:]
            self._at = len(self._chunk)
            if time.monotonic() > deadline:
                raise ToolError(
                    f"Line {lines + 1:,} lies too far into the file to be found in time (line {passed:,} was reached)."
                    " Use a smaller offset, or Grep, or Bash with `tail` or `sed -n`."
                )
        return passed + (last != b"\n")

    def next(self, longest: int) -> FileLine | None:
        kept, length = bytearray(), 0
        while self.fill():
            end = self._chunk.find(b"\n", self._at)
            stop = len(self._chunk) if end < 0 else end
            kept += self._chunk[self._at : min(stop, self._at + longest - len(kept))]
            length += stop - self._at
            self._at = stop + (end >= 0)
            if end >= 0:
                return FileLine(bytes(kept), length, ended=True)
        return FileLine(bytes(kept), length, ended=False) if length else None

    def count(self) -> int | None:
        """The number of lines left."""
        lines, last = 0, b"\n"
        while self.fill():
            lines += self._chunk.count(b"\n", self._at)
            last = self._chunk[-1:]
            self._at = len(self._chunk)
        return None if self.spent else lines + (last != b"\n")
