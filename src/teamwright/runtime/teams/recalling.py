"""Recalls what an agent of a team must still know after its conversation was shortened."""

from teamwright.core.ids import AgentId
from teamwright.core.text import neutral
from teamwright.runtime.teams.requests import TeamRequests
from teamwright.runtime.teams.roster import Roster
from teamwright.runtime.teams.tasks.board import TaskBoard

_MOST_TASKS = 60


async def recall(roster: Roster, board: TaskBoard, requests: TeamRequests, agent: AgentId) -> list[str]:
    mine = roster.member_of(agent)
    lines = [*map(neutral, roster.describe(agent)), *(await requests.recall(agent) if mine else ())]
    open_tasks = [task for task in (await board.listing(agent)).tasks if task.status != "completed"]
    told = [task for task in open_tasks if task.agent in (agent, None) or not mine or mine.is_lead]
    for task in sorted(told, key=lambda task: task.agent != agent)[:_MOST_TASKS]:
        owner = f", {task.owner}'s" if task.owner else ""
        lines.append(f"Task #{task.id} ({task.status}{owner}): {neutral(task.subject)}")
        if task.agent == agent and task.status == "in_progress" and task.description:
            lines.append(neutral(task.description))
    return lines
