"""The services of one process, through which its parts and its tools reach each other."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from teamwright.core.data.event import Event
from teamwright.core.data.message import Reply, Request, ToolCall
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId, CallId
from teamwright.core.loop import TurnContext
from teamwright.core.permissions.consent import Allow, Decision, Mode, Question
from teamwright.core.ports import Desk, ToolContext
from teamwright.store.files.paths import Home
from teamwright.store.tables.state import NOTHING_LEFT, LeftBehind

if TYPE_CHECKING:
    from teamwright.core.data.definition import AgentDefinition
    from teamwright.core.data.extensions.search import WebFound, WebQuery
    from teamwright.runtime.agents.factory import AgentFactory
    from teamwright.runtime.agents.outcomes import Outcomes
    from teamwright.runtime.agents.resources import Extensions
    from teamwright.runtime.agents.spawner import Spawner
    from teamwright.runtime.agents.supervisor import Supervisor
    from teamwright.runtime.bus import Bus
    from teamwright.runtime.extensions.hook_points import HookPoints
    from teamwright.runtime.extensions.languages import Languages
    from teamwright.runtime.extensions.skills import SkillRunner
    from teamwright.runtime.jobs.schedule import Schedules
    from teamwright.runtime.jobs.shell_jobs import ShellJobs
    from teamwright.runtime.landing.service import Landing
    from teamwright.runtime.permissions.call_facts import FactReader
    from teamwright.runtime.permissions.questions import Questions
    from teamwright.runtime.permissions.rulebook import Rulebook
    from teamwright.runtime.rewind.service import Rewinding
    from teamwright.runtime.sandbox.fence import SessionFence
    from teamwright.runtime.side_questions.service import SideQuestions
    from teamwright.runtime.teams.service import Teamwork
    from teamwright.runtime.teams.tasks.board import TaskBoard
    from teamwright.runtime.workers.remotes import RemoteAgents
    from teamwright.runtime.worktrees import Worktrees
    from teamwright.store.tables.jobs import JobRow

Put = Callable[[Question], Awaitable[Decision]]  # asks somebody who answers


class Services(Protocol):
    """Each service is opened on first use, so the order in which they need each other does not matter."""

    # --- always there

    @property
    def bus(self) -> "Bus": ...
    @property
    def rules(self) -> "Rulebook": ...
    @property
    def agents(self) -> "AgentFactory": ...
    @property
    def supervisor(self) -> "Supervisor": ...
    @property
    def points(self) -> "HookPoints": ...
    @property
    def questions(self) -> "Questions": ...
    def trace_env(self, agent: AgentId | None, call: str) -> Mapping[str, str]:
        """Variables by which a program that a call or a hook starts joins the trace; empty if there is none."""
        ...

    @property
    def extensions(self) -> "Extensions": ...

    def tell(self, agent: AgentId, event: Event) -> None:
        """Publish an event that is not an agent's own doing."""
        ...

    def mode_of(self, agent: AgentId) -> Mode:
        """The permission mode in effect for an agent."""
        ...

    def protected(self, desk: Desk) -> tuple[str, ...]:
        """Resolved paths on this machine that an agent with this desk may not change unasked."""
        ...

    async def judge(self, agent: AgentId, call: ToolCall) -> Decision:
        """Judge a call: the gate of all agents."""
        ...

    def kinds(self) -> "Mapping[str, AgentDefinition]": ...
    def resolve_models(self, name: str) -> tuple[str, str]:
        """The models that a name stands for: in plan mode, and otherwise."""
        ...

    @property
    def model_names(self) -> list[str]: ...
    def key_origin(self, model: str) -> str:
        """The variable or setting that gives the key of a model's provider; empty: no key is used."""
        ...

    def hurry(self) -> None:
        """The process is to end: do not wait for long for an engine that is away."""
        ...

    async def close(self) -> None: ...

    # --- who answers questions

    @property
    def approver(self) -> Put | None:
        """Asks a person, or code in their place; None if there is neither."""
        ...

    @property
    def person(self) -> Put | None:
        """Asks a person an agent's own questions; None if there is no person."""
        ...

    @property
    def sandbox(self) -> "SessionFence | None":
        """None if commands run without a sandbox."""
        ...

    @property
    def sandbox_status(self) -> "Mapping[str, str | bool]": ...

    # --- what only some sessions need

    @property
    def spawner(self) -> "Spawner": ...
    @property
    def shell_jobs(self) -> "ShellJobs": ...
    @property
    def languages(self) -> "Languages": ...
    async def search_web(self, agent: AgentId, query: "WebQuery") -> "WebFound":
        """Raises ToolError on failure."""
        ...

    @property
    def remotes(self) -> "RemoteAgents | None":
        """Agents on workers; None without an engine."""
        ...

    @property
    def unheard(self) -> "Sequence[AgentId]": ...

    @property
    def left_remote(self) -> "Sequence[JobRow]":
        """Jobs that an earlier process of this session started on workers, running or ended."""
        ...

    @property
    def facts(self) -> "FactReader": ...
    @property
    def worktrees(self) -> "Worktrees": ...
    @property
    def landing(self) -> "Landing": ...
    @property
    def skills(self) -> "SkillRunner": ...
    @property
    def schedules(self) -> "Schedules": ...
    @property
    def outcomes(self) -> "Outcomes":
        """Looks up the outcomes of interrupted calls."""
        ...

    @property
    def left(self) -> "Outcomes":
        """Looks up the outcomes of calls that were in flight in an earlier process."""
        ...

    @property
    def teams(self) -> "Teamwork": ...
    @property
    def session_board(self) -> "TaskBoard":
        """The task board of agents without a team."""
        ...

    @property
    def board(self) -> "TaskBoard":
        """The task board of everybody here, teams included."""
        ...

    @property
    def side_questions(self) -> "SideQuestions": ...
    @property
    def rewinding(self) -> "Rewinding": ...

    # --- the same, but None while nobody has opened them

    @property
    def open_teams(self) -> "Teamwork | None": ...
    @property
    def open_remotes(self) -> "RemoteAgents | None": ...
    @property
    def open_schedules(self) -> "Schedules | None": ...
    @property
    def open_side_questions(self) -> "SideQuestions | None": ...


