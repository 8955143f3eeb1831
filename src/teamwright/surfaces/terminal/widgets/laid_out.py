"""The laid-out part of a conversation: its blocks from top to bottom, and the lines at which they begin."""

import time
from bisect import bisect_left, bisect_right
from itertools import accumulate

from teamwright.surfaces.terminal.render.drawing import DrawnBlock, gap_between
from teamwright.surfaces.terminal.render.themes import Palette
from teamwright.surfaces.view.shapes import Item
from teamwright.surfaces.view.view import SessionFold


class LaidOut:
    def __init__(self) -> None:
        self.rows: list[DrawnBlock] = []
        self._blocks: dict[int, DrawnBlock] = {}  # by identity of the item
        self._tops: list[int] = [0]  # first line of each row, and one for the end
        self._drawn_for: tuple[object, ...] = ()

    @property
    def height(self) -> int:
        return self._tops[-1]

    def lay_out(self, items: list[Item], width: int, palette: Palette, view: SessionFold, *, everything: bool) -> bool:
        """Lay out exactly these items, reusing what was drawn. True if anything differs from before."""
        now, before, changed = time.time_ns() // 1_000_000, None, False
        rows: list[DrawnBlock] = []
        blocks: dict[int, DrawnBlock] = {}
        look = (width, palette.name, everything)
        same, self._drawn_for = look == self._drawn_for, look
        for item in items:
            block = self._blocks.get(id(item))
            if block is None or block.item is not item:
                block = DrawnBlock(item)
                changed = True
            gap = gap_between(before, item)
            changed |= block.gap != gap
            block.gap = gap
            if not (same and block.settled):
                changed |= block.update(width, palette, view, everything=everything, now=now)
            blocks[id(item)] = block
            rows.append(block)
            before = item
        changed |= len(rows) != len(self.rows)
        self.rows, self._blocks = rows, blocks
        self._tops = list(accumulate((row.height for row in rows), initial=0))
        return changed

    def at(self, line: int) -> tuple[DrawnBlock, int] | None:
        """The block on a line, and which of its lines it is; negative in the gap before it."""
        if not self.rows or not 0 <= line < self._tops[-1]:
            return None
        place = bisect_right(self._tops, line) - 1
        while place < len(self.rows) and not self.rows[place].height:
            place += 1
        block = self.rows[place]
        return block, line - self._tops[place] - block.gap

    def anchor(self, line: int) -> tuple[DrawnBlock, int] | None:
        """The block on a line, or the one next to it, and which of its lines it is."""
        if not self.rows:
            return None
        place = min(max(bisect_right(self._tops, line) - 1, 0), len(self.rows) - 1)
        return self.rows[place], line - self._tops[place] - self.rows[place].gap

    def line_of(self, item: Item) -> int | None:
        """The first line of an item, below the gap before it, which depends on the item above."""
        found = zip(self.rows, self._tops, strict=False)
        return next((top + row.gap for row, top in found if row.item is item), None)

    def begun_before(self, line: int) -> int:
        """How many blocks begin before a line."""
        return min(bisect_left(self._tops, line), len(self.rows))
