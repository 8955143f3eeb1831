"""Short-lived state: a hint in the status line, and a key that must be pressed twice."""

import time

MOMENT = 2.0  # seconds


class Hint:
    def __init__(self, text: str = "") -> None:
        self._text, self._until = text, time.monotonic() + MOMENT

    @property
    def text(self) -> str:
        """Empty once its time is over."""
        return self._text if time.monotonic() < self._until else ""


class Presses:
    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def twice(self, what: str) -> bool:
        """Whether this is the second press within a moment."""
        now = time.monotonic()
        before, self._last[what] = self._last.get(what, 0.0), now
        return now - before < MOMENT
