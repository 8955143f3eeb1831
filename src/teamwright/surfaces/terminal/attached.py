"""Runs the app in a second terminal, for a session in another process."""

import os

import anyio

from teamwright.app import Options
from teamwright.core.errors import UsageError
from teamwright.core.ids import SessionId
from teamwright.store.files.paths import home_from
from teamwright.surfaces.port.doors import knock
from teamwright.surfaces.port.remote_session import RemoteSession
from teamwright.surfaces.terminal.app import TerminalApp
from teamwright.surfaces.terminal.leave import Leave
from teamwright.surfaces.terminal.render import themes
from teamwright.surfaces.terminal.signals import heed_signals


async def show_attached(session: SessionId) -> tuple[Leave | None, int]:
    """Until the person leaves, or the session ends: how that was, and the signal that it was for."""
    env = dict(os.environ)
    home = home_from(env)
    leave, caught, refused = None, list[int](), None
    async with knock(home, session) as wire, anyio.create_task_group() as group:
        there = RemoteSession(wire, home)
        group.start_soon(there.listen)
        try:
            await there.enter()
        except UsageError as error:
            refused = error
        else:
            app = TerminalApp(there, Options(cwd=there.cwd, env=env), theme=themes.wanted(home.root, env))
            group.start_soon(heed_signals, app, caught)
            leave = await app.run_async()
        group.cancel_scope.cancel()
    if refused is not None:
        raise refused
    return leave, caught[0] if caught else 0
