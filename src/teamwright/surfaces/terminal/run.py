"""Opens a session, shows the app, and goes on with another session if the person asks for one."""

import gc
import os
import signal
import sys
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from teamwright.app import Options, open_session
from teamwright.core.errors import UsageError
from teamwright.core.ids import SessionId
from teamwright.store.files.paths import home_from, is_session_id

if TYPE_CHECKING:
    from teamwright.surfaces.terminal.app import TerminalApp
    from teamwright.surfaces.terminal.leave import Leave


async def run_terminal(options: Options, prompt: str | None = None, pick: bool = False) -> int:  # noqa: FBT001, FBT002
    """Until the person leaves; the exit status. `pick`: begin with the list of sessions."""
    options = replace(options, can_ask=True, interactive=True)
    while True:
        if _runs_elsewhere(options):
            from teamwright.surfaces.terminal.attached import run_attached  # noqa: PLC0415  # it imports this module

            return await run_attached(SessionId(options.origin.resume or ""))
        leave, status = await _show(options, prompt, pick=pick)
        if leave is None or leave.origin is None:
            return status
        options, prompt, pick = replace(options, origin=leave.origin), None, False


def _runs_elsewhere(options: Options) -> bool:
    """A session that another process runs cannot be gone on with here, but attached to; its copy can."""
    named = options.origin.resume or ""
    if not is_session_id(named) or options.origin.fork:
        return False
    from teamwright.surfaces.port.doors import is_open  # noqa: PLC0415

    return is_open(home_from(options.env), SessionId(named))


def is_terminal() -> bool:
    """Standard error counts too: Textual draws on it."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream.isatty() for stream in streams) and os.environ.get("TERM") != "dumb"


def check_terminal() -> None:
    if not is_terminal():
        raise UsageError(
            "the app needs a terminal for its input and output. Without one use `teamwright -p PROMPT` (see --help)."
        )


async def _show(options: Options, prompt: str | None, *, pick: bool) -> "tuple[Leave | None, int]":
    from teamwright.runtime.local_session import LocalSession  # noqa: PLC0415
    from teamwright.surfaces.headless.door import keep_door  # noqa: PLC0415
    from teamwright.surfaces.terminal.app import TerminalApp  # noqa: PLC0415
    from teamwright.surfaces.terminal.render import themes  # noqa: PLC0415  # with all of Textual
    from teamwright.surfaces.terminal.trusting import settle_trust  # noqa: PLC0415

    home = home_from(options.env)
    if not await settle_trust(options, themes.wanted(home.root, options.env)):
        return None, 0
    session = await open_session(options)
    gc.freeze()
    gc.enable()
    async with session:
        theme = themes.wanted(home.root, options.env)
        here = LocalSession(session, home)
        app = TerminalApp(here, options, prompt=prompt, theme=theme, pick=pick)
        leave, caught = None, list[int]()
        async with anyio.create_task_group() as group:
            group.start_soon(keep_door, session, home, options.env)
            group.start_soon(heed_signals, app, caught)
            leave = await app.run_async()
            group.cancel_scope.cancel()
        session.hurry()
    if (leave is None or leave.origin is None) and here.facts.begun:
        sys.stdout.write(f"Go on with this session: teamwright --resume {session.id}\n")
    return leave, 128 + caught[0] if caught else app.return_code or 0


async def heed_signals(app: "TerminalApp", caught: list[int]) -> None:
    """The terminal is put in order before we go, whoever sends us away."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP) as signals:
        async for number in signals:
            caught.append(number)
            app.exit()
