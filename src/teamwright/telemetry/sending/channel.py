"""A queue to the collector with a thread of its own: what puts something in never waits for what takes it out."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Export = Callable[[Sequence[Item]], bool]  # False: the collector did not take it. Nothing: all is to be sent now


class Channel(Generic[Item]):
    """`open` is called in the thread, before the first batch: it may take its time, and import what it needs."""

    def __init__(self, name: str, open: Callable[[], Export[Item]], *, seconds: float, most: int, batch: int) -> None:
        self._open, self._seconds, self._most, self._batch = open, seconds, most, batch
        self._waiting: deque[Item] = deque()
        self._bell, self._closing, self._failing = threading.Event(), False, False
        self.lost = 0  # what there was no room for, and what the collector did not take
        self.fault = ""
        # A daemon: a collector that hangs keeps no program alive.
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
        """Send what is left; `join` waits for that."""
        self._closing = True
        self._bell.set()

    def join(self, deadline: float) -> None:
        """Until it is sent, at most until `deadline` (monotonic); one that is failing gets no more time."""
        while self._thread.is_alive() and not self._failing and (left := deadline - time.monotonic()) > 0:
            self._thread.join(min(left, 0.1))
        if self._thread.is_alive():
            self.lost += len(self._waiting)

    def _run(self) -> None:
        try:
            export = self._open()
            while not self._closing:
                self._bell.wait(self._seconds)
                self._bell.clear()
                self._send_all(export)
            self._send_all(export)
            self._failing = not export(()) or self._failing
        except Exception as error:  # noqa: BLE001 -- the thread's boundary: the program goes on without it
            self.fault, self._failing = f"{type(error).__name__}: {error}", True

    def _send_all(self, export: Export[Item]) -> None:
        """A whole round, also of nothing: figures are asked for even where nothing new was put in."""
        while True:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._batch))]
            self._failing = not export(batch)
            if self._failing:
                self.lost += len(batch)
            if not self._waiting or self._failing:
                return
