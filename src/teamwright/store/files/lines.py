"""Index of a transcript: where each line begins, when it was written and what kind of event it holds.

With it a page reads only the lines that it shows. Blocks: call it in a thread.
"""

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec
from msgspec import Struct

from teamwright.core.data.event import Line, Record, Rewound
from teamwright.core.data.message import Usage
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId
from teamwright.osfiles.private import fault
from teamwright.store.files.transcripts import decode_line

Value = TypeVar("Value")

_HEAD = re.compile(rb'\{"at":(\d{1,18}),"event":\{"type":"(\w{1,40})"')
_REWOUND = str(Rewound.__struct_config__.tag)
_names: dict[bytes, str] = {}  # kinds: one string each, however many lines there are


class ReplyModel(Struct, frozen=True):
    model: str = ""


class ReplyCost(Struct, frozen=True):
    """What a reply cost, without its words and calls."""

    message: ReplyModel
    usage: Usage
    ms: int = 0


class _ReplyLine(Struct):
    event: ReplyCost


_replies = msgspec.json.Decoder(_ReplyLine)


class Lines:
    """Line numbers count from 1, as everywhere; `kinds[n - 1]` is the kind of line `n`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin()

    def _begin(self) -> None:
        self.kinds: list[str] = []
        self.rewound = 0  # the first line that takes away others
        self._starts = array("Q")
        self._times = array("Q")  # never falling, whatever the clock did
        self._end = 0

    def __len__(self) -> int:
        return len(self.kinds)

    def refresh(self) -> bool:
        """Index what was appended, except a half-written end. True if there was something."""
        known = len(self)
        try:
            with self.path.open("rb") as file:
                if not self._goes_on(file):
                    self._begin()
                    known = -1
                    file.seek(0)
                self._add_all(file)
        except OSError as error:
            raise fault("read", self.path, error) from error
        return len(self) != known

    def _goes_on(self, file: BinaryIO) -> bool:
        """Whether the known lines are still there. A file that was cut or replaced is read from its start."""
        file.seek(max(0, self._end - 1))
        return not self._end or file.read(1) == b"\n"

    def _add_all(self, file: BinaryIO) -> None:
        kinds, starts, times, end = self.kinds, self._starts, self._times, self._end
        last = times[-1] if times else 0
        for data in file:
            if not data.endswith(b"\n"):
                break
            if head := _HEAD.match(data):
                at, kind = int(head[1]), _names.get(head[2]) or _names.setdefault(head[2], head[2].decode())
            else:
                line = decode_line(self.path, len(kinds) + 1, data)
                at, kind = line.at, str(line.event.__struct_config__.tag)
            last = max(at, last)
            kinds.append(kind)
            starts.append(end)
            times.append(last)
            self._end = end = end + len(data)
            if kind == _REWOUND and not self.rewound:
                self.rewound = len(kinds)

    def until(self, ms: int) -> int:
        """How many lines had been written by that time."""
        return bisect_right(self._times, ms)

    def span(self) -> tuple[int, int]:
        """When the first and the last line were written."""
        return (self._times[0], self._times[-1]) if self._times else (0, 0)

    def raw(self, numbers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        """Lines as they are in the file."""
        try:
            with self.path.open("rb") as file:
                place = 0
                for n in numbers:
                    if self._starts[n - 1] != place:
                        file.seek(self._starts[n - 1])
                    data = file.readline()
                    place = self._starts[n - 1] + len(data)
                    yield n, data
        except OSError as error:
            raise fault("read", self.path, error) from error

    def read(self, numbers: Iterable[int]) -> Iterator[tuple[int, Line]]:
        for n, data in self.raw(numbers):
            yield n, decode_line(self.path, n, data)

    def records(self, numbers: Iterable[int]) -> Iterator[Record]:
        agent = AgentId(self.path.stem)
        for n, line in self.read(numbers):
            yield Record(agent, n, line.at, line.event)

    def reply(self, n: int, data: bytes) -> ReplyCost:
        """What the reply in this line cost; its words are not decoded."""
        return self.decode(n, data, _replies).event

    def decode(self, n: int, data: bytes, decoder: msgspec.json.Decoder[Value]) -> Value:
        """Decode only the part of a line that a reader wants."""
        try:
            return decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreError(f"{self.path}, line {n} cannot be read: {error}.") from None
