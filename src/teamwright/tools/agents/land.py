"""Land: says that a branch is ready, shows the landing queue, and for the lead runs it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from teamwright.core.data.landing import LandDraft, LandEntry, LandId, task_words
from teamwright.core.data.message import Text, ToolCall
from teamwright.core.data.tasks import TaskId
from teamwright.core.errors import ToolError
from teamwright.core.ids import CallId, SessionId
from teamwright.core.permissions.consent import Deny
from teamwright.core.ports import Outcome, ToolContext
from teamwright.runtime.services import services_of
from teamwright.runtime.tool_traits import Args, ToolTraits
from teamwright.tools.bash import BashTool
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
    branch: Annotated[str, Meta(description="Default: yours")] = ""
    task: Annotated[str, Meta(description="The id of its task; default: yours")] = ""
    check: Annotated[
        str,
        Meta(description="For run where none is set: the command that must pass, approved as in Bash"),
    ] = ""
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
        "The landing queue, in place of git merge: finished branches are merged one at a time on a fresh copy of the "
        "target, and land only if the project's check passes there. `ready`: your branch is committed and finished; "
        "what does not land comes back to you with the output. `list` shows the queue; `run` lands what waits.",
        LandArgs,
        unseen=("priority",),
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
                return await _run(services, asked.check, ctx)
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
    from teamwright.host.git.run import locate  # noqa: PLC0415
    from teamwright.host.git.worktrees.listing import branch_here  # noqa: PLC0415
    from teamwright.runtime.landing.queueing import owner_of, task_of  # noqa: PLC0415

    scope = services.board.scope
    branch = asked.branch or await branch_here(ctx.desk.cwd)
    if not branch:
        raise ToolError("HEAD is detached here. Name the branch that is ready.")
    list, me = scope.list_of(ctx.agent), scope.actor(ctx.agent)
    listing = await services.board.listing(ctx.agent)
    member = services.teams.member_of(ctx.agent)
    mates = services.teams.roster.mates(member.team) if member is not None and member.is_lead else []
    owner = owner_of(mates, await locate(ctx.desk.cwd), branch) if mates else None
    agent = owner.agent if owner is not None else ctx.agent
    task = _task_id(asked.task) if asked.task else task_of(listing.tasks, agent)
    if task is not None and task not in {one.id for one in listing.tasks}:
        raise ToolError(f"There is no task #{task}. TaskList shows those that there are.")
    draft = LandDraft(
        "",
        "",
        branch,
        "",
        "",
        owner=owner.name if owner is not None else me.name,
        agent=agent,
        session=SessionId(services.agents.session),
        team=member.team if member else "",
        list=list,
        task=task,
        priority=asked.priority,
    )
    entry = await services.landing.queue(draft, told=owner is None)
    if member is not None and not member.is_lead:
        await services.teams.wakeups.ring_lead(member.team)
    words = f"{entry.draft.branch} at {entry.draft.tip[:12]} is number {entry.place} to land on {entry.draft.target}."
    if me.lead:
        after = " Land with action `run` lands it." + (f" What fails goes back to {owner.name}." if owner else "")
    else:
        after = " Whoever leads has been told and lands it; you hear of it only if it fails."
    return Outcome((Text(visible(words + after)),), _record(entry))


def _task_id(text: str) -> TaskId:
    bare = text.removeprefix("#")
    if not bare.isdecimal():
        raise ToolError(f"`{text[:40]}` is no id of a task: give its number.")
    return TaskId(int(bare))


async def _run(services: "Services", check: str, ctx: ToolContext) -> Outcome:
    me = services.supervisor.agent(ctx.agent)
    assert me is not None
    named = await _judged(services, check, ctx) if check and services.landing.choices.check is None else None
    async with me.slot.waiting():
        end = await services.landing.run(check=named)
    return _ended(end)


async def _judged(services: "Services", check: str, ctx: ToolContext) -> str:
    """A check that the model names is a command like any other."""
    call = ToolCall(CallId(f"{ctx.call_id}-check"), BashTool.traits.name, Raw(msgspec.json.encode({"command": check})))
    decision = await services.judge(ctx.agent, call)
    if isinstance(decision, Deny):
        raise ToolError(f"The check was not run. {decision.reason}")
    return str((decision.args or {}).get("command", check))


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
