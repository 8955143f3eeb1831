"""The headless program: prompts in, results out, nothing left running."""

import gc
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import anyio
import msgspec
from anyio.abc import TaskStatus
from msgspec.structs import replace

from teamwright.app import Options, open_session
from teamwright.core.data.message import Text
from teamwright.core.data.op import Say
from teamwright.core.errors import StoreError, UsageError
from teamwright.runtime.bus import Watch
from teamwright.runtime.driven_session import DrivenSession
from teamwright.runtime.session import Session
from teamwright.store.files.paths import Home, home_from
from teamwright.surfaces.headless.printer import Format, Printer
from teamwright.surfaces.signals import STATUS, heed_signals
from teamwright.surfaces.stdin import read_lines, read_text
from teamwright.surfaces.stdout import Out
from teamwright.tools.bounds import visible
from teamwright.tools.structured import StructuredOutput, WantsData

if TYPE_CHECKING:
    from teamwright.runtime.teams.tasks.open_work import OpenWork
    from teamwright.surfaces.headless.driver import Driver
    from teamwright.surfaces.headless.states import States

READS_STATE = "CLAUDE_CODE_SDK_READS_SESSION_STATE"
PRINT_LIMIT = 10.0  # seconds for a slow reader to take the last lines
_NEW_OBJECTS = 10_000  # objects between two garbage collections: hundreds of agents make and free many


class Headless(msgspec.Struct, frozen=True):
    """How the program communicates; what it does is in `Options`."""

    prompt: str | None = None
    output: Format = "text"
    input: Literal["text", "stream-json"] = "text"
    partial: bool = False
    wait: bool = True  # for background jobs, before the program ends
    listen: bool = False  # others may attach to the session
    replay: bool = False  # repeat prompts as they are taken
    hook_events: bool = False  # report what hooks do
    schema: dict[str, Any] | None = None  # of the answer, which is then data
    mirror: bool = False  # send the transcript as it grows


async def run(headless: Headless, options: Options) -> int:
    """Run to the end; returns the exit status."""
    prompt = None if headless.input == "stream-json" else await _read_prompt(headless.prompt)
    if headless.schema is not None:
        options = replace(options, own_tools=(*options.own_tools, StructuredOutput(headless.schema)))
    opened = await open_session(replace(options, known_prices=True))
    session = DrivenSession(opened, opened.home or home_from(options.env))
    gc.freeze()  # imported modules and the setup stay, so the collector need not look at them again
    gc.set_threshold(_NEW_OBJECTS)
    gc.enable()
    for note in session.notes:
        sys.stderr.write(f"teamwright: {visible(note)}\n")
    out = Out(sys.stdout.fileno())
    printer = Printer(
        session,
        out,
        headless.output,
        partial=headless.partial,
        replay=headless.replay,
        holds=not headless.wait and headless.input == "text",
        engine=options.engine,
    )
    driver = _open_driver(session, printer, options) if headless.input == "stream-json" else None
    states = await _listen(headless, session, printer, options.env)
    signals: list[signal.Signals] = []
    async with anyio.create_task_group() as group:
        watch = session.watch(deltas=headless.partial)  # teammates that resume may ask at once
        async with opened:
            with anyio.CancelScope() as work:
                group.start_soon(_print, watch, printer, work)
                group.start_soon(heed_signals, work, signals)
                group.start_soon(_heed_trouble, opened, work)
                if states is not None:
                    group.start_soon(states.watch)
                if headless.listen:
                    await group.start(_keep_door, opened, session.home, options.env)  # before anything is said
                await _feed(session, prompt, driver)
                with suppress(StoreError):  # from then on it is the session's trouble
                    printer.open_work = await _finish(opened, session, wait=headless.wait)
            if work.cancel_called:
                opened.hurry()
        with anyio.move_on_after(PRINT_LIMIT):
            await printer.printed.wait()
        group.cancel_scope.cancel()
    if not printer.broken:
        await printer.finish()
    _tell_left(opened)
    return STATUS[signals[0]] if signals else _status(opened.trouble.error, printer, driver)


