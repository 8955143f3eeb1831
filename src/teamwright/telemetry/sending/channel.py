"""A queue to the collector with its own thread: adding to it never waits for sending."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Export = Callable[[Sequence[Item]], bool]  # False: the collector did not accept it. Empty batch: send everything now


class Channel(Generic[Item]):
    """`open` is called in the thread before the first batch, so it may be slow and import what it needs."""

    def __init__(self, name: str, open: Callable[[], Export[Item]], *, seconds: float, most: int, batch: int) -> None:
        self._open, self._seconds, self._most, self._batch = open, seconds, most, batch
        self._waiting: deque[Item] = deque()
        self._bell, self._closing, self._failing = threading.Event(), False, False
        self._sending = 0  # items of the batch that is with the collector
        self.lost = 0  # items that did not fit, or that the collector did not accept
        self.fault = ""
        # A daemon: a hanging collector must not keep the program alive.
        self._thread = threading.Thread(target=self._run, name=f"teamwright-{name}", daemon=True)
        self._thread.start()

    def put(self, item: Item) -> None:
        if len(self._waiting) >= self._most:
            self.lost += 1
            return
        self._waiting.append(item)
        if len(self._waiting) >= self._batch:
            self._bell.set()

    def close(self) -> None:
        """Starts sending what is left; `join` waits for it."""
        self._closing = True
        self._bell.set()

    def join(self, deadline: float) -> None:
        """Waits until all is sent, at most until `deadline` (monotonic); gives up at once if sending fails."""
        while self._thread.is_alive() and not self._failing and (left := deadline - time.monotonic()) > 0:
            self._thread.join(min(left, 0.1))
        if self._thread.is_alive():
            self.lost += len(self._waiting) + self._sending

    def _run(self) -> None:
        try:
            export = self._open()
            while not self._closing:
                self._bell.wait(self._seconds)
                self._bell.clear()
                self._send_all(export)
            self._send_all(export)
            self._failing = not export(()) or self._failing
        except Exception as error:  # noqa: BLE001 -- the thread's boundary: the program continues without it
            self.fault, self._failing = f"{type(error).__name__}: {error}", True

    def _send_all(self, export: Export[Item]) -> None:
        """Sends everything. Runs even without items, because the exporter must still read its gauges."""
        while True:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._batch))]
            self._sending = len(batch)
            self._failing = not export(batch)
            self._sending = 0
            if self._failing:
                self.lost += len(batch)
            if not self._waiting or self._failing:
                return
