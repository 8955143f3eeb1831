"""Recalls what an agent of a team must still know after its conversation was shortened."""

from teamwright.core.ids import AgentId
from teamwright.runtime.teams.roster import Roster
from teamwright.runtime.teams.tasks.board import TaskBoard
from teamwright.store.tables.requests import RequestTable

_MOST_LINES = 60


async def recall(roster: Roster, board: TaskBoard, requests: RequestTable, agent: AgentId) -> list[str]:
    lines = roster.describe(agent)
    listing = await board.listing(agent)
    mine = roster.member_of(agent)
    name = mine.name if mine else ""
    for task in listing.tasks:
        if task.status != "completed" and (task.agent in (agent, None) or name == "team-lead" or not mine):
            owner = f", {task.owner}'s" if task.owner else ""
            lines.append(f"Task #{task.id} ({task.status}{owner}): {task.subject}")
    if mine:
        lines += [f"Waits for your answer: {r.kind} request {r.id}" for r in await requests.open_for(agent)]
        asked = await requests.asked_by(agent)
        lines += [f"You wait for the answer to your {r.kind} request {r.id}" for r in asked]
    return lines[:_MOST_LINES]
