"""Runs the app in a second terminal, for a session in another process."""

import os

import anyio

from teamwright.app import Options
from teamwright.core.ids import SessionId
from teamwright.store.files.paths import home_from
from teamwright.surfaces.port.visiting import visit
from teamwright.surfaces.terminal.app import TerminalApp
from teamwright.surfaces.terminal.leave import Leave
from teamwright.surfaces.terminal.render import themes
from teamwright.surfaces.terminal.signals import heed_signals


async def show_attached(session: SessionId) -> tuple[Leave | None, int]:
    """Runs until the person leaves, or the session ends; returns which of them, and the signal if there was one."""
    env = dict(os.environ)
    home = home_from(env)
    leave, caught = None, list[int]()
    async with visit(home, session) as there, anyio.create_task_group() as group:
        app = TerminalApp(there, Options(cwd=there.cwd, env=env), theme=themes.wanted(home.root, env))
        group.start_soon(heed_signals, app, caught)
        leave = await app.run_async()
        group.cancel_scope.cancel()
    return leave, caught[0] if caught else 0
