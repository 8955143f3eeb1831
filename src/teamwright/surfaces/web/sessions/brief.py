"""Sums up what agents do and have used at some line of their transcripts, without folding all lines before it.

All calls of a reply end before the next reply. So the last reply and the lines after it show what an agent does; of
earlier replies only the usage matters. Blocks: call it in a thread.
"""

from bisect import bisect_right
from pathlib import Path

from teamwright.core.data.event import (
    AgentEnded,
    AgentStarted,
    LettersTaken,
    ModeChanged,
    Record,
    Rendered,
    Replied,
    Resumed,
)
from teamwright.core.data.message import Usage
from teamwright.core.ids import AgentId
from teamwright.store.files.lines import Lines

_LASTING = {
    kind.__struct_config__.tag for kind in (AgentStarted, Resumed, Rendered, LettersTaken, ModeChanged, AgentEnded)
}
_REPLIED = Replied.__struct_config__.tag
MOST_ITEMS = 50  # of each conversation in memory: its items are read elsewhere

Used = dict[str, Usage]  # by model


class Brief:
    """The summary of one transcript."""

    def __init__(self, path: Path) -> None:
        self.agent = AgentId(path.stem)
        self.lines = Lines(path)
        self._begin()

    def _begin(self) -> None:
        self._seen = 0  # lines seen
        self._replies: list[int] = []  # line numbers of replies, and what had been used before each
        self._used: list[Used] = [{}]
        self._lasting: list[int] = []

    def refresh(self) -> bool:
        """True if there is something new."""
        before = len(self.lines)
        if not self.lines.refresh():
            return False
        if len(self.lines) < before:
            self._begin()
        first, self._seen = self._seen + 1, len(self.lines)
        numbers = range(first, self._seen + 1)
        self._lasting += [n for n in numbers if self.lines.kinds[n - 1] in _LASTING]
        replies = [n for n in numbers if self.lines.kinds[n - 1] == _REPLIED]
        for n, data in self.lines.raw(replies):
            reply = self.lines.reply(n, data)
            used = self._used[-1].copy()
            used[reply.message.model] = used.get(reply.message.model, Usage()) + reply.usage
            self._replies.append(n)
            self._used.append(used)
        return True

    def tell(self, count: int) -> tuple[list[Record], Used]:
        """Records that summarise the first `count` lines, and what was used before them."""
        place = bisect_right(self._replies, count)
        last = self._replies[place - 1] if place else 1
        numbers = [n for n in self._lasting if n < last] + list(range(last, count + 1))
        return list(self.lines.records(numbers)), self._used[max(0, place - 1)]

    def reply_before(self, line: int) -> int:
        """The line of the last reply before a line; 0 if there is none."""
        place = bisect_right(self._replies, line)
        return self._replies[place - 1] if place else 0
