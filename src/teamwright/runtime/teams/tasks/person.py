"""Changes that a person makes to the task list in the lead's place: owners are told as if the lead had made them."""

from teamwright.core.data.op import AddTask, ChangeTask
from teamwright.core.data.tasks import NOBODY, Change, Done, Draft, Owner, Refusal, TaskId
from teamwright.core.data.team import safe_name
from teamwright.core.errors import ToolError, UsageError
from teamwright.core.ids import AgentId
from teamwright.runtime.teams.tasks.board import TaskBoard

MOST_SUBJECT, MOST_TEXT = 1_000, 100_000  # characters


async def arrange(board: TaskBoard, lead: AgentId, op: AddTask | ChangeTask) -> None:
    """Raises UsageError with the reason if a change is refused."""
    try:
        done = await (_add(board, lead, op) if isinstance(op, AddTask) else _change(board, lead, op))
    except ToolError as error:
        raise UsageError(str(error)) from None
    if isinstance(done, Refusal):
        raise UsageError(str(done))


async def _add(board: TaskBoard, lead: AgentId, op: AddTask) -> Done | Refusal:
    draft = Draft(_subject(op.subject), _text(op.description), blocked_by=tuple(map(TaskId, op.blocked_by)))
    owner = _owner(board, lead, op.owner) if op.owner else None
    return await board.create(lead, draft, owner=owner)


async def _change(board: TaskBoard, lead: AgentId, op: ChangeTask) -> Done | Refusal:
    change = Change(
        None if op.subject is None else _subject(op.subject),
        None if op.description is None else _text(op.description),
        status=op.status,
        owner=None if op.owner is None else _owner(board, lead, op.owner),
        add_blocked_by=tuple(map(TaskId, op.blocked_by)),
    )
    if change == Change():
        raise UsageError(f"nothing to change: say what is to be different about #{op.id}")
    return await board.update(lead, TaskId(op.id), change)


def _owner(board: TaskBoard, lead: AgentId, name: str) -> Owner:
    """Empty: nobody. A name without a member keeps the task for one that joins under it."""
    if not (name := name.strip().removeprefix("@")):
        return NOBODY
    if (found := board.scope.find(lead, name)) is None and safe_name(name) != name:
        raise UsageError(f"nobody can be called {name[:100]!r}; there are {', '.join(board.scope.names(lead)[:50])}")
    return found or Owner(name, None)


def _subject(text: str) -> str:
    if not text.strip() or len(text) > MOST_SUBJECT:
        raise UsageError(f"a task needs a subject of at most {MOST_SUBJECT:,} characters")
    return " ".join(text.split())


def _text(text: str) -> str:
    if len(text) > MOST_TEXT:
        raise UsageError(f"a description has at most {MOST_TEXT:,} characters")
    return text
