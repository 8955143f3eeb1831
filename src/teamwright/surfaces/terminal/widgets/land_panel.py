"""Panel of the landing queue: what waits, what is tried, what landed or came back, and why."""

import time
from collections.abc import Mapping, Sequence

from textual.content import Content

from teamwright.core.data.landing import LandEntry, task_words
from teamwright.surfaces.reports.landing import STATES, seconds_of
from teamwright.surfaces.terminal.render.themes import Palette, agent_style
from teamwright.surfaces.terminal.widgets.rows import Piece, row
from teamwright.surfaces.terminal.widgets.unfolding import UnfoldingList
from teamwright.surfaces.view.diff import DiffRow
from teamwright.surfaces.view.text import one_line, safe

_MARKS = {"waiting": "○", "trying": "◐", "landed": "✓", "sent_back": "✗", "given_up": "–"}
_ORDER = {"trying": 0, "waiting": 1, "sent_back": 2, "landed": 3, "given_up": 4}


def in_order(entries: Sequence[LandEntry]) -> list[LandEntry]:
    """Open entries first, in the order of the queue; then decided ones, the newest first."""
    return sorted(entries, key=_rank)


def _rank(entry: LandEntry) -> tuple[int, int, int]:
    if entry.is_open:
        return _ORDER[entry.state], -entry.draft.priority, entry.id
    return len(_ORDER), 0, -entry.changed


def summary_of(entries: Sequence[LandEntry]) -> str:
    if not entries:
        return "nothing is in the landing queue"
    counts = {state: sum(entry.state == state for entry in entries) for state in _ORDER}
    return " · ".join(f"{count} {STATES[state]}" for state, count in counts.items() if count)


def entry_row(entry: LandEntry, width: int, palette: Palette, colors: Mapping[str, str]) -> Content:
    styles = {"waiting": palette.text, "trying": palette.accent, "sent_back": palette.warn}
    style, owner = styles.get(entry.state, palette.dim), entry.draft.owner
    left: list[Piece] = [(f"{_MARKS[entry.state]} ", style), (one_line(entry.draft.branch, 60), style)]
    left += [(f"  {one_line(entry.reason, 160)}", palette.dim)] if entry.reason else []
    right: list[Piece] = [(f"  {one_line(owner, 20)}", agent_style(colors.get(owner, ""), palette))] if owner else []
    return row(left, right, width)


def detail_rows(entry: LandEntry) -> list[DiffRow]:
    draft = entry.draft
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.changed / 1000))
    facts = [
        f"{STATES[entry.state]} since {since}, {seconds_of(entry)} after it was queued",
        f"onto: {safe(draft.target)}",
    ]
    facts += [f"owner: {safe(draft.owner)}"] if draft.owner else []
    facts += [f"task: {task_words(draft)}"] if draft.task is not None else []
    facts += [f"ready at {draft.tip[:12]}" + (f", as {entry.commit[:12]} on the target" if entry.commit else "")]
    reason = [DiffRow("plain", line) for line in safe(entry.reason).split("\n")] if entry.reason else []
    return [DiffRow("strong", safe(draft.branch)), *(DiffRow("dim", fact) for fact in facts), *reason]


class LandPanel(UnfoldingList[LandEntry]):
    """Enter shows all that is known of a branch."""

    def __init__(self, *, id: str) -> None:
        keys = "Enter shows more · `teamwright land` lands what waits"
        super().__init__(entry_row, detail_rows, id=id, keys=keys, head=summary_of(()))

    def show(self, entries: Sequence[LandEntry], colors: Mapping[str, str]) -> None:
        """`colors` of owners, by name."""
        self.put({str(entry.id): entry for entry in in_order(entries)}, colors, summary_of(entries))
