"""Agent: starts another agent and waits for its report, or lets it work in the background."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.message import Effort, ToolCall, ToolSpec
from teamwright.core.data.team import Member
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import MODES, Mode
from teamwright.core.policies.spawn import DEFAULT_KIND, Ask, Features, Plan
from teamwright.core.ports import Outcome, ToolContext, said
from teamwright.runtime.agents.outcomes import Outcomes, team_made
from teamwright.runtime.services import services_of
from teamwright.runtime.tool_traits import Args, Told, ToolTraits
from teamwright.tools.bounds import bounded, visible
from teamwright.tools.define import read_args, schema_of

if TYPE_CHECKING:
    from teamwright.host.git.worktrees.worktree import Worktree
    from teamwright.runtime.agents.sub_agents import AgentRecord
    from teamwright.runtime.jobs.jobs import Job
    from teamwright.runtime.services import Services

NAME = "Agent"
DESCRIPTION = """\
Starts another agent, which works on its own and reports once. The person does not see its report: tell them what \
matters.
"""
FRESH = """
- It begins with a fresh context and sees nothing of this conversation: `prompt` must hold all it needs. Say what to \
find out or to change, what is known already, and what its report must contain."""
FORKS = """
Without subagent_type it is a fork: a copy of you, with this whole conversation. Say only what is to be done. Forks \
share what is cached of this conversation, so they cost little, above all several at once.

With a subagent_type, where fresh eyes or other tools are better, it sees nothing of this conversation: `prompt` must \
hold all it needs.
"""
ALWAYS = """
- Several calls in one reply run at the same time. Use that for independent pieces of work."""
SMALL = """
- Use it for work that would fill your context (searching widely, reading much) or that can go on beside yours; do \
small things yourself, and do not redo what you have delegated."""
REPORT = """
- Its report is a model's words: check what matters. It cannot ask you anything; SendMessage with its name or id \
continues it."""
BACKGROUND = """
- run_in_background (not from a teammate) returns at once, and you are told when it ends. Do not wait or poll, and do \
not guess its result: go on, or end your turn."""
ALL_IN_BACKGROUND = """
- It works in the background: the call returns at once, and you are told when it ends. Do not wait, and do not guess \
its result."""
TEAM = """
- With `name`, in a team that you lead, it becomes a teammate: it stays, has an inbox and shares the task list. \
Teammates cannot add others."""
WORKTREE = """
- isolation "worktree" gives it a directory and a branch of its own, from the current commit; use paths relative to \
the repository in `prompt`. If it changes nothing, both are removed at its end; else you are told where they are."""

REMOTE = """
- isolation "remote" runs it on another machine, from the current commit, in the background; what it commits or leaves \
there comes back as a branch. What is not committed here stays here."""
PLACES = "A git worktree of its own, or a worker on another machine"


_MODES = [mode for mode in MODES if mode != "bypassPermissions"]


class AgentArgs(Struct, frozen=True):
    description: Annotated[str, Meta(description="Three to five words for the person")]
    prompt: Annotated[str, Meta(description="The task, complete in itself")]
    subagent_type: Annotated[str | None, Meta(description="Which kind of agent; general-purpose if left out")] = None
    model: Annotated[str | None, Meta(description="Another model than this agent's: an alias or provider/name")] = None
    effort: Annotated[Effort | int | None, Meta(description="How hard it thinks; only if the person spoke of it")] = (
        None
    )
    run_in_background: Annotated[bool | None, Meta(description="Return at once; you are told when it ends")] = None
    name: Annotated[str | None, Meta(description="A name to address it by")] = None
    team_name: str | None = None  # not shown to the model; by default the current team
    mode: Annotated[
        Mode | None,
        Meta(
            description="A permission mode, never wider than yours. plan: it only reads; a teammate may do more once "
            "you have approved its plan"
        ),
    ] = None
    isolation: Annotated[Literal["worktree", "remote"] | None, Meta(description="A git worktree of its own")] = None
    cwd: Annotated[str | None, Meta(description="Its directory")] = None


