"""Prompts for later, put together for a session."""

from collections.abc import Callable

import anyio

from teamwright.app.options import Options
from teamwright.app.workspace import Workspace
from teamwright.core.ids import SessionId
from teamwright.host.timezone import local_zone
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.jobs.schedule import Schedules
from teamwright.store.tables.schedules import ScheduleTable
from teamwright.store.tables.state import StateStore, now_ms


class WallClock:
    def now(self) -> int:
        return now_ms()

    def steady(self) -> float:
        return anyio.current_time()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


def open_schedules(
    options: Options, ground: Workspace, state: StateStore, main: Agent, log: Callable[[str], None]
) -> Schedules:
    """Only where nobody waits for the program to end does it stay for them."""
    return Schedules(
        ScheduleTable(state.database),
        SessionId(main.id),
        main.id,
        clock=WallClock(),
        zone=lambda: local_zone(ground.env),
        ring=main.inbox.ring,
        log=log,
        stays=options.proactive or options.assistant or ground.settings.own.assistant,
    )
