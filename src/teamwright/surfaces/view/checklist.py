"""Checklist of tasks: the lines above the input, and what an agent is doing according to it."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from teamwright.core.data.tasks import Task
from teamwright.core.ids import AgentId
from teamwright.surfaces.view.text import one_line

State = Literal["done", "active", "open", "blocked"]
_RANK: dict[State, int] = {"active": 0, "open": 1, "blocked": 2, "done": 3}


class ChecklistRow(Struct, frozen=True):
    state: State
    text: str  # safe to draw
    owner: str = ""


class Checklist(Struct, frozen=True):
    rows: tuple[ChecklistRow, ...] = ()
    more: int = 0  # tasks that there is no room for


def checklist(tasks: Sequence[Task], most: int) -> Checklist:
    """At most `most` lines, in the order of the list; empty if everything is done.

    If there are more tasks, those in progress come first, then open ones, then those completed last.
    """
    if all(task.status == "completed" for task in tasks):
        return Checklist()
    room = len(tasks) if len(tasks) <= most else max(1, most - 1)  # the last line counts the rest
    chosen = sorted(tasks, key=_importance)[:room]
    rows = [_row(task) for task in sorted(chosen, key=_number)]
    return Checklist(tuple(rows), len(tasks) - len(rows))


def activity(tasks: Sequence[Task], agent: AgentId) -> str:
    """`Fixing the bug…`: the task that the agent has in progress; if there are several, the one it took last."""
    own = [task for task in tasks if task.status == "in_progress" and task.agent == agent]
    if not own:
        return ""
    task = max(own, key=_updated)
    return f"{one_line(task.active_form or task.subject, 80).rstrip('. …')}…"


def _state(task: Task) -> State:
    if task.status == "completed":
        return "done"
    if task.status == "in_progress":
        return "active"
    return "blocked" if task.blocked_by else "open"


def _importance(task: Task) -> tuple[int, int]:
    state = _state(task)
    return _RANK[state], -task.updated if state == "done" else task.id


def _number(task: Task) -> int:
    return task.id


def _updated(task: Task) -> tuple[int, int]:
    return task.updated, task.id


def _row(task: Task) -> ChecklistRow:
    state = _state(task)
    text = task.active_form if state == "active" and task.active_form else task.subject
    return ChecklistRow(state, one_line(text, 160), one_line(task.owner or "", 20))