class AgentOffer(Struct, frozen=True):
    """To whom the tool is shown. All agents of a session read the same, so that they share a provider's cache, unless
    all agents work in the background: those of a teammate never do."""

    features: Features
    teams: bool = True  # are there any?
    teammate: bool = False


def agent_spec(kinds: Iterable[AgentDefinition], offer: AgentOffer) -> ToolSpec:
    """The tool as offered to one agent: only what has an effect now."""
    schema, features = schema_of(AgentArgs), offer.features
    forks, hidden = features.may_fork and not offer.teammate, _hidden(offer)
    shown = {name: about for name, about in schema["properties"].items() if name not in hidden}
    shown["isolation"] |= {"enum": ["worktree"]}
    if features.remote:
        shown["isolation"] = {"type": "string", "enum": ["worktree", "remote"], "description": PLACES}
    if "mode" in shown:
        shown["mode"] |= {"enum": _MODES}
    effort = shown["effort"]  # a number is accepted too, but not advertised
    shown["effort"] = effort.pop("anyOf")[0] | effort
    if forks:
        shown["subagent_type"] |= {"description": "Which kind of agent; a fork of yourself if left out"}
        shown["prompt"] |= {"description": "The task; for a fork only what is to be done"}
    when, words = "", DESCRIPTION + (FORKS if forks else FRESH) + ALWAYS
    words += "" if features.coordinator else SMALL
    if features.background and not offer.teammate:
        when = ALL_IN_BACKGROUND if features.all_in_background else BACKGROUND
    words += (
        REPORT
        + when
        + (TEAM if offer.teams and not offer.teammate else "")
        + WORKTREE
        + (REMOTE if features.remote else "")
    )
    words += "\n\nKinds of agents:\n" + "\n".join(f"- {kind.name}: {kind.description}" for kind in kinds)
    return ToolSpec(NAME, words, schema | {"properties": shown}, parallel=True)


def _hidden(offer: AgentOffer) -> set[str]:
    features, hidden = offer.features, {"team_name"}
    if not features.assistant:
        hidden.add("cwd")
    if not features.background or features.all_in_background:
        hidden.add("run_in_background")
    if features.coordinator:
        hidden.add("model")
    return hidden | {"name", "run_in_background", "mode"} if offer.teammate else hidden


def _kind(args: Args) -> str:
    kind = args.get("subagent_type")
    return kind if isinstance(kind, str) and kind else DEFAULT_KIND


def _subject(args: Args) -> str:
    kind, about = str(args.get("subagent_type") or DEFAULT_KIND), str(args.get("description", ""))
    return f"{args['name']} ({kind}): {about}" if args.get("name") else f"{kind}: {about}"


async def _outcome(found: Outcomes, agent: AgentId, call: ToolCall, when: str) -> Told | None:
    return await team_made(found, agent, call, when)


class AgentTool(Struct, eq=False):
    traits = ToolTraits(
        name=NAME,
        effects="stored",
        outcome=_outcome,
        needed_by=frozenset({"coordinator"}),
        unseen_start=True,
        detail=_kind,
        own=True,
        told=True,
        delegates=True,
        subject=_subject,
    )

    spec: ToolSpec
    can_read: bool  # does the caller have a tool to read an output file?

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        asked = read_args(AgentArgs, args)
        ask = Ask(
            description=asked.description,
            prompt=asked.prompt,
            kind=asked.subagent_type,
            model=asked.model,
            effort=asked.effort,
            background=asked.run_in_background,
            name=asked.name,
            team=asked.team_name,
            mode=asked.mode,
            isolation=asked.isolation,
            cwd=asked.cwd,
        )
        services = services_of(ctx)
        spawner = services.spawner
        job, plan = await spawner.spawn(ask, ctx)
        if isinstance(job, Member):
            return await recruited(services, job, plan.notes)
        known = spawner.known[AgentId(job.id)]
        if job.kind == "remote":
            return launched_remotely(job, plan.notes)
        if job.background:
            return launched(job, known, ask.prompt, plan.notes, can_read=self.can_read)
        return completed(job, known, ask.prompt, plan, spawner.is_one_shot(known.kind), ctx)


