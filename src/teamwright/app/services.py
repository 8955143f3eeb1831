"""The services of a session, or of a teammate's process: built top-down, each part when it is first asked for."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from teamwright.app.agents.prompts import mode_here, system_of
from teamwright.app.extensions.service import SessionExtensions
from teamwright.app.setup import Setup, Store
from teamwright.app.workspace import without_keys
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import Event, Record
from teamwright.core.data.message import ToolCall, ToolSpec
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Decision, Mode
from teamwright.runtime.agents.prompt import Seat
from teamwright.runtime.agents.spec import Toolset
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.bus import Bus
from teamwright.runtime.extensions.hook_points import HookPoints
from teamwright.runtime.jobs.jobs import Jobs
from teamwright.runtime.permissions.questions import Questions
from teamwright.runtime.services import Put
from teamwright.runtime.trouble import Trouble
from teamwright.store.files import transcripts
from teamwright.store.files.logs import LogFile
from teamwright.store.tables.jobs import JobRow, JobTable
from teamwright.store.tables.state import now_ms

if TYPE_CHECKING:
    from teamwright.app.extensions.service import Served
    from teamwright.app.permissions import Standings
    from teamwright.core.data.extensions.search import WebFound, WebQuery
    from teamwright.core.ports import Desk, Keeper
    from teamwright.host.git.now import GitNow
    from teamwright.runtime.agents.factory import AgentFactory
    from teamwright.runtime.agents.outcomes import Outcomes
    from teamwright.runtime.agents.spawner import Spawner
    from teamwright.runtime.agents.sub_agents import SpawnDeps
    from teamwright.runtime.extensions.languages import Languages
    from teamwright.runtime.extensions.skills import SkillRunner
    from teamwright.runtime.jobs.schedule import Schedules
    from teamwright.runtime.jobs.shell_jobs import ShellJobs
    from teamwright.runtime.landing.service import Landing
    from teamwright.runtime.permissions.call_facts import FactReader
    from teamwright.runtime.permissions.tool_limits import LimitedGate
    from teamwright.runtime.rewind.service import Rewinding
    from teamwright.runtime.sandbox.fence import SessionFence
    from teamwright.runtime.side_questions.service import SideQuestions
    from teamwright.runtime.teams.deps import Base, TeammatePlaces
    from teamwright.runtime.teams.rooms import Hosting
    from teamwright.runtime.teams.service import Teamwork
    from teamwright.runtime.teams.tasks.board import TaskBoard
    from teamwright.runtime.workers.remotes import RemoteAgents
    from teamwright.runtime.worktrees import Worktrees
    from teamwright.telemetry.live import Telemetry

if TYPE_CHECKING:  # type checkers do not take a cached property for a property
    lazy = property
else:
    lazy = cached_property


class Services:
    """See `runtime/services.py` for the port that the parts know."""

    def __init__(self, setup: Setup, store: Store, since: int | None = None, git: "GitNow | None" = None) -> None:
        """`since`: when the lead's process began; `git` is the repository as the session began."""
        self.git, self.options, self.workspace = git, setup.options, setup.workspace
        self.rules, self.models = setup.rules, setup.models
        self.written, self.registry, self.notes, self.store = setup.written, setup.registry, setup.notes, store
        self.hurry = store.hurry
        self.sandbox_setup, self.telemetry_wanted = setup.sandbox, setup.telemetry
        self.main, self.since = AgentId(store.session), now_ms() if since is None else since
        self.unheard: Sequence[AgentId] = ()  # ended agents for which an earlier process stored words
        self.left_remote: Sequence[JobRow] = ()  # those that an earlier process started on workers
        root = self.workspace.home.root
        log = LogFile(root / "logs" / "teamwright.log", store.session, self.without_keys)
        self.log, self.trouble = log.write, Trouble(log.write)
        self.bus = Bus(self.reread)
        store.state.heed_set_aside = self._set_aside
        self.answer = setup.options.answer  # code that answers in a person's place
        self.asked = bool(setup.options.can_ask or self.answer)  # somebody answers questions
        self.jobs = Jobs(JobTable(store.state.database), store.session, self.tell, self._ring)
        own = self.workspace.own
        self.supervisor = Supervisor(self, self.jobs, store.state, self.log, self.trouble, own.job_wait_seconds)
        if own.agent_summaries:
            self.supervisor.sum_up(own.summary_seconds)
        if own.hand_off_check:
            self.supervisor.check_hand_offs()
        self.points = HookPoints(self, self.workspace.cwd)
        self.extensions = SessionExtensions(self, setup.written)

    def without_keys(self, text: str) -> str:
        return without_keys(self.workspace, text)

    def reread(self, agent: AgentId, since: int) -> Iterator[Record]:
        files = self.store.files
        path = files.transcript if agent == self.main else self.agents.files_of(agent).agent(agent)
        for n, line in transcripts.read(path, since):
            yield Record(agent, n, line.at, line.event)

    def _set_aside(self, agent: AgentId, why: str) -> None:
        self.teams.set_aside(agent, why)

    def tell(self, agent: AgentId, event: Event) -> None:
        self.bus.publish(Record(agent, 0, now_ms(), event))

    async def close(self) -> None:
        worktrees: Worktrees | None = self.__dict__.get("worktrees")
        if (fence := self.__dict__.get("sandbox")) is not None:
            fence.close()
        try:
            if worktrees is not None:
                await worktrees.let_all_go()
            await self.store.forget_unsaid()
            await self.store.close()
        finally:
            await self.models.routed.aclose()
            if self.telemetry is not None:
                await to_thread.run_sync(self.telemetry.close)
            self.store.lock.release()

    @lazy
    def telemetry(self) -> "Telemetry | None":
        if self.telemetry_wanted is None:
            return None
        from teamwright.app.telemetry import open_telemetry  # noqa: PLC0415

        return open_telemetry(self, self.telemetry_wanted)

    def trace_env(self, agent: AgentId | None, call: str) -> Mapping[str, str]:
        return {} if self.telemetry is None else self.telemetry.trace_env(agent or self.main, call)

    # --- agents

    def _ring(self, agent: AgentId) -> None:
        self.supervisor.ring(agent)

    @lazy
    def agents(self) -> "AgentFactory":
        from teamwright.app.agents.making import make_agents  # noqa: PLC0415

        return make_agents(self)

    def open_keeper(self) -> "Keeper | None":
        from teamwright.app.rewind import open_keeper  # noqa: PLC0415  # a single prompt keeps no files

        keeper = open_keeper(self) if self.options.keep_files else None
        if self.sandbox is None:
            return keeper
        from teamwright.runtime.sandbox.claiming import ClaimingKeeper  # noqa: PLC0415

        return ClaimingKeeper(keeper, self.registry.catalog, self.sandbox)

    @lazy
    def spawner(self) -> "Spawner":
        from teamwright.runtime.agents.spawner import Spawner  # noqa: PLC0415

        return Spawner(self, self.spawn_deps)

    @lazy
    def spawn_deps(self) -> "SpawnDeps":
        from teamwright.app.parts import make_spawn_deps  # noqa: PLC0415

        return make_spawn_deps(self)

    def make_toolset(self, definition: AgentDefinition, depth: int, served: "Served") -> Toolset:
        return self.registry.toolset(definition, depth, self.extensions.served(served))

    def restore_toolset(self, specs: tuple[ToolSpec, ...], depth: int, served: "Served") -> Toolset:
        return self.registry.toolset_of(specs, depth, self.extensions.served(served))

    def narrow_mode(self, own: Mode | None) -> Mode:
        return mode_here(self, own)

    def system(self, definition: AgentDefinition, seat: Seat) -> tuple[str, ...]:
        return system_of(self, seat, definition.prompt)

    def kinds(self) -> Mapping[str, AgentDefinition]:
        return self.registry.kinds()

    def resolve_models(self, name: str) -> tuple[str, str]:
        return self.models.resolve_pair(name)

    @property
    def model_names(self) -> list[str]:
        return self.models.catalog.names()

    def key_origin(self, model: str) -> str:
        return self.models.routed.key_origin(model)

    # --- permissions

    @property
    def mode(self) -> Mode:
        """The session's mode."""
        return self.supervisor.main.mode or "default"

    @lazy
    def questions(self) -> Questions:
        return Questions(self.tell, self.workspace.own.question_timeout_seconds, self.answer)

    @property
    def approver(self) -> Put | None:
        return self.questions.put if self.asked or self.answer else None

    @lazy
    def sandbox(self) -> "SessionFence | None":
        if self.sandbox_setup is None:
            return None
        from teamwright.app.sandbox import open_fence  # noqa: PLC0415

        return open_fence(self, self.sandbox_setup)

    @property
    def sandbox_status(self) -> dict[str, str | bool]:
        """As `system/init` reports it."""
        if self.sandbox is not None:
            return self.sandbox.status
        return {"enabled": self.sandbox_setup is not None, "tier": "none", "autoAllow": False}

    @property
    def person(self) -> Put | None:
        return self.approver if self.options.interactive or self.options.open_door else None

    def mode_of(self, agent: AgentId) -> Mode:
        return self.standings.mode(agent)

    def protected(self, desk: "Desk") -> tuple[str, ...]:
        return self.standings.protected(desk)

    async def judge(self, agent: AgentId, call: ToolCall) -> Decision:
        return self.registry.with_kinds(call, await self._gate.ask(agent, call))

    @lazy
    def standings(self) -> "Standings":
        from teamwright.app.permissions import Standings  # noqa: PLC0415

        return Standings(self)

    @lazy
    def facts(self) -> "FactReader":
        from teamwright.runtime.permissions.call_facts import FactReader  # noqa: PLC0415

        tmp_of = None if self.sandbox is None else self.sandbox.tmp_of
        return FactReader(self.registry.catalog, self.workspace.user, tmp_of)

    @lazy
    def _gate(self) -> "LimitedGate":
        from teamwright.app.permissions import open_gate  # noqa: PLC0415

        return open_gate(self)

    # --- what people bring

    @property
    def skills(self) -> "SkillRunner":
        return self.extensions.runner

    @lazy
    def languages(self) -> "Languages":
        from teamwright.app.extensions.languages import open_languages  # noqa: PLC0415

        return open_languages(self)

    @property
    def open_languages(self) -> "Languages | None":
        return self.__dict__.get("languages")

    async def search_web(self, agent: AgentId, query: "WebQuery") -> "WebFound":
        searching = self.registry.searching
        assert searching is not None  # otherwise the tool is not offered
        return await searching.search(self, agent, query)

    # --- work in parallel

    @lazy
    def worktrees(self) -> "Worktrees":
        from teamwright.app.parts import open_worktrees  # noqa: PLC0415

        return open_worktrees(self)

    @lazy
    def landing(self) -> "Landing":
        from teamwright.app.landing.queue import open_landing  # noqa: PLC0415

        return open_landing(self)

    @lazy
    def shell_jobs(self) -> "ShellJobs":
        from teamwright.app.parts import open_shell_jobs  # noqa: PLC0415

        return open_shell_jobs(self)

    @lazy
    def schedules(self) -> "Schedules":
        """The program stays for them only if nobody waits for its end."""
        from teamwright.app.parts import open_schedules  # noqa: PLC0415

        return open_schedules(self)

    @lazy
    def rewinding(self) -> "Rewinding":
        from teamwright.app.rewind import open_rewinding  # noqa: PLC0415

        return open_rewinding(self)

    @lazy
    def side_questions(self) -> "SideQuestions":
        from teamwright.app.agents.main_agent import open_side_questions  # noqa: PLC0415

        return open_side_questions(self)

    @lazy
    def places(self) -> "TeammatePlaces | None":
        """How teammates get processes of their own; None: they run in this one."""
        asked = self.options.teammate_mode or self.workspace.own.teammate_mode
        if asked == "in-process" or (asked == "auto" and not self.options.can_ask):
            return None
        from teamwright.app.teams.places import open_places  # noqa: PLC0415

        return open_places(asked, self.options, self.workspace, self.notes, self.since)

    @lazy
    def remotes(self) -> "RemoteAgents | None":
        """Agents on workers; None without an engine."""
        space = self.store.space
        if space is None or self.options.hosted:
            return None
        from teamwright.app.workers.leading import open_remotes  # noqa: PLC0415

        return open_remotes(self, space)

    @property
    def copies(self) -> Path | None:
        """Where people find JSON copies of teams and tasks: in their own home, even for a session in an engine."""
        return self.workspace.home.root if self.store.space is not None else None

    @property
    def hosting(self) -> "Hosting | None":
        """On a worker: the agent that it runs."""
        return None

    def find_cwd(self, named: str) -> Path | None:
        """Where an agent was; None if that is not on this machine, because it began on another."""
        path = Path(named)
        return path if named and path.is_dir() else None

    def teammate_base(self) -> "Base":
        from teamwright.runtime.teams.deps import Base  # noqa: PLC0415

        main = self.supervisor.main
        return Base(main.desk, main.meter)

    @lazy
    def teams(self) -> "Teamwork":
        from teamwright.app.teams.service import open_teamwork  # noqa: PLC0415

        return open_teamwork(self)

    @lazy
    def session_board(self) -> "TaskBoard":
        from teamwright.app.teams.board import open_board  # noqa: PLC0415

        return open_board(self)

    @property
    def board(self) -> "TaskBoard":
        return self.session_board if self.open_teams is None else self.teams.board

    @property
    def open_teams(self) -> "Teamwork | None":
        return self.__dict__.get("teams")

    @property
    def open_remotes(self) -> "RemoteAgents | None":
        return self.__dict__.get("remotes")

    @property
    def open_schedules(self) -> "Schedules | None":
        return self.__dict__.get("schedules")

    @property
    def open_side_questions(self) -> "SideQuestions | None":
        return self.__dict__.get("side_questions")

    # --- outcomes of calls

    @lazy
    def outcomes(self) -> "Outcomes":
        from teamwright.app.parts import make_outcomes  # noqa: PLC0415

        return make_outcomes(self)

    @lazy
    def left(self) -> "Outcomes":
        from teamwright.runtime.agents.outcomes import left_by  # noqa: PLC0415

        return left_by(self.outcomes, JobTable(self.store.state.database), copied=self.options.origin.fork)
