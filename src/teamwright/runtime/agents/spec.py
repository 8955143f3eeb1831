"""Description of an agent to be made: its identity, its limits and its origin."""

from collections.abc import Mapping

from msgspec import Struct

from teamwright import __version__
from teamwright.core.data.event import AgentStarted, Source
from teamwright.core.data.message import Effort, ToolSpec
from teamwright.core.ids import AgentId, CallId, SessionId
from teamwright.core.permissions.consent import Mode
from teamwright.core.ports import Desk, Tool
from teamwright.runtime.agents.limits.meter import AgentMeter
from teamwright.runtime.agents.plan_mode import Approver


class RenderedPrompt(Struct, frozen=True):
    """System prompt and tools as rendered. Every request contains these same objects, so they are encoded once."""

    hash: str
    system: tuple[str, ...]
    tools: tuple[ToolSpec, ...]


class Toolset(Struct, frozen=True):
    """The tools of one agent: all that answer, those that the model is shown, and patterns that limit their use.

    `denied` are rules, such as `Bash(git push *)`: uses that its definition takes away.
    """

    tools: Mapping[str, Tool]
    specs: tuple[ToolSpec, ...]
    limits: Mapping[str, tuple[str, ...]] = {}
    may_start: tuple[str, ...] | None = None
    denied: tuple[str, ...] = ()


class AgentSpec(Struct, frozen=True, kw_only=True):
    """Describes a main agent, sub-agent, fork or teammate."""

    id: AgentId
    name: str
    kind: str
    model: str
    effort: Effort | int | None
    toolset: Toolset
    desk: Desk
    mode: Mode | None  # its own; None: its parent's
    meter: AgentMeter
    parent: AgentId | None = None
    depth: int = 0
    description: str = ""
    call: CallId | None = None  # the tool call that starts it
    worktree: str = ""  # its own directory, if it has one
    source: Source | None = None  # where a fork branches off
    team: str = ""  # for a teammate
    approver: Approver = "nobody"  # who approves its plans


def started(spec: AgentSpec, session: SessionId, where: str) -> AgentStarted:
    """The first line of its transcript."""
    return AgentStarted(
        session,
        str(spec.desk.cwd),
        __version__,
        kind=spec.kind,
        name=spec.name,
        parent=spec.parent,
        depth=spec.depth,
        call_id=spec.call,
        description=spec.description,
        worktree=spec.worktree,
        limits=dict(spec.toolset.limits),
        may_start=spec.toolset.may_start,
        denied=spec.toolset.denied,
        source=spec.source,
        team=spec.team,
        where=where,
    )
