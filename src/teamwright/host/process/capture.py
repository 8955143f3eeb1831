"""Captures output of any size: head and tail in memory, all of it in a file once it is too much."""

import os
import re
from collections.abc import Callable
from pathlib import Path

HEAD = 15_000
TAIL = 15_000
MOST_SPILLED = 64 << 20  # bytes per output file; beyond that the command continues and its output is only counted

# Complete sequences for colours, cursor moves, titles and links; truncated or malformed ones do not match.
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z^-~])")


def plain(text: str) -> str:
    """The text as a terminal would leave it: no colours, and overwritten lines in their last state."""
    text = _SEQUENCE.sub("", text)
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


class Capture:
    """One stream of bytes. `add` never fails: a full disk costs the file, not the output that is shown.

    `spill` names a file that must not exist yet; `at_once` writes it from the first byte, so that it can be followed.
    """

    def __init__(
        self,
        spill: Path | None = None,
        *,
        head: int = HEAD,
        tail: int = TAIL,
        most: int = MOST_SPILLED,
        at_once: bool = False,
    ) -> None:
        self.total = 0
        self.lines = 0  # newlines seen
        self.spilled = 0  # bytes written to the file
        self._spill, self._most, self._at_once = spill, most, at_once
        self._head_size, self._tail_size = head, tail
        self._head, self._tail = bytearray(), bytearray()
        self._file: int | None = None
        self._fault = ""
        self._open = True
        if at_once:
            self._begin()

    @property
    def path(self) -> Path | None:
        """The file that holds the output, if there is one."""
        return self._spill if self.spilled or self._file is not None else None

    @property
    def shortened(self) -> bool:
        """Is there more output than is kept in memory?"""
        return self.total > self._head_size + self._tail_size

    def touches_disk(self, size: int) -> bool:
        """Would adding this many bytes write to the file? Then add them in a thread."""
        if self._spill is None or self._fault or not self._open or self.spilled >= self._most:
            return False
        return self._writes(size)

    def _writes(self, size: int) -> bool:
        return self._at_once or self.total + size > self._head_size + self._tail_size

    def add(self, data: bytes) -> None:
        if self._writes(len(data)):
            self._begin()
            self._write(data)
        self.total += len(data)
        self.lines += data.count(b"\n")
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._tail_size :]
        if len(self._tail) > 2 * self._tail_size:  # not on every call: moving the bytes costs more than keeping them
            del self._tail[: -self._tail_size]

    def _begin(self) -> None:
        """Creates the file and writes what was only in memory so far."""
        if self._file is not None or self._spill is None or self._fault or not self._open:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._spill.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = os.open(self._spill, flags, 0o600)
        except OSError as error:
            self._fault = error.strerror or str(error)
            return
        self._write(bytes(self._head + self._tail))

    def _write(self, data: bytes) -> None:
        if self._file is None or self._fault:
            return
        room = self._most - self.spilled
        view = memoryview(data)[:room]
        try:
            while view:
                written = os.write(self._file, view)
                self.spilled += written
                view = view[written:]
            if self._at_once and 0 < room <= len(data):  # a reader that follows it would wait for more
                os.write(self._file, b"\n[the output continues, but no more of it is kept]\n")
        except OSError as error:
            self._fault = error.strerror or str(error)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._open = False

    def text(self, clean: Callable[[str], str] = str, *, sizes: tuple[int, int] | None = None) -> str:
        """Everything; or the head, a line that says how much is left out, and the tail. `clean` is applied to each
        part; `sizes`: how much of them, if less than is in memory."""
        if not self.shortened:
            return clean(_decode(self._head + self._tail))
        first, last = sizes or (self._head_size, self._tail_size)
        head = _front(bytes(self._head[:first]))
        tail = _back(bytes(self._tail[-last:]))
        gone = self.total - len(head) - len(tail)
        lines = self.lines - head.count(b"\n") - tail.count(b"\n")
        note = f"[... {gone:,} bytes ({lines:,} lines) left out{self._whereabouts()} ...]"
        first = clean(_decode(head))
        return f"{first}{'' if first.endswith(chr(10)) else chr(10)}{note}\n{clean(_decode(tail))}"

    def _whereabouts(self) -> str:
        if self._spill is None:
            return ""
        if self.spilled == self.total:
            return f"; the whole output is in {self._spill}"
        if self._fault and not self.spilled:
            return f"; they could not be kept: {self._fault}"
        why = f" (then: {self._fault})" if self._fault else " (no more is kept)"
        return f"; the first {self.spilled:,} bytes of the output are in {self._spill}{why}"

    def last_line(self, most: int = 200) -> str:
        """The last words so far, for watchers."""
        recent = bytes((self._head + self._tail)[-4 * most - 200 :])
        lines = plain(recent.decode(errors="replace")).strip().rsplit("\n", 1)
        return lines[-1].strip()[:most]


def _decode(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "replace")


def _front(head: bytes) -> bytes:
    """Cuts the head after its last complete line if that costs little, else at a character boundary."""
    end = head.rfind(b"\n") + 1
    if end > len(head) * 3 // 4:
        return head[:end]
    for back in range(1, min(4, len(head)) + 1):
        byte = head[-back]
        if byte >= 0xC0:  # first byte of a character: is the rest of it here?
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return head if size <= back else head[:-back]
        if byte < 0x80:
            break
    return head


def _back(tail: bytes) -> bytes:
    """Starts the tail at its first complete line if that costs little, else at its first complete character."""
    start = tail.find(b"\n") + 1
    if 0 < start < len(tail) // 4:
        return tail[start:]
    start = 0
    while start < min(3, len(tail)) and 0x80 <= tail[start] < 0xC0:
        start += 1
    return tail[start:]
