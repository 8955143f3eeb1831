"""Clock of the screen: many frames a second while something moves, one a second while nothing does."""

import time
from collections.abc import Callable
from typing import Any

from textual.app import App
from textual.timer import Timer

FRAMES = 15  # a second, at most
SLOW = 1.0  # seconds between two frames of a screen at rest: times tick, and whatever forgot to wake it is seen
LINGER = 0.5  # seconds without a change after which the screen is at rest


def _redraw(app: App[Any]) -> None:
    """Somebody else had the terminal: nothing of ours is on it any more."""
    app.refresh(layout=True)


class FramePace:
    """`draw` draws one frame and says whether that changed anything; `keep` follows within a second of a wake-up."""

    def __init__(self, draw: Callable[[], bool], keep: Callable[[], object]) -> None:
        self._draw, self._keep = draw, keep
        self._fast: Timer | None = None
        self._moved, self._kept = 0.0, True

    def start(self, app: App[Any]) -> None:
        self._fast = app.set_interval(1 / FRAMES, self._beat)
        app.set_interval(SLOW, self._beat_slowly)
        app.app_resume_signal.subscribe(app, _redraw)  # pyright: ignore[reportUnknownMemberType] -- as Textual has it
        self.wake()

    def wake(self) -> None:
        """Something happened: an event of the session, a key, a hint."""
        if self._fast is not None:
            self._moved, self._kept = time.monotonic(), False
            self._fast.resume()

    def _beat(self) -> None:
        now = time.monotonic()
        if self._draw():
            self._moved = now
        elif now - self._moved > LINGER and self._fast is not None:
            self._fast.pause()

    def _beat_slowly(self) -> None:
        self._draw()
        if not self._kept:
            self._kept = True
            self._keep()
