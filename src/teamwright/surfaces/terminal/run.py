"""Opens a session, shows the app, and switches to another session if the person asks for one."""

import asyncio
import gc
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from msgspec.structs import replace

from teamwright.app import Options, open_session
from teamwright.core.errors import UsageError
from teamwright.core.ids import SessionId
from teamwright.runtime.local_session import LocalSession
from teamwright.runtime.port import SessionPort
from teamwright.runtime.session import Session
from teamwright.store.files.paths import Home, home_from, sessions_named
from teamwright.surfaces.plain import is_terminal
from teamwright.surfaces.port.doors import is_open
from teamwright.surfaces.port.resuming import resume_command
from teamwright.surfaces.terminal.signals import heed_signals
from teamwright.tools.bounds import visible

if TYPE_CHECKING:
    from teamwright.surfaces.terminal.leave import Leave
    from teamwright.surfaces.view.newcomer import Newcomer


KeepDoor = Callable[[Session, Home, Mapping[str, str]], Coroutine[Any, Any, None]]  # lets others attach to a session


async def run_terminal(options: Options, keep_door: KeepDoor, *, prompt: str | None = None, pick: bool = False) -> int:
    """Runs until the person leaves; returns the exit status. `pick`: begin with the list of sessions."""
    options = replace(options, can_ask=True, interactive=True, keep_files=True, fork=options.fork or None)
    while True:
        if elsewhere := _runs_elsewhere(options):
            return await run_attached(elsewhere, keep_door)
        leave, status = await _show(options, keep_door, prompt, pick=pick)
        if leave is None or leave.origin is None:
            return status
        options, prompt, pick = replace(options, origin=leave.origin), None, False


async def run_attached(session: SessionId, keep_door: KeepDoor) -> int:
    """Runs until the person leaves, or the session in another process ends; returns the exit status."""
    from teamwright.surfaces.terminal.attached import show_attached  # noqa: PLC0415  # with all of Textual

    leave, caught = await show_attached(session)
    if caught:
        return 128 + caught
    if leave is not None and leave.origin is not None:
        return await run_terminal(Options(cwd=Path.cwd(), origin=leave.origin), keep_door)
    if leave is not None and leave.ended:
        sys.stdout.write(f"The session has ended. Resume it with: {resume_command(session)}\n")
    else:
        sys.stdout.write(f"The session is still running. Return to it with: teamwright attach {session}\n")
    return 0


def _runs_elsewhere(options: Options) -> SessionId | None:
    """The named session, if another process runs it: then it can only be attached to, or copied."""
    home, named = home_from(options.env), options.origin.resume
    if not named or options.origin.fork:
        return None
    found = [SessionId(path.stem) for path in sessions_named(home, named)]
    return found[0] if len(found) == 1 and is_open(home, found[0]) else None


def check_terminal() -> None:
    if not is_terminal():
        raise UsageError(
            "the app needs a terminal for input and output. Without one, use `teamwright -p PROMPT` (see --help)."
        )


async def _show(options: Options, keep_door: KeepDoor, prompt: str | None, *, pick: bool) -> "tuple[Leave | None, int]":
    from teamwright.surfaces.terminal.app import TerminalApp  # noqa: PLC0415
    from teamwright.surfaces.terminal.offering import settle_sandbox  # noqa: PLC0415
    from teamwright.surfaces.terminal.render import themes  # noqa: PLC0415  # with all of Textual
    from teamwright.surfaces.terminal.trusting import settle_trust  # noqa: PLC0415

    home = home_from(options.env)
    theme = themes.wanted(home.root, options.env)
    if not await settle_trust(options, theme) or (note := await settle_sandbox(options, theme)) is None:
        return None, 0
    session = await open_session(options)
    if note:
        session.notes = (*session.notes, note)
    gc.freeze()
    gc.enable()
    here = LocalSession(session, session.home or home)
    app = TerminalApp(here, options, prompt=prompt, theme=theme, pick=pick)
    leave, caught = None, list[int]()
    # A separate task: a Ctrl+C while the session closes would be raised in the middle of it, and no task group could
    # end.
    heeding = asyncio.get_running_loop().create_task(heed_signals(app, caught))
    try:
        async with session:
            async with anyio.create_task_group() as group:
                group.start_soon(keep_door, session, here.home, options.env)
                leave = await app.run_async()
                group.cancel_scope.cancel()
            session.hurry()
    finally:  # also after a Ctrl+C while it closes
        heeding.cancel()
        if (leave is None or leave.origin is None) and here.facts.begun:
            sys.stdout.write(f"Resume this session with: {resume_command(session.id, options.engine)}\n")
    for words in session.last_words:
        sys.stderr.write(f"teamwright: {visible(words)}\n")
    return leave, 128 + caught[0] if caught else app.return_code or 0


async def show_guided(session: SessionPort, options: Options, prompt: str, advise: "Callable[[Newcomer], str]") -> None:
    """Show the app on a session that somebody else opened, with a line of advice, until the person leaves."""
    from teamwright.surfaces.terminal.app import TerminalApp  # noqa: PLC0415
    from teamwright.surfaces.terminal.render import themes  # noqa: PLC0415  # with all of Textual
    from teamwright.surfaces.terminal.widgets.coach import Coach  # noqa: PLC0415

    theme = themes.wanted(home_from(os.environ).root, os.environ)
    app = TerminalApp(session, options, prompt=prompt, theme=theme, coach=Coach(advise))
    async with anyio.create_task_group() as group:
        group.start_soon(heed_signals, app, list[int]())
        await app.run_async()
        group.cancel_scope.cancel()
