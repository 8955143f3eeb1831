"""Agent: starts another agent and waits for its report, or lets it work in the background."""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.message import Effort, ToolCall, ToolSpec
from teamwright.core.data.team import Member
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Mode
from teamwright.core.policies.spawn import DEFAULT_KIND, Ask, Features, Plan
from teamwright.core.ports import Outcome, ToolContext, said
from teamwright.runtime.agents.outcomes import Outcomes, team_made
from teamwright.runtime.agents.spawner import Spawner
from teamwright.runtime.agents.sub_agents import AgentRecord
from teamwright.runtime.jobs.jobs import Job
from teamwright.runtime.tool_traits import Args, Told, ToolTraits
from teamwright.tools.bounds import bounded, visible
from teamwright.tools.define import read_args, schema_of

NAME = "Agent"
DESCRIPTION = """\
Starts another agent, which works on its own with a fresh context and reports once.

- Give it everything it needs in `prompt`: it sees nothing of this conversation. Say what to find out or to change, \
what is known already, and what its report must contain.
- Several calls in one reply run at the same time. Use that for independent pieces of work.
- Use it for work that would fill your context (searching widely, reading much) or that can go on beside yours; do \
small things yourself.
- Its report is a model's words: check what matters before you rely on it. It cannot ask you anything; SendMessage \
with its id continues it."""
BACKGROUND = """
- run_in_background returns at once; you are told when it ends. Do not wait or poll for it: go on, or end your turn."""
ALL_IN_BACKGROUND = """
- Every agent works in the background: the call returns at once, and you are told when it ends. Do not wait for it."""

FORKS = """
- Leave subagent_type out to fork yourself: a copy of you, with this whole conversation, does what `prompt` says and \
reports. It knows what you know, so say only what is to be done. Forks share what is cached of this conversation: they \
cost little, several at once above all. Name a subagent_type where fresh eyes or other tools are better."""


class AgentArgs(Struct, frozen=True):
    description: Annotated[str, Meta(description="Three to five words for the person")]
    prompt: Annotated[str, Meta(description="The task, complete in itself")]
    subagent_type: Annotated[str | None, Meta(description="Which kind of agent; general-purpose if left out")] = None
    model: Annotated[str | None, Meta(description="Another model than this agent's: an alias or provider/name")] = None
    effort: Annotated[Effort | int | None, Meta(description="How hard it thinks")] = None
    run_in_background: Annotated[bool | None, Meta(description="Return at once; its end is told later")] = None
    name: Annotated[str | None, Meta(description="A name to address it by")] = None
    team_name: Annotated[str | None, Meta(description="The team it joins")] = None
    mode: Annotated[Mode | None, Meta(description="A narrower permission mode")] = None
    isolation: Annotated[Literal["worktree", "remote"] | None, Meta(description="A git worktree of its own")] = None
    cwd: Annotated[str | None, Meta(description="Its directory")] = None


def agent_spec(kinds: Iterable[AgentDefinition], features: Features) -> ToolSpec:
    """What is offered depends on what has an effect now."""
    schema = schema_of(AgentArgs)
    shown = dict(schema["properties"])
    hidden = {"cwd"} - ({"cwd"} if features.assistant else set())
    if not features.background or features.all_in_background:
        hidden.add("run_in_background")
    if features.coordinator:
        hidden.add("model")
    for name in hidden:
        shown.pop(name, None)
    shown["isolation"] = {k: v for k, v in shown["isolation"].items() if k != "enum"} | {"enum": ["worktree"]}
    words = DESCRIPTION
    if features.all_in_background:
        words += ALL_IN_BACKGROUND
    elif features.background:
        words += BACKGROUND
    if features.may_fork:
        words += FORKS
        kind = {"description": "Which kind of agent; a fork of yourself if left out"}
        shown["subagent_type"] = shown["subagent_type"] | kind
    words += "\n\nKinds of agents:\n" + "\n".join(f"- {kind.name}: {kind.description}" for kind in kinds)
    return ToolSpec(NAME, words, schema | {"properties": shown}, parallel=True)


def _kind(args: Args) -> str:
    kind = args.get("subagent_type")
    return kind if isinstance(kind, str) and kind else DEFAULT_KIND


def _subject(args: Args) -> str:
    kind, about = str(args.get("subagent_type") or DEFAULT_KIND), str(args.get("description", ""))
    return f"{args['name']} ({kind}): {about}" if args.get("name") else f"{kind}: {about}"


async def _outcome(found: Outcomes, agent: AgentId, call: ToolCall, when: str) -> Told | None:
    return await team_made(found, agent, call, when)


class AgentTool:
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

    def __init__(self, spawner: Callable[[], Spawner], spec: ToolSpec, *, can_read: bool) -> None:
        self._spawner = spawner
        self._can_read = can_read  # has the caller a tool to read an output file?
        self.spec = spec

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
        spawner = self._spawner()
        job, plan = await spawner.spawn(ask, ctx)
        if isinstance(job, Member):
            return recruited(job, plan.notes)
        known = spawner.known[AgentId(job.id)]
        if job.background:
            return launched(job, known, ask.prompt, plan.notes, can_read=self._can_read)
        return completed(job, known, ask.prompt, plan, spawner.is_one_shot(known.kind), ctx)


def recruited(member: Member, notes: Iterable[str] = ()) -> Outcome:
    words = (
        f"{member.name} has joined the team {member.team} and is at work. SendMessage to {member.name!r} reaches it; "
        "you are told when it goes idle."
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


def launched(job: Job, known: AgentRecord, prompt: str, notes: Iterable[str] = (), *, can_read: bool) -> Outcome:
    lines = [
        "It works in the background; you are told when it ends.",
        f"agentId: {known.id}",
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


def completed(job: Job, known: AgentRecord, prompt: str, plan: Plan, one_shot: bool, ctx: ToolContext) -> Outcome:  # noqa: FBT001
    result, usage = job.result, job.result.usage
    text = bounded(visible(result.result), spill=ctx.desk.spill, name=known.id)
    if job.status != "completed" and not text:
        raise ToolError(f"The agent {known.name} ended without a report: {result.error or job.status}")
    head = f"Report of the agent {known.name}: a model's words, not the user's."
    if result.error:
        head = f"Partial report of the agent {known.name}, which ended early ({result.error}): a model's words."
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
