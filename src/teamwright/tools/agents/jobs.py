"""Background jobs: reads their output, waits for them, stops them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import anyio
from msgspec import Meta, Struct

from teamwright.core.data.message import ToolCall
from teamwright.core.data.team import Member, split_address
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId
from teamwright.core.ports import Outcome, ToolContext, said
from teamwright.runtime.agents.outcomes import CRASH, Outcomes
from teamwright.runtime.services import services_of
from teamwright.runtime.tool_traits import Told, ToolTraits
from teamwright.tools.bounds import bounded, visible
from teamwright.tools.define import read_args, spec

if TYPE_CHECKING:
    from teamwright.runtime.jobs.jobs import Job
    from teamwright.runtime.services import Services

MOST_MS = 600_000
CLEAN_UP = 10.0  # seconds for git to report what a stopped agent leaves behind
TYPES = {"agent": "local_agent", "shell": "local_bash", "monitor": "local_bash", "remote": "remote_agent"}


class OutputArgs(Struct, frozen=True):
    task_id: Annotated[str, Meta(description="The id of the job: an agent's id, or a command's")]
    block: Annotated[bool, Meta(description="Wait for its end")] = True
    timeout: Annotated[int, Meta(description="Milliseconds to wait at most", ge=0, le=MOST_MS)] = 30_000


class TaskOutput:
    spec = spec(
        "TaskOutput",
        "Returns what a background job has said or printed; by default it waits until the job ends. You are told of "
        "every end anyway, so go on with other work instead. To look at the output of a running job, Read its output "
        "file. Not for the task list: that is TaskGet.",
        OutputArgs,
        parallel=True,
    )
    traits = ToolTraits(name=spec.name, effects="none", needed_by=frozenset({"coordinator"}), own=True)

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        from teamwright.host.files.tail import read_tail  # noqa: PLC0415

        asked = read_args(OutputArgs, args)
        services = services_of(ctx)
        supervisor = services.supervisor
        if supervisor.jobs.get(asked.task_id) is None and (member := find_mate(services, ctx, asked.task_id)):
            await services.teams.roster.refresh(member.team)  # it may have gone idle just now
            return _report_mate(
                find_mate(services, ctx, asked.task_id) or member, await services.teams.last_words(member)
            )
        job = find_job(services, ctx, asked.task_id)
        if asked.block and job.status == "running":
            me = supervisor.agent(ctx.agent)
            assert me is not None
            async with me.slot.waiting():
                with anyio.move_on_after(asked.timeout / 1000):
                    await job.ended.wait()
        if job.status == "running":
            status = "timeout" if asked.block else "not_ready"
            return _report(job, status, read_tail(job.output))
        if asked.block and job.owner == ctx.agent:
            await supervisor.claim(job, ctx.call_id)
        text = job.result.result if job.kind in ("agent", "remote") else read_tail(job.output)
        if job.tree is not None and not job.closed.is_set():  # nobody waits for git here, and no letter will report it
            text += f"\n\nIf anything was changed, its worktree is kept: {job.tree.path} (branch {job.tree.branch})"
        return _report(job, "success", text)


def find_mate(services: "Services", ctx: ToolContext, id: str) -> Member | None:
    """The teammate beside the caller that has this name, address or id."""
    if (teams := services.open_teams) is None or (me := teams.roster.member_beside(ctx.agent, id)) is None:
        return None
    member = teams.roster.find(me.team, id)
    return None if member is None or member.is_lead else member


def find_job(services: "Services", ctx: ToolContext, id: str) -> "Job":
    jobs = services.supervisor.jobs
    if (job := jobs.get(id)) is not None:
        return job
    if (member := find_mate(services, ctx, id)) is not None:
        raise ToolError(f"{id} is a teammate: its id is {member.address}.")
    known = f"Jobs of this session: {', '.join(j.id for j in jobs.all()[-20:]) or 'none'}."
    teams, number = services.open_teams, id.removeprefix("#")
    if teams is not None and (mates := ", ".join(m.address for m in teams.mates())):
        known += f" Teammates: {mates}."
    if number.isdecimal():
        raise ToolError(f"#{number} is a number of the task list, which TaskGet and TaskUpdate take. {known}")
    raise ToolError(f"There is no job {id!r}. {known}")


def _report_mate(member: Member, words: str) -> Outcome:
    shown = bounded(visible(words))
    task = {"task_id": member.address, "task_type": "teammate", "status": member.state, "output": shown}
    head = f"{member.address} ({member.description}): {member.state}. Its last words:"
    return said(f"{head}\n\n{shown or '(none yet)'}", {"retrieval_status": "success", "task": task})


def _report(job: "Job", status: str, output: str) -> Outcome:
    shown = bounded(visible(output), file=job.output)
    task: dict[str, Any] = {
        "task_id": job.id,
        "task_type": TYPES[job.kind],
        "status": job.status,
        "description": job.description,
        "output": shown,
    }
    if job.kind == "agent" and job.status != "running":
        task["result"] = shown
    if job.result.error:
        task["error"] = job.result.error
    if job.result.exit_code is not None:
        task["exitCode"] = job.result.exit_code
    head = f"{job.id} ({job.description}): {job.status}"
    lines = [head, *([f"error: {job.result.error}"] if job.result.error else []), "", shown or "(no output yet)"]
    return said("\n".join(lines), {"retrieval_status": status, "task": task})


class StopArgs(Struct, frozen=True):
    task_id: Annotated[str | None, Meta(description="The id of the job to stop")] = None
    shell_id: Annotated[str | None, Meta(description="The same, under its older name")] = None


async def _stopped(found: Outcomes, _agent: AgentId, call: ToolCall, when: str) -> Told | None:
    """What a stop achieved, judged by the state of its target."""
    id = str(call.args.get("task_id") or call.args.get("shell_id") or "")
    name, team = split_address(id)
    if not team or found.books is None:
        status = found.status(id) or ("killed" if when == CRASH else "")
        return (f"{id} is {status}.", status == "running") if status else None
    roster = found.books.teams
    named = [m for m in await roster.members(team) if m.name.casefold() == name.casefold()]
    if not named or named[-1].state == "shutdown":
        return f"{id} has shut down.", False
    return f"{when.capitalize()} before {id} was stopped: it is {named[-1].state}. Call it again if needed.", True


class TaskStop:
    spec = spec(
        "TaskStop",
        "Stops a running background job: an agent, a command or a monitor; or, as name@team, a teammate. Not for the "
        "task list.",
        StopArgs,
        unseen=("shell_id",),
    )
    traits = ToolTraits(
        name=spec.name, effects="stored", outcome=_stopped, needed_by=frozenset({"coordinator"}), own=True
    )

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        asked = read_args(StopArgs, args)
        id = asked.task_id or asked.shell_id
        if not id:
            raise ToolError("Say which job: task_id.")
        services = services_of(ctx)
        supervisor = services.supervisor
        if "@" in id and (agent := supervisor.agent(ctx.agent)) is not None:
            member = await services.teams.stop(agent, id)
            message = f"Stopped {member.address}: it has shut down."
            return said(message, {"message": message, "task_id": id, "task_type": "teammate"})
        job = find_job(services, ctx, id)
        if not await supervisor.stop(job):
            raise ToolError(f"{id} is not running: it is {job.status}.")
        if job.owner == ctx.agent and job.kind != "remote":  # any other owner still needs the notice
            await supervisor.claim(job, ctx.call_id)
        if job.tree is not None:  # the end of its result says what was kept
            with anyio.move_on_after(CLEAN_UP):
                await job.closed.wait()
        partial = f"\nWhat it had said:\n{bounded(visible(job.result.result))}" if job.result.result else ""
        message = f"Stopped {id} ({job.description})."
        return said(message + partial, {"message": message, "task_id": id, "task_type": TYPES[job.kind]})
