"""Clock of the screen: many frames a second while something moves, then one a second, then hardly any."""

import time
from collections.abc import Callable
from typing import Any

from textual.app import App
from textual.timer import Timer

FRAMES = 15  # per second, at most
SLOW = 1.0  # seconds between two frames if only times change
RARE = 5.0  # seconds between two frames at rest, in case something forgot to wake the screen
LINGER = 0.5  # seconds without a change until frames are slow
REST = 10.0  # and until they are rare


def _redraw(app: App[Any]) -> None:
    """Draw everything again: another program had the terminal."""
    app.refresh(layout=True)


class FramePace:
    """`draw` draws a frame and returns whether that changed anything; `keep` is called within a second of a wake-up.

    `smooth` tells whether motion is visible: behind a dialog nothing needs to be smooth.
    """

    def __init__(
        self,
        draw: Callable[[], bool],
        keep: Callable[[], object],
        *,
        smooth: Callable[[], bool] = lambda: True,
        rest: float = REST,
    ) -> None:
        self._draw, self._keep, self._smooth, self._rest = draw, keep, smooth, rest
        self._fast: Timer | None = None
        self._slow: Timer | None = None
        self._moved = self._changed = 0.0
        self._kept, self.at_rest = True, False

    def start(self, app: App[Any]) -> None:
        self._fast = app.set_interval(1 / FRAMES, self._beat)
        self._slow = app.set_interval(SLOW, self._beat_slowly)
        app.set_interval(RARE, self._beat_slowly)
        app.app_resume_signal.subscribe(app, _redraw)  # pyright: ignore[reportUnknownMemberType] -- as Textual has it
        self.wake()

    def wake(self) -> None:
        """Something happened: an event of the session, a key, a hint."""
        if self._fast is not None and self._slow is not None:
            self._moved = self._changed = time.monotonic()
            self._kept = self.at_rest = False
            self._fast.resume()
            self._slow.resume()

    def _beat(self) -> None:
        now = time.monotonic()
        if self._draw() and self._smooth():
            self._moved = now
        elif now - self._moved > LINGER and self._fast is not None:
            self._fast.pause()

    def _beat_slowly(self) -> None:
        now = time.monotonic()
        if self._draw():
            self._changed, self.at_rest = now, False
        elif now - self._changed > self._rest:
            self.at_rest = True
        if self._slow is not None:
            self._slow.pause() if self.at_rest else self._slow.resume()
        if not self._kept:
            self._kept = True
            self._keep()
