"""`teamwright teammate`: a teammate's own process, in a pane or without a terminal. Only a lead starts it."""

import os
import signal
import sys
from collections.abc import Awaitable, Callable

import anyio

from teamwright.app.teams.process import open_member
from teamwright.runtime.teams.remote.process_main import TeammateProcess
from teamwright.surfaces.plain import Progress
from teamwright.tools.bounds import visible

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


async def run_teammate() -> int:
    """Until it shuts down, its life-line breaks, or nobody leads it any more. A signal parks it."""
    status: list[int] = []
    home = await open_member(os.environ)
    async with home, anyio.create_task_group() as group:
        group.start_soon(_show, home)
        group.start_soon(_heed_signals, group.cancel_scope, status)
        group.start_soon(_until, home.ended, group.cancel_scope)
        group.start_soon(_until, home.trouble.met, group.cancel_scope)
        if sys.stdin is not None and not sys.stdin.isatty():
            group.start_soon(_until, _life_line, group.cancel_scope)
        else:
            group.start_soon(_until, home.abandoned, group.cancel_scope)
    if home.trouble.error is not None:
        sys.stderr.write(f"teamwright: {visible(str(home.trouble.error))}\n")
    return status[0] if status else int(home.trouble.error is not None)


async def _until(wait: Callable[[], Awaitable[None]], scope: anyio.CancelScope) -> None:
    await wait()
    scope.cancel()


async def _life_line() -> None:
    """The lead's process holds the other end: it ends with that."""
    while True:
        await anyio.wait_readable(sys.stdin.fileno())
        if not os.read(sys.stdin.fileno(), 4096):
            return


async def _show(home: TeammateProcess) -> None:
    progress = Progress(sys.stdout, colours=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    async for record in home.watch():
        progress.show(record)


async def _heed_signals(scope: anyio.CancelScope, status: list[int]) -> None:
    with anyio.open_signal_receiver(*STATUS) as signals:
        async for number in signals:
            status.append(STATUS[number])
            scope.cancel()
