"""Reads the terminal for the app. Textual checks for keys ten times a second; this waits for one."""

import os
import select
import time
from codecs import getincrementaldecoder

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

TICK = 0.1  # seconds between two looks at a sequence that may be incomplete, such as a lone Esc
PENDING = 1.0  # seconds after the last byte in which that may be


class WaitingDriver(LinuxDriver):
    """Textual's own driver, but its thread sleeps until something is typed or the app lets go of the keys."""

    _wake: tuple[int, int] | None = None  # a pipe: writing to it wakes the thread

    def start_application_mode(self) -> None:
        self._open()
        super().start_application_mode()

    def _open(self) -> tuple[int, int]:
        self._wake = self._wake or os.pipe()
        return self._wake

    def disable_input(self) -> None:
        ends, self._wake = self._wake, None
        if ends is not None:
            os.write(ends[1], b"x")  # it stays in the pipe: the thread may look before the event is set
        super().disable_input()  # waits for the thread
        for end in ends or ():
            os.close(end)

    def run_input_thread(self) -> None:
        parser, decode = XTermParser(self._debug), getincrementaldecoder("utf-8")().decode
        heard, (woken, _) = time.monotonic(), self._open()
        while not self.exit_event.is_set():
            pending = time.monotonic() - heard < PENDING
            readable, _, _ = select.select([self.fileno, woken], [], [], TICK if pending else None)
            if self.fileno in readable:
                heard = time.monotonic()
                read = os.read(self.fileno, 4096)
                if not read:  # the terminal is gone
                    self.exit_event.wait(TICK)
                elif text := decode(read):
                    for event in parser.feed(text):
                        self.process_message(event)
            for event in parser.tick():
                self.process_message(event)
