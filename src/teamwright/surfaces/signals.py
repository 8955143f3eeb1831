"""Ends the work of a surface in good order when a signal asks for it."""

import os
import signal

import anyio

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


async def heed_signals(work: anyio.CancelScope, caught: list[signal.Signals]) -> None:
    """The first signal cancels the work, which may still clean up; a second one ends the program at once.

    Without this, asyncio's own handling of Ctrl-C would interrupt even shielded clean-up.
    """
    with anyio.open_signal_receiver(*STATUS) as signals:
        async for number in signals:
            if caught:
                from teamwright.host.process.run import stop_all  # noqa: PLC0415

                stop_all()
                os._exit(STATUS[number])
            caught.append(number)
            work.cancel()
