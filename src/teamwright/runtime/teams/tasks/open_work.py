"""Work that a team leaves open when its session ends without a person, and the lead's chance to deal with it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.core.data.tasks import Task, listed
from teamwright.core.text import shown
from teamwright.runtime.agents.agent import Agent

if TYPE_CHECKING:
    from teamwright.runtime.teams.mail import TeamMail
    from teamwright.runtime.teams.roster import Roster
    from teamwright.store.tables.tasks import TaskTable

MOST_NAMED = 10  # tasks that are named
_SUBJECT = 80  # characters


class OpenWork(Struct, frozen=True):
    """Tasks of one team that are not completed."""

    team: str
    tasks: tuple[Task, ...]

    def __str__(self) -> str:
        named = [_in_short(task) for task in self.tasks[:MOST_NAMED]]
        more = len(self.tasks) - len(named)
        rest = f", and {more} more" if more else ""
        return f"open tasks of {self.team}: {', '.join(named)}{rest}"


def _in_short(task: Task) -> str:
    owner = f", {task.owner}" if task.owner else ""
    waits = f", waits for {listed(task.blocked_by)}" if task.blocked_by else ""
    return f"#{task.id} {shown(task.subject, _SUBJECT)} ({task.status}{owner}{waits})"


async def find_open(roster: "Roster", table: "TaskTable") -> list[OpenWork]:
    """Open tasks of teams that are led here and have, or had, teammates."""
    found: list[OpenWork] = []
    for team in roster.led_here():
        if len(roster.everybody(team)) > 1:
            tasks = (await table.list(team)).tasks
            found.append(OpenWork(team, tuple(task for task in tasks if task.status != "completed")))
    return [work for work in found if work.tasks]


async def ask_lead(main: Agent, roster: "Roster", mail: "TeamMail", found: Sequence[OpenWork]) -> bool:
    """Let the lead see to open work before the end. Not after a turn that ended badly, nor if turns are counted."""
    end, limits = main.history.ended, main.meter.limits
    if end is None or end.reason != "done" or limits.turns is not None:
        return False
    for work in found:
        if (lead := roster.lead_of(work.team)) is not None:
            await mail.notify(lead, f"Everybody is idle, and there are {work}. {_LAST}")
    return bool(found)


_LAST = (
    "The session ends with your turn. See to them (do them, assign them, answer what is open, delete what is not "
    "needed), or say in your answer that they are open. Your last message is the answer that is read: make it complete."
)
