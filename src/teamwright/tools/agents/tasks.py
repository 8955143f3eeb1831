"""The shared task list: TaskCreate, TaskGet, TaskList, TaskUpdate."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from teamwright.core.data.message import ToolCall
from teamwright.core.data.tasks import (
    NOBODY,
    Change,
    Done,
    Draft,
    Owner,
    Refusal,
    Task,
    TaskId,
    listed,
    not_found,
    refuse_size,
)
from teamwright.core.data.team import safe_name
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId
from teamwright.core.ports import Outcome, ToolContext, said
from teamwright.runtime.agents.outcomes import CRASH, Outcomes, lost
from teamwright.runtime.services import services_of
from teamwright.runtime.tool_traits import Args, Need, Told, ToolTraits
from teamwright.tools.bounds import bounded, visible
from teamwright.tools.define import read_args, spec
from teamwright.tools.files.desk import encoded

if TYPE_CHECKING:
    from teamwright.runtime.teams.tasks.board import TaskBoard

MOST_SUBJECT = 200  # characters
MOST_DESCRIPTION = 64 * 1024  # bytes
MOST_LISTED = 500  # tasks in one list, open ones first
MOST_SHOWN = 500  # characters of a description in a listing
_ID = re.compile(r"\s*#?([1-9][0-9]{0,14})\s*", re.ASCII)
_NONE = frozenset({"", "none", "null", "nobody"})

Ids = list[str]
_IDS = ("blocks", "blockedBy", "addBlocks", "addBlockedBy")


class TaskCreateArgs(Struct, frozen=True):
    subject: Annotated[str, Meta(description="What to do, in a few words, as an order: Fix the login test")]
    description: Annotated[str, Meta(description="Everything its owner must know, and when it counts as done")]
    activeForm: Annotated[str, Meta(description="Shown while it is in progress: Fixing the login test")] = ""
    metadata: Annotated[dict[str, Any] | None, Meta(description="Anything to keep with it")] = None
    blocks: Annotated[Ids | None, Meta(description="Ids of tasks that must wait for this one")] = None
    blockedBy: Annotated[Ids | None, Meta(description="Ids of tasks that must be completed before this one")] = None
    owner: Annotated[
        str, Meta(description="Name of the agent it is for, which may join later; left out: anybody's")
    ] = ""


class GetArgs(Struct, frozen=True):
    taskId: Annotated[str, Meta(description="The id of the task")]


class TaskListArgs(Struct, frozen=True):
    pass


class UpdateArgs(Struct, frozen=True):
    taskId: Annotated[str, Meta(description="The id of the task")]
    subject: str | None = None
    description: str | None = None
    activeForm: str | None = None
    status: Annotated[
        Literal["pending", "in_progress", "completed", "deleted"] | None,
        Meta(description="in_progress claims a task without an owner; pending gives it back; deleted removes it"),
    ] = None
    addBlocks: Annotated[Ids | None, Meta(description="Ids of tasks that must wait for this one")] = None
    addBlockedBy: Annotated[Ids | None, Meta(description="Ids of tasks that must be completed before this one")] = None
    owner: Annotated[
        str | None,
        Meta(
            description="Your own name claims it; another's, even of one that joins later, assigns it; an empty text "
            "gives it back"
        ),
    ] = None
    metadata: Annotated[dict[str, Any] | None, Meta(description="Merged with what is there; null removes a key")] = None


_NEEDED: frozenset[Need] = frozenset({"coordinator", "teammate"})
LOST = "{} before this call was stored, so the task list is unchanged. Call it again if needed."


async def _applied(found: Outcomes, agent: AgentId, call: ToolCall, when: str) -> Told | None:
    if (books := found.books) is None:
        return None
    done = await books.tasks.applied(agent, call.id)
    return (done.replace(CRASH, when), False) if done else lost(LOST, when)


def _change(args: Args) -> str:
    owner = f"owner {args['owner']}" if args.get("owner") else ""
    return " ".join(filter(None, (f"#{args.get('taskId', '')}", str(args.get("status", "")), owner)))


class TaskCreate:
    spec = spec(
        "TaskCreate",
        "Adds a task to the list that all agents here share, for work of several steps or for several agents. A new "
        "task is pending. One with an owner is kept for that agent; any other goes to the first idle teammate, once "
        "nothing blocks it.",
        TaskCreateArgs,
        stores=True,
    )
    traits = ToolTraits(name=spec.name, effects="stored", outcome=_applied, needed_by=_NEEDED, own=True, lists=True)

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        asked = read_args(TaskCreateArgs, _lenient(args))
        draft = Draft(
            _subject(asked.subject),
            _description(asked.description),
            _line(asked.activeForm, "activeForm"),
            _metadata(asked.metadata or {}),
            _ids(asked.blocks, "blocks"),
            _ids(asked.blockedBy, "blockedBy"),
        )
        board = services_of(ctx).board
        owner = _named(board, ctx.agent, asked.owner)
        done = await board.create(ctx.agent, draft, ctx.call_id, owner=None if owner == NOBODY else owner)
        if isinstance(done, Refusal):
            return _refused(done)
        words = f"Task #{done.id} created: {visible(draft.subject)}"
        if done.task is not None and done.task.blocked_by:
            words += f" [blocked by {listed(done.task.blocked_by)}]"
        if done.task is not None and done.task.owner:
            words += f" (owner {done.task.owner})" + _kept(board, done.task, ctx.agent)
        return said(words, {"success": True, "taskId": str(done.id), "task": _data(done.task)})


class TaskGet:
    spec = spec(
        "TaskGet",
        "Shows one task of the shared list with all its details (not a background job: TaskOutput).",
        GetArgs,
        parallel=True,
    )
    traits = ToolTraits(name=spec.name, effects="none", needed_by=_NEEDED, own=True, subject=_change)

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        id = _id(read_args(GetArgs, _lenient(args)).taskId, "taskId")
        task = await services_of(ctx).board.get(ctx.agent, id)
        if task is None:
            return _refused(not_found(id))
        lines = [line_of(task)]
        if task.blocks:
            lines.append(f"blocks {listed(task.blocks)}")
        if task.active_form:
            lines.append(f"activeForm: {visible(task.active_form)}")
        if task.metadata:
            lines.append(f"metadata: {visible(msgspec.json.encode(task.metadata).decode())}")
        text = "\n".join([*lines, "", visible(task.description)])
        return said(bounded(text.rstrip(), most=MOST_DESCRIPTION + 30_000), {"task": _data(task)})


class TaskList:
    spec = spec(
        "TaskList",
        "Lists the shared tasks: id, status, subject, owner, and what each still waits for. One that is pending, has "
        "no owner and is not blocked is free to be claimed; take the lowest number first. TaskGet shows the details.",
        TaskListArgs,
        parallel=True,
    )
    traits = ToolTraits(name=spec.name, effects="none", needed_by=_NEEDED, own=True)

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        listing = await services_of(ctx).board.listing(ctx.agent)
        tasks = listing.tasks
        if len(tasks) > MOST_LISTED:
            shown = sorted(tasks, key=lambda task: (task.status == "completed", task.id))[:MOST_LISTED]
            tasks = tuple(sorted(shown, key=lambda task: task.id))
        lines = [line_of(task) for task in tasks]
        if left := len(listing.tasks) - len(tasks):
            lines.append(f"... and {left} more, completed ones left out first.")
        lines += [f"({visible(problem)})" for problem in listing.problems]
        data = {"tasks": [_short(task) for task in tasks], "total": len(listing.tasks)}
        return said(bounded("\n".join(lines)) or "There are no tasks.", data)


class TaskUpdate:
    spec = spec(
        "TaskUpdate",
        "Changes a task on the shared list: claim it before you begin (owner: your name), set it completed only when "
        "it is really done, give it back (status pending) if you cannot do it, assign it to another, or say what "
        "blocks it.",
        UpdateArgs,
        stores=True,
    )
    traits = ToolTraits(
        name=spec.name,
        effects="stored",
        outcome=_applied,
        needed_by=_NEEDED,
        own=True,
        lists=True,
        told=True,
        subject=_change,
    )

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        asked = read_args(UpdateArgs, _lenient(args))
        id, board = _id(asked.taskId, "taskId"), services_of(ctx).board
        change = Change(
            None if asked.subject is None else _subject(asked.subject),
            None if asked.description is None else _description(asked.description),
            None if asked.activeForm is None else _line(asked.activeForm, "activeForm"),
            None if asked.metadata is None else _metadata(asked.metadata),
            asked.status,
            _owner(board, ctx.agent, asked),
            _ids(asked.addBlocks, "addBlocks"),
            _ids(asked.addBlockedBy, "addBlockedBy"),
        )
        if change == Change():
            raise ToolError(f"Nothing to change: say what is to be different about #{id}.")
        done = await board.update(ctx.agent, id, change, ctx.call_id)
        if isinstance(done, Refusal):
            return _refused(done)
        freed = [str(task.id) for task in done.freed]
        data = {"success": True, "taskId": str(id), "task": _data(done.task), "freed": freed}
        if done.claimed or done.completed:
            data["statusChange"] = {"from": done.before and done.before.status, "to": done.task and done.task.status}
        words = _words(done, ctx.agent)
        if done.task is not None and change.owner is not None:
            words += _kept(board, done.task, ctx.agent)
        return said(words, data)


# --- text


def line_of(task: Task) -> str:
    """A task on one line, for models and people."""
    owner = f" (owner {task.owner})" if task.owner else ""
    waits = f" [blocked by {listed(task.blocked_by)}]" if task.blocked_by else ""
    return visible(f"#{task.id} [{task.status}] {task.subject}{owner}{waits}").replace("\n", " ")


def _words(done: Done, me: AgentId) -> str:
    task = done.task
    if task is None:
        words = f"Deleted #{done.id}."
    elif done.changed_hands and task.agent not in (None, me):
        when = f" once {listed(task.blocked_by)} is done" if task.blocked_by else ""
        words = f"Assigned to {task.owner}, who begins with it{when}: {line_of(task)}"
    elif done.claimed and task.agent == me:
        words = f"Claimed, it is yours now: {line_of(task)}"
    else:
        words = line_of(task)
    if done.freed:
        words += f"\nNot blocked any more: {listed(task.id for task in done.freed)}"
    return words


def _kept(board: "TaskBoard", task: Task, me: AgentId) -> str:
    """A note for a task whose owner has not joined yet; it exposes misspelled names."""
    if task.agent is not None or not task.owner or task.status != "pending":
        return ""
    there = ", ".join(board.scope.names(me)[:50])
    return (
        f"\nNobody is called {visible(task.owner)} yet (there are: {there}): it is kept for whoever joins by that name."
    )


def _refused(refusal: Refusal) -> Outcome:
    data = {"success": False, "reason": refusal.code, "message": refusal.words}
    return said(visible(str(refusal)), data, is_error=True)


def _data(task: Task | None) -> dict[str, Any] | None:
    return None if task is None else _record(task)


def _record(task: Task) -> dict[str, Any]:
    from teamwright.store.mirrors.task import record  # noqa: PLC0415  # a session may have no tasks

    return record(task)


def _short(task: Task) -> dict[str, Any]:
    found = _record(task)
    found["description"] = bounded(task.description, most=MOST_SHOWN)
    return found


# --- parsing what the model sent


def _lenient(args: Mapping[str, Any]) -> dict[str, Any]:
    """Accepts ids as `"3"`, `3` or `"#3"`, and lists of them as one string."""
    found = dict(args)
    if isinstance(found.get("taskId"), int):
        found["taskId"] = str(found["taskId"])
    for key in _IDS:
        value: Any = found.get(key)
        if isinstance(value, int):
            value = str(value)
        if isinstance(value, str):
            value = [part for part in re.split(r"[\s,\[\]\"']+", value) if part]
        if isinstance(value, list):
            found[key] = [str(id) if isinstance(id, int) else id for id in value]  # pyright: ignore[reportUnknownVariableType]
    return found


def _id(text: str, what: str) -> TaskId:
    found = _ID.fullmatch(text)
    if found is None:
        raise ToolError(f"{what}: {visible(text[:50])!r} is no task's id: give its number, for example 3.")
    return TaskId(int(found[1]))


def _ids(texts: Ids | None, what: str) -> tuple[TaskId, ...]:
    return tuple(dict.fromkeys(_id(text, what) for text in texts or ()))


def _line(text: str, what: str) -> str:
    line = " ".join(text.split())
    if len(line) > MOST_SUBJECT:
        raise ToolError(f"{what} has {len(line)} characters; at most {MOST_SUBJECT} fit. Details go into description.")
    encoded(line, what)
    return line


def _subject(text: str) -> str:
    if not (line := _line(text, "subject")):
        raise ToolError("subject is empty: say in a few words what is to be done.")
    return line


def _description(text: str) -> str:
    if (size := len(encoded(text, "description"))) > MOST_DESCRIPTION:
        raise ToolError(
            f"description has {size:,} bytes; at most {MOST_DESCRIPTION:,} fit. Write it to a file and name the file."
        )
    return text


def _metadata(found: dict[str, Any]) -> dict[str, Any]:
    try:
        refusal = refuse_size(found)
    except (UnicodeEncodeError, OverflowError, RecursionError, TypeError):
        raise ToolError("metadata cannot be kept: it holds a text or a number that JSON cannot hold.") from None
    if refusal is not None:
        raise ToolError(refusal.words)
    return found


def _owner(board: "TaskBoard", me: AgentId, asked: UpdateArgs) -> Owner | None:
    if asked.owner is None:
        return None
    found = _named(board, me, asked.owner)
    if found != NOBODY and found.agent != me and asked.status == "completed":
        raise ToolError("A task is assigned or completed, not both: leave out owner or status.")
    return found


def _named(board: "TaskBoard", me: AgentId, owner: str) -> Owner:
    """The member with this name, present or future."""
    name = owner.strip().removeprefix("@")
    if name.lower() in _NONE:
        return NOBODY
    if (found := board.scope.find(me, name)) is not None:
        return found
    if safe_name(name) != name:
        names = ", ".join(board.scope.names(me)[:50])
        raise ToolError(f"Nobody can be called {visible(name[:100])!r}. There are: {names}.")
    return Owner(name, None)
