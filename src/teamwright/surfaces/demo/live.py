"""The demo's story in the app: a person watches the team, answers its question and reads what each has done."""

import os

import anyio

from teamwright.app import open_session
from teamwright.runtime.local_session import LocalSession
from teamwright.store.files.paths import home_from
from teamwright.surfaces.demo.coach import Coach
from teamwright.surfaces.demo.stage import DemoPlan, Stage
from teamwright.surfaces.demo.story import PROMPT
from teamwright.surfaces.terminal.app import TerminalApp
from teamwright.surfaces.terminal.render import themes
from teamwright.surfaces.terminal.run import heed_signals


async def play_live(plan: DemoPlan) -> bool:
    """Until the person leaves. Had the story come to its end?"""
    stage = Stage(plan)
    options = stage.options()
    session = await open_session(options)
    watch = stage.enter(session)
    theme = themes.wanted(home_from(os.environ).root, os.environ)
    async with session:
        app = TerminalApp(
            LocalSession(session, home_from(options.env)),
            options,
            prompt=PROMPT,
            theme=theme,
            coach=Coach(lambda: stage.over),
        )
        async with anyio.create_task_group() as group:
            group.start_soon(stage.follow, watch)
            group.start_soon(heed_signals, app, list[int]())
            await app.run_async()
            group.cancel_scope.cancel()
        session.hurry()
    return stage.over
