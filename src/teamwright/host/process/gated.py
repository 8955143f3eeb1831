"""Runs a shell that waits at a gate until it is marked as ours, and retries if its box could not be made.

A shell that passes the gate takes a word out of a pipe. While the word is still there, nothing of the script has run,
so a retry runs nothing twice. Retries are needed because bubblewrap looks up each place of its map by name, and another
program's socket may vanish meanwhile.
"""

import os
import select
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from teamwright.core.errors import ToolError
from teamwright.host.process.capture import Capture
from teamwright.host.process.run import ProcessEnd, see_through, start_command

if TYPE_CHECKING:
    from teamwright.host.sandbox.box import Box

_MOST_EARLY = 1 << 16  # bytes held back; bubblewrap's message is one line


async def run_gated(
    words: Callable[[int], Sequence[str]],
    *,
    cwd: Path,
    env: Mapping[str, str],
    limit: float | None,
    capture: Capture,
    pass_fds: Collection[int] = (),
    on_start: Callable[[], None] | None = None,
    on_output: Callable[[], None] | None = None,
    box: "Box | None" = None,
) -> ProcessEnd:
    """Like `run`. `words` makes the argv of a shell that reads a line from the given handle before anything else.

    Each retry calls `words` and `on_start` again.
    """
    try:
        while True:
            with _open_gate() as gate:
                try:
                    command = start_command(words(gate.entry), cwd, env, (*pass_fds, gate.entry), box)
                except ToolError:  # nothing was started
                    if box is None or not await box.renew():
                        raise
                    continue
                output = _HeldBack(capture, gate)
                ready = gate.open if on_start is None else _both(gate.open, on_start)
                ended = await see_through(command, limit, output, on_start=ready, on_output=on_output, box=box)
                never_began = ended.status is not None and not ended.timed_out and gate.untouched()
                if not never_began or box is None or not await box.renew():
                    output.let_go()
                    return replace(ended, began=box is None or not never_began)
    finally:
        capture.close()


def _both(one: Callable[[], None], other: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        one()
        other()

    return call


class WordGate:
    """One per attempt: a shell of an earlier attempt that could not be killed finds its own gate closed forever."""

    def __init__(self, entry: int, opener: int) -> None:
        self.entry, self._opener = entry, opener
        # If the shell cannot close the pipe, its script could write to it, but it cannot guess this.
        self._word = os.urandom(8).hex().encode() + b"\n"
        self._look = select.poll()
        self._look.register(entry, select.POLLIN)

    def open(self) -> None:
        os.write(self._opener, self._word)

    def holds_word(self) -> bool:
        """Has nobody passed yet?"""
        return bool(self._look.poll(0))

    def untouched(self) -> bool:
        """Did nobody pass at all? Call this when all possible readers are gone; it removes the word."""
        return self.holds_word() and os.read(self.entry, 2 * len(self._word)) == self._word


@contextmanager
def _open_gate() -> Generator[WordGate]:
    entry, opener = os.pipe()
    try:
        yield WordGate(entry, opener)
    finally:
        os.close(entry)
        os.close(opener)


class _HeldBack:
    """Output from before the gate is bubblewrap's, and only matters if there is no retry."""

    def __init__(self, capture: Capture, gate: WordGate) -> None:
        self._capture, self._gate = capture, gate
        self._early, self._passed = bytearray(), False

    def touches_disk(self, size: int) -> bool:
        return self._is_passed() and self._capture.touches_disk(len(self._early) + size)

    def add(self, data: bytes) -> None:
        if self._is_passed():
            self.let_go()
            self._capture.add(data)
        else:
            self._early += data

    def let_go(self) -> None:
        if self._early:
            self._capture.add(bytes(self._early))
            self._early.clear()

    def _is_passed(self) -> bool:
        """Asked after reading data: if the word is still in the gate, the data came from before it."""
        self._passed = self._passed or len(self._early) > _MOST_EARLY or not self._gate.holds_word()
        return self._passed
