"""Shared task lists as values: tasks, their dependencies and who may change them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NewType

import msgspec
from msgspec import Struct

from teamwright.core.ids import AgentId, LetterId

TaskId = NewType("TaskId", int)  # counts up within its list; a string of digits on the wire
Status = Literal["pending", "in_progress", "completed"]
Code = Literal["task_not_found", "already_claimed", "already_resolved", "blocked", "cycle", "list_full", "too_large"]
Edge = tuple[TaskId, TaskId]  # (blocker, blocked)

MOST_TASKS = 10_000  # per list
MOST_METADATA = 16 * 1024  # bytes per task, as JSON


class Owner(Struct, frozen=True):
    """Without `agent`, a name that nobody has yet: the task is reserved for the one who joins under it."""

    name: str
    agent: AgentId | None


NOBODY = Owner("", None)


class Task(Struct, frozen=True):
    """`agent` is the incarnation that owns the task. `epoch` grows with every change of owner; `former` are past
    owners.

    Agents in `given_back` had the task and returned it. It is not offered to them automatically until somebody else
    changes it.
    """

    id: TaskId
    subject: str
    description: str = ""
    status: Status = "pending"
    owner: str | None = None
    agent: AgentId | None = None
    epoch: int = 0
    former: tuple[AgentId, ...] = ()
    active_form: str = ""
    metadata: Mapping[str, Any] = {}
    blocked_by: tuple[TaskId, ...] = ()  # open tasks only
    blocks: tuple[TaskId, ...] = ()
    created: int = 0  # milliseconds since 1970
    updated: int = 0
    author: str = ""  # display name; empty if unknown
    maker: AgentId = AgentId("")  # the author's id
    given_back: tuple[AgentId, ...] = ()
    assigner: str = ""  # who gave it to its owner; empty if the owner claimed it


def claim_id(list: str, task: Task) -> LetterId:
    """Id of the letter that tells a teammate about a task claimed for it."""
    return LetterId(f"k-{list}-{task.id}-{task.epoch}")


def claimed_in(list: str, letter: LetterId) -> TaskId | None:
    """The task that a letter with such an id tells of."""
    id = letter.removeprefix(f"k-{list}-").rpartition("-")[0]
    return TaskId(int(id)) if letter.startswith(f"k-{list}-") and id.isdecimal() else None


class Draft(Struct, frozen=True):
    """A task to be created."""

    subject: str
    description: str = ""
    active_form: str = ""
    metadata: Mapping[str, Any] = {}
    blocks: tuple[TaskId, ...] = ()
    blocked_by: tuple[TaskId, ...] = ()


class Change(Struct, frozen=True):
    """A requested change; None keeps a field. `metadata` keys are merged, null removes one."""

    subject: str | None = None
    description: str | None = None
    active_form: str | None = None
    metadata: Mapping[str, Any] | None = None
    status: Status | Literal["deleted"] | None = None
    owner: Owner | None = None
    add_blocks: tuple[TaskId, ...] = ()
    add_blocked_by: tuple[TaskId, ...] = ()


class Actor(Struct, frozen=True):
    """Who asks. The lead may also change tasks of others."""

    agent: AgentId
    name: str
    lead: bool = False


class Hold(Struct, frozen=True):
    """The part of a task that agents contend for."""

    status: Status
    owner: str | None = None
    agent: AgentId | None = None


class Refusal(Struct, frozen=True):
    """A lost race or a rule that says no: a value, not an error."""

    code: Code
    words: str

    def __str__(self) -> str:
        return f"{self.code}: {self.words}"


class Done(Struct, frozen=True):
    """The effect of a change. `touched` are all tasks that changed, `freed` those that are no longer blocked."""

    id: TaskId
    task: Task | None  # None: deleted
    before: Task | None = None
    touched: tuple[TaskId, ...] = ()
    freed: tuple[Task, ...] = ()
    repeated: bool = False  # the same call was already applied, so nothing changed now

    @property
    def changed_hands(self) -> bool:
        was = self.before.agent if self.before else None
        return self.task is not None and self.task.agent != was

    @property
    def claimed(self) -> bool:
        """Did its owner start work on it by this change?"""
        begun = self.before is None or self.before.status != "in_progress" or self.changed_hands
        return self.task is not None and self.task.status == "in_progress" and begun

    @property
    def completed(self) -> bool:
        was = self.before is not None and self.before.status == "completed"
        return self.task is not None and self.task.status == "completed" and not was

    @property
    def claimable(self) -> bool:
        """Did this change make a task claimable that was not before, for anybody or for one agent?"""
        if any(is_claimable(task) for task in self.freed):
            return True
        task, before = self.task, self.before
        if task is None or not is_claimable(task):
            return False
        same = before is not None and (before.owner, before.given_back) == (task.owner, task.given_back)
        return before is None or not is_claimable(before) or not same

    def to_tell(self, by: Actor) -> list[Task]:
        """Tasks whose owners must be told: just given to them, or already theirs and no longer blocked."""
        freed = [task for task in self.freed if task.agent is not None and task.status == "pending"]
        task = self.task
        if task is None or not self.changed_hands or task.agent in (None, by.agent) or task.blocked_by:
            return freed
        return [task, *freed]


def is_claimable(task: Task) -> bool:
    """Claimable by anybody, or by the one it is reserved for."""
    return task.status == "pending" and task.agent is None and not task.blocked_by


def is_kept_for(task: Task, name: str) -> bool:
    """Is it reserved for an agent with this name, present or future?"""
    return task.agent is None and task.owner is not None and task.owner.casefold() == name.casefold()


def owns(task: Task, by: Actor) -> bool:
    return is_kept_for(task, by.name) if task.agent is None else task.agent == by.agent


def given_back(task: Task, ask: Change, hold: Hold, by: Actor) -> tuple[AgentId, ...]:
    """The agents to whom the task is no longer offered automatically. One that gave it back stays among them even if it
    then edits the text."""
    left = task.agent == by.agent and hold.agent != by.agent and hold.status == "pending"
    kept = (*task.given_back, by.agent) if left else task.given_back
    told = Change(status=ask.status, owner=ask.owner)
    if ask != told and by.agent not in kept:
        kept = ()
    return tuple(agent for agent in dict.fromkeys(kept) if agent != hold.agent)


def not_found(id: int) -> Refusal:
    return Refusal("task_not_found", f"there is no task #{id}. TaskList shows those that there are.")


def refuse_size(metadata: Mapping[str, Any]) -> Refusal | None:
    if (size := len(msgspec.json.encode(metadata))) > MOST_METADATA:
        return Refusal("too_large", f"metadata has {size:,} bytes as JSON; at most {MOST_METADATA:,} fit.")
    return None


def listed(ids: Iterable[int]) -> str:
    return ", ".join(f"#{id}" for id in ids)


# --- who may do what


def decide(task: Task, ask: Change, by: Actor, held: int | None = None) -> Hold | Refusal:
    """The new status and owner. `held` is the epoch under which the caller believes to own the task.

    `task.blocked_by` must already include what the change adds to it.
    """
    if ask.status == "deleted":
        return _refuse_others(task, by, held) or Hold(task.status, task.owner, task.agent)
    if ask.owner is None:
        return _set_status(task, ask.status, by, held)
    if ask.owner.agent is None:
        keep = _keep(task, ask.owner.name, by, held) if ask.owner.name else None
        return keep or _release(task, ask.status, by, held)
    if ask.owner.agent == by.agent:
        return _claim(task, ask.status, by)
    return _assign(task, ask.status, ask.owner, by, held)


def is_mine(task: Task, by: Actor, held: int | None) -> bool:
    """Does the task belong to the caller? A result under a past epoch is a former owner's, even if the agent's id
    matches."""
    if task.agent is None:
        return is_kept_for(task, by.name)
    return task.agent == by.agent and (held in (None, task.epoch) or task.status == "pending")


def _refuse_others(task: Task, by: Actor, held: int | None) -> Refusal | None:
    """Refuses a caller who is not the lead if the task belongs to somebody else."""
    if task.owner is None or by.lead or is_mine(task, by, held):
        return None
    if task.status == "completed":
        return _resolved(task)
    return _taken(task, by)


def refuse_wait(task: Task, by: Actor, held: int | None = None) -> Refusal | None:
    """Refuses to make this task wait for another unless the caller is the lead, its owner or its author."""
    if task.status == "completed" or task.maker == by.agent or _refuse_others(task, by, held) is None:
        return None
    words = f"#{task.id} belongs to {task.owner}, so it is not yours to hold up: ask {task.owner}, or the lead."
    return Refusal("already_claimed", words)


def _taken(task: Task, by: Actor) -> Refusal:
    words = f"#{task.id} belongs to {task.owner}."
    if task.agent is None:
        words = f"#{task.id} is kept for {task.owner}, who has not joined yet."
    elif task.agent == by.agent:
        words = f"#{task.id} was taken from you and claimed again since. Claim it anew to go on with it."
    elif by.agent in task.former:
        words += " It is not yours any more, so a late result is not taken."
    return Refusal("already_claimed", words)


def _resolved(task: Task) -> Refusal:
    return Refusal("already_resolved", f"#{task.id} is completed{f' by {task.owner}' if task.owner else ''}.")


def _blocked(task: Task) -> Refusal:
    return Refusal("blocked", f"#{task.id} waits for {listed(task.blocked_by)}: these must be completed first.")


def _claim(task: Task, status: Status | None, by: Actor) -> Hold | Refusal:
    own = task.agent == by.agent
    if task.status == "completed":
        return Hold("completed", task.owner, task.agent) if own and status == "completed" else _resolved(task)
    if not own and (task.agent is not None or _refuse_others(task, by, None)):
        return _taken(task, by)
    if task.blocked_by and not (own and task.status == "in_progress"):
        return _blocked(task)
    return Hold(status or "in_progress", by.name, by.agent)


def _assign(task: Task, status: Status | None, to: Owner, by: Actor, held: int | None) -> Hold | Refusal:
    """Gives the task to an agent. It stays pending: the new owner starts it by its own claim."""
    if task.agent == to.agent:
        return _set_status(task, status, by, held)
    if task.status == "completed":
        return _resolved(task)
    return _refuse_others(task, by, held) or Hold("pending", to.name, to.agent)


def _keep(task: Task, name: str, by: Actor, held: int | None) -> Hold | Refusal:
    """Reserves the task for a member who joins later."""
    if task.status == "completed":
        return _resolved(task)
    return _refuse_others(task, by, held) or Hold("pending", name)


def _release(task: Task, status: Status | None, by: Actor, held: int | None) -> Hold | Refusal:
    if refusal := _refuse_others(task, by, held):
        return refusal
    done = status == "completed" or (task.status == "completed" and status is None)
    return Hold("completed" if done else "pending")


def _set_status(task: Task, status: Status | None, by: Actor, held: int | None) -> Hold | Refusal:
    now = Hold(task.status, task.owner, task.agent)
    match status:
        case None:
            return now
        case "pending":
            if task.status == "pending" and task.agent != by.agent:
                return now
            return _refuse_others(task, by, held) or Hold("pending")  # given back: open to anybody
        case "in_progress":
            return _begin(task, by)
        case "completed":
            return _complete(task, by, held)


def _begin(task: Task, by: Actor) -> Hold | Refusal:
    if task.status == "completed":
        own = task.agent == by.agent
        return Hold("in_progress", task.owner or by.name, task.agent or by.agent) if own or by.lead else _resolved(task)
    if by.lead and task.agent is not None:
        return Hold("in_progress", task.owner, task.agent)
    return _claim(task, None, by)


def _complete(task: Task, by: Actor, held: int | None) -> Hold | Refusal:
    if refusal := _refuse_others(task, by, held):
        return refusal
    if task.status == "completed" or task.agent is not None:
        return Hold("completed", task.owner, task.agent)
    if not by.lead and by.agent in task.former:
        words = f"#{task.id} is not yours any more: it went back to the list. Claim it again before you complete it."
        return Refusal("already_claimed", words)
    if task.blocked_by and not by.lead:
        return _blocked(task)
    return Hold("completed", by.name, by.agent)


# --- dependencies


def find_cycle(new: Sequence[Edge], blocks_of: Callable[[TaskId], Iterable[TaskId]]) -> list[TaskId] | None:
    """A cycle that the new edges would close, with its first task repeated at the end.

    Completed tasks count: one that is reopened would block again.
    """
    added: dict[TaskId, list[TaskId]] = {}
    for before, after in new:
        added.setdefault(before, []).append(after)

    def next_of(at: TaskId) -> Iterable[TaskId]:
        return (*blocks_of(at), *added.get(at, ()))

    for before, after in new:
        path = _find_path(after, before, next_of)
        if path is not None:
            return [before, *path]
    return None


def _find_path(start: TaskId, goal: TaskId, next_of: Callable[[TaskId], Iterable[TaskId]]) -> list[TaskId] | None:
    came_from: dict[TaskId, TaskId | None] = {start: None}
    waiting = [start]
    while waiting:
        at = waiting.pop()
        if at == goal:
            return _trace(at, came_from)
        for id in next_of(at):
            if id not in came_from:
                came_from[id] = at
                waiting.append(id)
    return None


def _trace(end: TaskId, came_from: Mapping[TaskId, TaskId | None]) -> list[TaskId]:
    path, at = [end], came_from[end]
    while at is not None:
        path.append(at)
        at = came_from[at]
    return path[::-1]


def refuse_edges(
    new: Sequence[Edge], known: Collection[TaskId], blocks_of: Callable[[TaskId], Iterable[TaskId]]
) -> Refusal | None:
    """Refuses edges to missing tasks and edges that would close a cycle. `known` are the tasks that exist."""
    for edge in new:
        for id in edge:
            if id not in known:
                return not_found(id)
    if (circle := find_cycle(new, blocks_of)) is None:
        return None
    return Refusal("cycle", f"{' before '.join(f'#{id}' for id in circle)}: they would wait for each other for ever.")
