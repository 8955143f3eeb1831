"""`teamwright worker`: runs agents of other machines' sessions here, until it is asked to leave."""

import gc
import os
import platform
import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from teamwright.app.workers.worker import OpenWorker, Wanted

from teamwright.core.errors import StoreError, UsageError
from teamwright.core.text import shown, whole_number
from teamwright.tools.bounds import visible

_STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
_MOST_SLOTS = 1000
_NOW = 2.0  # seconds to tell the engine that it leaves, after a second signal
_NEW_OBJECTS = 20_000  # between two garbage collections: one agent makes thousands of objects that its end frees


def run_worker(parser: ArgumentParser, args: Sequence[str]) -> int:
    add = parser.add_argument
    add("--join", required=True, metavar="URL", help="the engine whose agents it runs; @FILE reads the URL")
    add("--name", type=_name, default=platform.node(), help="name of the worker (default: the name of this machine)")
    add("--slots", type=_slots, default=8, metavar="N", help="how many agents work at once (default: 8)")
    add("--label", action="append", default=[], metavar="KEY=VALUE", help="a label that agents can ask for")
    add("--allow-bypass", action="store_true", help="also run agents in the mode bypassPermissions")
    add("--once", action="store_true", help="end after the first agent")
    found = parser.parse_args(args)
    try:
        from teamwright.app.workers.worker import Wanted, read_label  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "nats":
            raise
        raise UsageError(
            "An engine needs a client that is not installed: `pip install 'teamwright[cluster]'` adds it."
        ) from None
    wanted = Wanted(
        join=found.join,
        name=found.name,
        slots=found.slots,
        labels=dict(map(read_label, found.label)),
        allow_bypass=found.allow_bypass,
        once=found.once,
    )
    return anyio.run(_run, wanted)


def _name(text: str) -> str:
    if not text.strip():
        raise ArgumentTypeError("it is empty")
    return text.strip()


def _slots(text: str) -> int:
    number = whole_number(text)
    if number is None or not 1 <= number <= _MOST_SLOTS:
        raise ArgumentTypeError(f"{shown(text, 80)!r} is not a number from 1 to {_MOST_SLOTS}")
    return number


def _say(text: str) -> None:
    sys.stdout.write(visible(text) + "\n")
    sys.stdout.flush()


async def _run(wanted: "Wanted") -> int:
    from teamwright.app.workers.worker import open_worker  # noqa: PLC0415

    status: list[int] = []
    worker = await open_worker(wanted, Path.cwd(), dict(os.environ), _say)
    gc.freeze()  # imported modules and the setup stay, so the collector need not look at them again
    gc.set_threshold(_NEW_OBJECTS)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_heed_signals, worker, group.cancel_scope, status)
            await worker.office.offer()
            slots = f"{wanted.slots} slot{'' if wanted.slots == 1 else 's'}"
            _say(f"{wanted.name} has joined {worker.space.address} with {slots}")
            await worker.office.run()
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _close(worker, asked=bool(status))
    if worker.office.fault is not None and not status:
        raise worker.office.fault
    return status[0] if status else 0


async def _close(worker: "OpenWorker", *, asked: bool) -> None:
    try:
        await worker.close()
    except StoreError:  # the engine is away: it hears of this when the lease is over
        if not asked:
            raise


async def _heed_signals(worker: "OpenWorker", scope: anyio.CancelScope, status: list[int]) -> None:
    """The first signal asks the worker to leave; a second one ends it now."""
    with anyio.open_signal_receiver(*_STATUS) as signals:
        async with anyio.create_task_group() as group:
            async for number in signals:
                if status:
                    worker.space.hurry(_NOW)
                    worker.office.leave_now()
                    scope.cancel()
                    return
                status.append(_STATUS[number])
                worker.space.hurry(worker.drain_seconds)
                group.start_soon(worker.office.leave, worker.drain_seconds)
