"""Tells when a session has nothing left to do."""

from typing import TYPE_CHECKING

import anyio

from teamwright.runtime.concurrency.races import first

if TYPE_CHECKING:
    from teamwright.runtime.bus import Cursor
    from teamwright.runtime.session import Session

LOOK = 2.0  # seconds until work that is still open is looked at again


async def team_rests(session: "Session") -> bool:
    """Whether nobody in a team has anything left to do. If somebody has, waits for news, or for the main agent to
    wake."""
    teamwork, rest = session.services.open_teams, False
    if teamwork is None:
        return True

    async def teams() -> None:
        nonlocal rest
        rest = await teamwork.all_rest()

    await first(teams, session.main.woken)
    return rest


async def settled(session: "Session") -> "Cursor":
    """Wait until the main agent rests and no agent or teammate works for it; returns how far every transcript is then.

    Commands in the background and schedules do not count.
    """
    main, jobs = session.main, session.supervisor.jobs
    while True:
        await main.at_rest()
        if any(job.kind == "agent" for job in jobs.unfinished(main.id)):
            with anyio.move_on_after(LOOK):
                await main.woken()
        elif await team_rests(session) and main.resting:
            return session.recent(0)
