"""Plays the demo in the app: a person watches the team, answers its question and reads what each has done."""

from collections.abc import Awaitable, Callable

import anyio

from teamwright.app import Options, open_session
from teamwright.runtime.local_session import LocalSession
from teamwright.runtime.port import SessionPort
from teamwright.store.files.paths import home_from
from teamwright.surfaces.demo.stage import DemoPlan, Stage
from teamwright.surfaces.demo.story import PROMPT
from teamwright.surfaces.view.newcomer import Newcomer

Advise = Callable[[Newcomer], str]
ShowApp = Callable[[SessionPort, Options, str, Advise], Awaitable[None]]  # until the person leaves


async def play_live(plan: DemoPlan, show_app: ShowApp) -> bool:
    """Runs until the person leaves. True if the story had come to its end."""
    stage = Stage(plan)
    options = stage.options()
    session = await open_session(options)
    watch = stage.enter(session)
    async with session:
        async with anyio.create_task_group() as group:
            group.start_soon(stage.follow, watch)
            await show_app(LocalSession(session, home_from(options.env)), options, PROMPT, stage.advise)
            group.cancel_scope.cancel()
        session.hurry()
    return stage.over
