"""`teamwright teammate`: a teammate's own process, in a pane or without a terminal. Only a lead starts it."""

import os
import signal
import sys
from collections.abc import Awaitable, Callable

import anyio

from teamwright.app.teams.process import open_member
from teamwright.runtime.teams.remote.process_main import TeammateProcess
from teamwright.surfaces.plain import Progress
from teamwright.surfaces.signals import STATUS, heed_signals
from teamwright.tools.bounds import visible


async def run_teammate() -> int:
    """Runs until it shuts down, its lead's process ends, or nobody leads it any more. A signal parks it."""
    caught: list[signal.Signals] = []
    home = await open_member(os.environ)
    async with home, anyio.create_task_group() as group:
        group.start_soon(_show, home)
        group.start_soon(heed_signals, group.cancel_scope, caught)
        group.start_soon(_until, home.ended, group.cancel_scope)
        group.start_soon(_until, home.trouble.met, group.cancel_scope)
        if sys.stdin is not None and not sys.stdin.isatty():
            group.start_soon(_until, _life_line, group.cancel_scope)
        else:
            group.start_soon(_until, home.abandoned, group.cancel_scope)
    if home.trouble.error is not None:
        sys.stderr.write(f"teamwright: {visible(str(home.trouble.error))}\n")
    return STATUS[caught[0]] if caught else int(home.trouble.error is not None)


async def _until(wait: Callable[[], Awaitable[None]], scope: anyio.CancelScope) -> None:
    await wait()
    scope.cancel()


async def _life_line() -> None:
    """Return when the lead's process, which holds the other end of standard input, has ended."""
    while True:
        await anyio.wait_readable(sys.stdin.fileno())
        if not os.read(sys.stdin.fileno(), 4096):
            return


async def _show(home: TeammateProcess) -> None:
    progress = Progress(sys.stdout, colours=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    async for record in home.watch():
        progress.show(record)
