"""Work that a team leaves open when its session ends without a person, and the lead's chance to deal with it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.core.data.letter import ASKS
from teamwright.core.data.letters.text import how_to_answer
from teamwright.core.data.tasks import Task, listed
from teamwright.core.data.team import TeamRequest
from teamwright.core.ids import new_letter_id
from teamwright.core.text import shown

if TYPE_CHECKING:
    from teamwright.runtime.agents.agent import Agent
    from teamwright.runtime.teams.mail import TeamMail
    from teamwright.runtime.teams.requests import TeamRequests
    from teamwright.runtime.teams.roster import Roster
    from teamwright.store.tables.tasks import TaskTable

MOST_NAMED = 10  # tasks, and requests, that are named
_SUBJECT = 80  # characters


class OpenWork(Struct, frozen=True):
    """Tasks of one team that are not completed, and requests that its lead has not answered, with who asked."""

    team: str
    tasks: tuple[Task, ...]
    requests: tuple[tuple[TeamRequest, str], ...] = ()

    def __str__(self) -> str:
        asked = [f"{who}'s {request.kind} {request.id}" for request, who in self.requests]
        found = {"tasks": [_in_short(task) for task in self.tasks], "requests": asked}
        return "; ".join(f"open {what} of {self.team}: {_some(named)}" for what, named in found.items() if named)


def _some(named: Sequence[str]) -> str:
    more = len(named) - MOST_NAMED
    return ", ".join(named[:MOST_NAMED]) + (f", and {more} more" if more > 0 else "")


def _in_short(task: Task) -> str:
    owner = f", {task.owner}" if task.owner else ""
    waits = f", waits for {listed(task.blocked_by)}" if task.blocked_by else ""
    return f"#{task.id} {shown(task.subject, _SUBJECT)} ({task.status}{owner}{waits})"


async def find_open(roster: "Roster", table: "TaskTable", requests: "TeamRequests") -> list[OpenWork]:
    """What is open in teams that are led here and have, or had, teammates."""
    found: list[OpenWork] = []
    for team in roster.led_here():
        lead = roster.lead_of(team)
        if lead is not None and len(roster.everybody(team)) > 1:
            tasks = tuple(task for task in (await table.list(team)).tasks if task.status != "completed")
            asked = tuple((r, who.name) for r, who in await requests.open_for(lead.agent) if r.team == team)
            found.append(OpenWork(team, tasks, asked))
    return [work for work in found if work.tasks or work.requests]


async def ask_lead(main: "Agent", roster: "Roster", mail: "TeamMail", found: Sequence[OpenWork]) -> bool:
    """Let the lead see to what is open before the end. Not after a turn that ended badly, nor if turns are counted."""
    from teamwright.runtime.teams.requests import signal_kind  # noqa: PLC0415  # headless prompts name open work

    end, limits = main.history.ended, main.meter.limits
    if end is None or end.reason != "done" or limits.turns is not None:
        return False
    for work in found:
        if (lead := roster.lead_of(work.team)) is not None:
            how = " ".join(how_to_answer(signal_kind(request), request.id, who) for request, who in work.requests)
            words = " ".join(filter(None, (f"Everybody is idle, and there are {work}.", how, _LAST)))
            await mail.notify(lead, words, f"{ASKS}{new_letter_id()}")
    return bool(found)


_LAST = (
    "The session ends with your turn. See to them (do them, assign them, answer what is open, delete what is not "
    "needed), or say in your answer that they are open. Your last message is the answer that is read: make it complete."
)