async def _finish(opened: Session, session: DrivenSession, *, wait: bool) -> "Sequence[OpenWork]":
    """Wait until nothing is left to do; returns work that teams leave open."""
    await opened.idle(jobs=wait)
    if wait:
        await opened.ask_about_open_work()
    while True:
        await opened.idle(jobs=wait)
        left = await session.open_work()
        if opened.main.resting:  # otherwise a letter came while we looked, and its turn would be cut off
            return left


def _tell_left(session: Session) -> None:
    """The last lines: what continues without this program, and what was found out while it ended."""
    for words in session.last_words:
        sys.stderr.write(f"teamwright: {visible(words)}\n")


def _open_driver(session: DrivenSession, printer: Printer, options: Options) -> "Driver":
    from teamwright.surfaces.headless.driver import Driver  # noqa: PLC0415  # a single prompt needs none

    return Driver(session, printer, options)


def _status(error: StoreError | None, printer: Printer, driver: "Driver | None") -> int:
    """The status of the last result. A driver that left without asking for anything needs no result."""
    if error is not None:
        if printer.last is None or str(error) not in printer.last.error:
            sys.stderr.write(f"teamwright: {visible(str(error))}\n")
        return 1
    if driver is not None and driver.refused:
        return 1
    if printer.last is None:
        return 0 if driver is not None and not driver.asked else 1
    return 0 if printer.last.reason == "done" else 1


async def _listen(
    headless: Headless, session: DrivenSession, printer: Printer, env: Mapping[str, str]
) -> "States | None":
    """Set up what a driving program also wants to hear."""
    if headless.mirror:
        from teamwright.surfaces.headless.mirror import Mirror  # noqa: PLC0415

        printer.mirror = Mirror(session, env, await session.past(session.main)).frame
    if headless.schema is not None:
        session.add_hook("Stop", "", WantsData(), name="the wish for data")
    if headless.hook_events:
        session.watch_hooks(printer.hooked)
    if env.get(READS_STATE) != "1":
        return None
    from teamwright.surfaces.headless.states import States  # noqa: PLC0415

    states = States(session, printer.line)
    printer.heard = states.heard
    return states


async def _keep_door(session: Session, home: Home, env: Mapping[str, str], *, task_status: TaskStatus[None]) -> None:
    from teamwright.surfaces.headless.door import keep_door  # noqa: PLC0415

    await keep_door(session, home, env, task_status=task_status)


async def _read_prompt(argument: str | None) -> str:
    """The prompt of the command line, followed by what is piped in."""
    piped = await read_text(beside=argument is not None)
    prompt = "\n\n".join(part for part in (argument or "", piped.strip("\n")) if part.strip())
    if not prompt:
        raise UsageError("no prompt: give one after -p or on standard input")
    return prompt


async def _feed(session: DrivenSession, prompt: str | None, driver: "Driver | None") -> None:
    if prompt is not None:
        await session.take(Say((Text(prompt),)))
    elif driver is not None:
        number = 0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(driver.take_prompts)
            async for line in read_lines():
                number += 1
                if line.strip():
                    await driver.take(number, line, tasks)
                if driver.refused:
                    break
            driver.end()
            session.answer_nothing("Standard input is closed, so nobody can approve this.")


async def _print(watch: Watch, printer: Printer, work: anyio.CancelScope) -> None:
    try:
        async for record in watch:
            await printer.show(record)
    except BrokenPipeError:  # nobody reads any more, so the work is pointless
        printer.broken = True
        work.cancel()
    finally:
        watch.close()
        printer.printed.set()


async def _heed_trouble(session: Session, work: anyio.CancelScope) -> None:
    """Stop when the disk fails: nothing done after that could be kept."""
    await session.trouble.met()
    work.cancel()
