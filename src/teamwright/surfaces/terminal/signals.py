"""Handles signals to the program while the app has the terminal."""

import signal
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from teamwright.surfaces.terminal.app import TerminalApp


async def heed_signals(app: "TerminalApp", caught: list[int]) -> None:
    """Restore the terminal before we exit, whatever the signal."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP) as signals:
        async for number in signals:
            caught.append(number)
            app.exit()
