"""Board of the shared task list: states, owners and blockers."""

from collections.abc import Mapping, Sequence

from textual.content import Content

from teamwright.core.data.tasks import Task, listed
from teamwright.surfaces.terminal.render.themes import Palette, agent_style
from teamwright.surfaces.terminal.widgets.rows import Piece, row
from teamwright.surfaces.terminal.widgets.unfolding import UnfoldingList
from teamwright.surfaces.view.diff import DiffRow
from teamwright.surfaces.view.text import one_line, safe

MOST_DONE = 200  # newest completed tasks that are listed
_ORDER = {"in_progress": 0, "pending": 1, "blocked": 2, "completed": 3}
_MARKS = {"in_progress": "◐", "pending": "○", "blocked": "◇", "completed": "✓"}


def status_of(task: Task) -> str:
    return "blocked" if task.status == "pending" and task.blocked_by else task.status


def in_order(tasks: Sequence[Task]) -> list[Task]:
    """Tasks in progress first, then those that may begin, those that wait, and those that are done; each by number."""
    done = sorted((t for t in tasks if t.status == "completed"), key=lambda task: task.updated)[-MOST_DONE:]
    kept = [task for task in tasks if task.status != "completed"] + done
    return sorted(kept, key=lambda task: (_ORDER[status_of(task)], task.id))


def summary_of(tasks: Sequence[Task]) -> str:
    """`3 of 8 done, 2 at work, 1 waits`."""
    if not tasks:
        return "no tasks"
    count = {kind: sum(status_of(task) == kind for task in tasks) for kind in _ORDER}
    parts = [f"{count['completed']} of {len(tasks)} done"]
    parts += [f"{count['in_progress']} in progress"] if count["in_progress"] else []
    parts += [f"{count['pending']} open"] if count["pending"] else []
    parts += [f"{count['blocked']} blocked"] if count["blocked"] else []
    return " · ".join(parts)


def task_row(task: Task, width: int, palette: Palette, colors: Mapping[str, str]) -> Content:
    status = status_of(task)
    styles = {"in_progress": palette.accent, "pending": palette.text, "blocked": palette.warn, "completed": palette.dim}
    doing = task.active_form if status == "in_progress" and task.active_form else task.subject
    right: list[Piece] = []
    if task.owner:
        right = [(f"  {one_line(task.owner, 20)}", agent_style(colors.get(task.owner, ""), palette))]
    elif status == "pending":
        right = [("  unassigned" if width > 50 else "", palette.dim)]
    left = [
        (f"{_MARKS[status]} ", styles[status]),
        (f"#{task.id} ", palette.dim),
        (one_line(doing, 160), styles[status]),
        (f"  waits for {listed(task.blocked_by)}" if task.blocked_by else "", palette.warn),
    ]
    if task.blocked_by:  # its blockers must not be cut off
        right.insert(0, (left.pop()[0], palette.warn))
    return row(left, right, width)


def detail_rows(task: Task) -> list[DiffRow]:
    facts = [f"status: {status_of(task)}", f"owner: {safe(task.owner) if task.owner else 'nobody'}"]
    facts += [f"waits for: {listed(task.blocked_by)}"] if task.blocked_by else []
    facts += [f"blocks: {listed(task.blocks)}"] if task.blocks else []
    text = [DiffRow("plain", line) for line in safe(task.description).split("\n")] if task.description else []
    return [DiffRow("strong", f"#{task.id} {safe(task.subject)}"), *(DiffRow("dim", fact) for fact in facts), *text]


class TaskPanel(UnfoldingList[Task]):
    """Enter shows the whole task."""

    def __init__(self, *, id: str) -> None:
        super().__init__(task_row, detail_rows, id=id, keys="Enter shows the whole task", head="no tasks")

    def show(self, tasks: Sequence[Task], colors: Mapping[str, str]) -> None:
        """`colors` of owners, by name."""
        self.put({str(task.id): task for task in in_order(tasks)}, colors, summary_of(tasks))
