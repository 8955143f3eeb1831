"""Handles signals to the program while the app has the terminal."""

import os
import select
import signal
import termios
import threading
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from teamwright.surfaces.terminal.app import TerminalApp

LEAVE_SECONDS = 20.0  # if there is no terminal


async def heed_signals(app: "TerminalApp", caught: list[int]) -> None:
    """Restore the terminal before exiting, whatever the signal. Signals are handled until everything is closed: an
    unhandled one would end the program in the middle of that. A second SIGTERM does so on purpose."""
    try:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP) as signals:
            threading.Thread(target=_watch_terminal, args=(caught,), name="terminal-watch", daemon=True).start()
            async for number in signals:
                if number == signal.SIGTERM and caught:
                    from teamwright.host.process.run import stop_all  # noqa: PLC0415

                    stop_all()
                    os._exit(128 + number)
                caught.append(number)
                if _is_gone():
                    _let_go(128 + number)
                app.exit()
    finally:
        if signal.SIGHUP in caught:  # the kernel and the thread may both report it
            signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _watch_terminal(caught: list[int]) -> None:
    """Notice a closed window even without a signal, which the starting program may have kept to itself.

    Without a terminal Textual reads nothing in a busy loop, and writers wait forever. The kernel wakes this thread only
    when the terminal is gone.
    """
    watch = select.poll()
    watch.register(1, 0)
    if any(found & select.POLLHUP for _, found in watch.poll()):
        _let_go(128 + signal.SIGHUP)
        if not caught:
            os.kill(os.getpid(), signal.SIGHUP)


def _is_gone() -> bool:
    """Whether the window was closed, or the connection cut."""
    try:
        termios.tcgetattr(1)
    except termios.error:
        return True
    return False


def _let_go(status: int) -> None:
    """Redirect output, so that later writes succeed: otherwise Textual's writer would end, and the next writer would
    wait for it forever. It may already have ended, so leaving has a limit; the disk is then as after any kill."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    limit = threading.Timer(LEAVE_SECONDS, os._exit, (status,))
    limit.daemon = True
    limit.start()
