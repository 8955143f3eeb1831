"""Land: says that a branch is ready, shows the landing queue, and for the lead runs it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from teamwright.core.data.landing import LandDraft, LandEntry, LandId, task_words
from teamwright.core.data.message import Text
from teamwright.core.data.tasks import TaskId
from teamwright.core.errors import ToolError
from teamwright.core.ids import SessionId
from teamwright.core.ports import Outcome, ToolContext
from teamwright.runtime.services import services_of
from teamwright.runtime.tool_traits import Args, ToolTraits
from teamwright.tools.bounds import visible
from teamwright.tools.define import read_args, spec

if TYPE_CHECKING:
    from teamwright.runtime.landing.plan import LandEnd
    from teamwright.runtime.services import Services

RUN = "run"
SHOWN = 30  # newest entries


class LandArgs(Struct, frozen=True):
    action: Annotated[
        Literal["ready", "list", "run", "give_up"], Meta(description="run and give_up are the lead's")
    ] = "ready"
    branch: Annotated[str, Meta(description="Default: the one that you work on")] = ""
    task: Annotated[str, Meta(description="The id of the task that it is for; default: yours")] = ""
    priority: Annotated[int, Meta(description="The higher, the sooner", ge=-1000, le=1000)] = 0


def _action(args: Args) -> str:
    return str(args.get("action") or "ready")


def _moves(action: str) -> bool:
    return action == RUN


def _about(args: Args) -> str:
    return f"{_action(args)} {args.get('branch') or ''}".strip()


class LandTool:
    spec = spec(
        "Land",
        "The landing queue: finished branches are merged one at a time on a fresh copy of the target, checked there by "
        "the project's own command, and land only if that passes: use it in place of git merge. `ready`: your branch "
        "is committed and finished; what does not land comes back to you as a message with the output. `list` shows "
        "the queue; `run` lands what waits, and says what became of each.",
        LandArgs,
    )
    traits = ToolTraits(
        name=spec.name,
        needed_by=frozenset({"coordinator", "teammate"}),
        detail=_action,
        own=True,
        weighty=_moves,
        subject=_about,
    )

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        asked, services = read_args(LandArgs, args), services_of(ctx)
        match asked.action:
            case "ready":
                return await _ready(services, asked, ctx)
            case "run":
                _require_lead(services, ctx)
                return await _run(services, ctx)
            case "give_up":
                _require_lead(services, ctx)
                return await _give_up(services, asked)
            case "list":
                return _told(await services.landing.entries(), "The landing queue is empty.")


def _require_lead(services: "Services", ctx: ToolContext) -> None:
    main, scope = services.supervisor.main, services.board.scope
    if ctx.agent != main.id or scope.actor(ctx.agent).lead is False:
        raise ToolError("Only the lead runs the queue. Say that your branch is ready, and the lead is told.")


async def _ready(services: "Services", asked: LandArgs, ctx: ToolContext) -> Outcome:
    from teamwright.host.git.worktrees.listing import branch_here  # noqa: PLC0415
    from teamwright.runtime.landing.queueing import task_of  # noqa: PLC0415

    scope = services.board.scope
    branch = asked.branch or await branch_here(ctx.desk.cwd)
    if not branch:
        raise ToolError("HEAD is detached here. Name the branch that is ready.")
    list, me = scope.list_of(ctx.agent), scope.actor(ctx.agent)
    listing = await services.board.listing(ctx.agent)
    task = _task_id(asked.task) if asked.task else task_of(listing.tasks, ctx.agent)
    if task is not None and task not in {one.id for one in listing.tasks}:
        raise ToolError(f"There is no task #{task}. TaskList shows those that there are.")
    member = services.teams.member_of(ctx.agent)
    draft = LandDraft(
        "",
        "",
        branch,
        "",
        "",
        owner=me.name,
        agent=ctx.agent,
        session=SessionId(services.agents.session),
        team=member.team if member else "",
        list=list,
        task=task,
        priority=asked.priority,
    )
    entry = await services.landing.queue(draft)
    if member is not None and not member.is_lead:
        await services.teams.wakeups.ring_lead(member.team)
    words = f"{entry.draft.branch} at {entry.draft.tip[:12]} waits to land on {entry.draft.target} (number {entry.id})."
    after = (
        " Land with action `run` lands it." if me.lead else " Whoever leads lands it; you hear of it only if it fails."
    )
    return Outcome((Text(visible(words + after)),), _record(entry))


def _task_id(text: str) -> TaskId:
    bare = text.removeprefix("#")
    if not bare.isdecimal():
        raise ToolError(f"`{text[:40]}` is no id of a task: give its number.")
    return TaskId(int(bare))


async def _run(services: "Services", ctx: ToolContext) -> Outcome:
    me = services.supervisor.agent(ctx.agent)
    assert me is not None
    async with me.slot.waiting():
        end = await services.landing.run()
    return _ended(end)


def _ended(end: "LandEnd") -> Outcome:
    lines = [_line(entry) for entry in end.done] or ["Nothing landed."]
    lines += [f"number {id} waits: {why}" for id, why in end.held.items()]
    if end.blocked:
        lines.append(f"The queue stopped, and the rest waits: {end.blocked}.")
    data = {"entries": [_record(entry) for entry in end.done], "blocked": end.blocked or None}
    return Outcome((Text(visible("\n".join(lines))),), data)


async def _give_up(services: "Services", asked: LandArgs) -> Outcome:
    entries = [e for e in await services.landing.entries() if e.draft.branch == asked.branch]
    if not entries:
        raise ToolError("Name a `branch` that is in the queue; action `list` shows it.")
    done = await services.landing.give_up(LandId(entries[-1].id), "the lead gave it up")
    return _told([done], "")


def _told(entries: Sequence[LandEntry], nothing: str) -> Outcome:
    lines = [_line(entry) for entry in entries[-SHOWN:]] or [nothing]
    return Outcome((Text(visible("\n".join(lines))),), {"entries": [_record(entry) for entry in entries[-SHOWN:]]})


def _line(entry: LandEntry) -> str:
    draft = entry.draft
    who = " ".join(part for part in (draft.owner, task_words(draft)) if part)
    what = (
        f"{entry.id}. {draft.branch}{f' ({who})' if who else ''} onto {draft.target}: {entry.state.replace('_', ' ')}"
    )
    return f"{what} ({entry.reason})" if entry.reason else what


def _record(entry: LandEntry) -> dict[str, Any]:
    draft = entry.draft
    return {
        "id": entry.id,
        "branch": draft.branch,
        "target": draft.target,
        "state": entry.state,
        "reason": entry.reason,
        "commit": entry.commit or None,
    }