class SessionPlan(Struct, frozen=True, kw_only=True):
    """How a session is run."""

    cwd: Path
    notes: tuple[str, ...] = ()  # what the person should know about how the session was opened
    left: LeftBehind = NOTHING_LEFT  # by the previous process, if the session is resumed
    spent: float = 0.0  # dollars, before the resume
    unpriced: bool = False  # whether some earlier usage has no known price
    team: str | None = None  # to take over, because its lead is gone
    listens: bool = False  # whether side questions follow the conversation
    tick_seconds: float | None = None
    driven: bool = False
    code_leads: bool = False
    may_bypass: bool = False
    trace: str = ""  # of the program that started this one; prompts belong to it
    home: Home | None = None  # of an engine's space; None: the person's own home
    engine: Mapping[str, str] | None = None  # its address and its space


class SessionContext(ToolContext, kw_only=True):
    """Context of a call by an agent of a session."""

    session: Services


class SessionTurn(TurnContext, kw_only=True):
    """What an agent of a session needs to run a turn."""

    session: Services

    def context(self, call: CallId, request: Request, reply: Reply, allowed: Allow) -> ToolContext:
        paths, fence = allowed.paths, allowed.fence
        return SessionContext(
            self.agent, call, self.desk, request, reply, self.emit, paths, fence, session=self.session
        )


def services_of(ctx: ToolContext) -> Services:
    """The services of the session in which a tool is called."""
    if not isinstance(ctx, SessionContext):
        raise ToolError("This tool works only in a session, and this call was made outside of one.")
    return ctx.session