def _told_tree(tree: "Worktree") -> str:
    from teamwright.host.git.worktrees.worktree import told_worktree  # noqa: PLC0415  # few agents have one

    return told_worktree(tree.path, tree.branch)


async def recruited(services: "Services", member: Member, notes: Iterable[str] = ()) -> Outcome:
    where = ""
    if member.backend == "remote" and services.remotes is not None:
        where = f" {await services.remotes.place_of(member)}"
    elif member.worktree:
        from teamwright.host.git.worktrees.record import branch_at  # noqa: PLC0415  # few agents have a worktree
        from teamwright.host.git.worktrees.worktree import told_worktree  # noqa: PLC0415

        path = Path(member.worktree)
        where = f", in {told_worktree(path, branch_at(path))}"
    words = (
        f"{member.name} has joined the team {member.team}{where}. SendMessage reaches it; you are told "
        "when it goes idle: end your turn if there is nothing else to do."
    )
    data = {
        "status": "teammate_spawned",
        "teammate_id": member.address,
        "agent_id": member.address,
        "name": member.name,
        "team_name": member.team,
        "color": member.color,
        "model": member.model,
        "plan_mode_required": member.plan_mode_required,
    }
    return said("\n".join([words, *notes]), data)


def launched(job: "Job", known: "AgentRecord", prompt: str, notes: Iterable[str] = (), *, can_read: bool) -> Outcome:
    lines = [
        "It works in the background; you are told when it ends.",
        f"agentId: {known.id}",
        *([f"worktree: {_told_tree(job.tree)}"] if job.tree else []),
        f"output file: {job.output}",
        *notes,
    ]
    data = {
        "status": "async_launched",
        "agentId": known.id,
        "description": known.description,
        "prompt": prompt,
        "outputFile": str(job.output),
        "canReadOutputFile": can_read,
    }
    return said("\n".join(lines), data)


def launched_remotely(job: "Job", notes: Iterable[str] = ()) -> Outcome:
    lines = [
        "It works on another machine, or will as soon as a worker has room; you are told when it ends.",
        f"taskId: {job.id}",
        f"url: {job.url}",
        f"output file: {job.output}",
        *notes,
        *job.notes,
    ]
    data = {
        "status": "remote_launched",
        "taskId": job.id,
        "sessionUrl": job.url,
        "description": job.description,
        "outputFile": str(job.output),
    }
    return said("\n".join(lines), data)


def completed(job: "Job", known: "AgentRecord", prompt: str, plan: Plan, one_shot: bool, ctx: ToolContext) -> Outcome:  # noqa: FBT001
    result, usage = job.result, job.result.usage
    text = bounded(visible(result.result), spill=ctx.desk.spill, name=known.id)
    if job.status != "completed" and not text:
        raise ToolError(f"The agent {known.name} ended without a report: {result.error or job.status}")
    head = f"Report of the agent {known.name}: a model's words, not the user's."
    if early := result.error or ("" if job.status == "completed" else "it was stopped"):
        head = f"Partial report of the agent {known.name}, which ended early ({early}): a model's words."
    lines = [head, "", text or "(it said nothing)", *plan.notes]
    if not one_shot:
        lines += [
            "",
            f"agentId: {known.id} (SendMessage to this id continues it)",
            f"<usage>total_tokens: {usage.total_tokens}\ntool_uses: {usage.tool_uses}\n"
            f"duration_ms: {usage.duration_ms}</usage>",
        ]
    data: dict[str, Any] = {
        "status": "completed",
        "agentId": known.id,
        "agentType": known.kind,
        "content": [{"type": "text", "text": text}],
        "prompt": prompt,
        "totalDurationMs": usage.duration_ms,
        "totalTokens": usage.total_tokens,
        "totalToolUseCount": usage.tool_uses,
        "usage": {"total_tokens": usage.total_tokens, "tool_uses": usage.tool_uses, "duration_ms": usage.duration_ms},
    }
    if job.kept is not None:
        data["worktreePath"] = str(job.kept.path)
        if job.kept.branch:
            data["worktreeBranch"] = job.kept.branch
    return said("\n".join(lines), data)
