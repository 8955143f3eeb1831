"""List of prompts that wait until the agent can read them."""

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from teamwright.surfaces.terminal.widgets.rows import palette_of, row
from teamwright.surfaces.view.shapes import Queued
from teamwright.surfaces.view.text import one_line

MOST = 5


class QueueList(Static):
    DEFAULT_CSS = "QueueList { height: auto; display: none; padding: 0 1; background: $background; }"

    class Picked(Message):
        """Take this prompt back into the input."""

        def __init__(self, queued: Queued) -> None:
            super().__init__()
            self.queued = queued

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__("", id=id, markup=False)
        self._shown: list[Queued] = []

    def show(self, queue: list[Queued]) -> None:
        if queue == self._shown:
            return
        self._shown = list(queue)
        self.display = bool(queue)
        palette, width = palette_of(self), max(20, self.screen.size.width - 3)
        rows = [
            row([("⏎ queued  ", palette.accent), (one_line(queued.text, 300), palette.dim)], [], width)
            for queued in queue[-MOST:]
        ]
        if queue:
            rows.append(row([("  Up takes the last one back", palette.dim)], [], width))
        self.update(Content("\n").join(rows))

    def on_click(self, event: events.Click) -> None:
        shown = self._shown[-MOST:]
        if 0 <= event.y < len(shown):
            self.post_message(self.Picked(shown[event.y]))
