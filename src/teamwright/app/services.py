"""The services of a session, or of a teammate's process: built top-down, each part when somebody first asks for it."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.app.extensions import SessionExtensions
from teamwright.app.prompts import mode_here, system_of
from teamwright.app.setup import Setup, Store
from teamwright.app.workspace import without_keys
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import Event, Record
from teamwright.core.data.message import ToolCall, ToolSpec
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Decision, Mode
from teamwright.runtime.agents.compactor import Windows
from teamwright.runtime.agents.factory import AgentFactory
from teamwright.runtime.agents.slots import Slots
from teamwright.runtime.agents.spec import Toolset
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.bus import Bus
from teamwright.runtime.extensions.hook_points import HookPoints
from teamwright.runtime.jobs.jobs import Jobs
from teamwright.runtime.permissions.questions import Answerer, Questions
from teamwright.runtime.services import Put
from teamwright.runtime.trouble import Trouble
from teamwright.store.files import transcripts
from teamwright.store.files.logs import Log
from teamwright.store.tables.jobs import JobRow, JobTable
from teamwright.store.tables.state import now_ms

if TYPE_CHECKING:
    from teamwright.app.extensions import Served
    from teamwright.app.permissions import Standings
    from teamwright.core.data.search import WebFound, WebQuery
    from teamwright.host.git.now import GitNow
    from teamwright.runtime.agents.outcomes import Outcomes
    from teamwright.runtime.agents.spawner import Spawner
    from teamwright.runtime.agents.sub_agents import SpawnDeps
    from teamwright.runtime.extensions.checkpoints import Ask
    from teamwright.runtime.extensions.languages import Languages
    from teamwright.runtime.extensions.skills import SkillRunner
    from teamwright.runtime.jobs.schedule import Schedules
    from teamwright.runtime.jobs.shell_jobs import ShellJobs
    from teamwright.runtime.permissions.call_facts import FactReader
    from teamwright.runtime.side_questions.service import SideQuestions
    from teamwright.runtime.teams.deps import Base, TeammatePlaces
    from teamwright.runtime.teams.service import Teamwork
    from teamwright.runtime.teams.tasks import TaskBoard
    from teamwright.runtime.worktrees import Worktrees

if TYPE_CHECKING:  # a checker takes a cached property for something else than a property
    lazy = property
else:
    lazy = cached_property


class Services:
    """See `runtime/services.py`, which is all that the parts know of it."""

    def __init__(self, setup: Setup, store: Store, since: int | None = None, git: "GitNow | None" = None) -> None:
        """`since`: when the lead's process began; `git` is the repository as the session began."""
        self.git = git
        self.options, self.workspace = setup.options, setup.workspace
        self.rules, self.models = setup.rules, setup.models
        self.written, self.registry, self.notes, self.store = setup.written, setup.registry, setup.notes, store
        self.main, self.since = AgentId(store.session), now_ms() if since is None else since
        self.left: Outcomes | None = None
        log = Log(self.workspace.home.logs, store.session, self.without_keys)
        self.log, self.trouble = log.write, Trouble(log.write)
        self.bus = Bus(self._reread)
        store.state.on_set_aside(self._set_aside)

    def without_keys(self, text: str) -> str:
        return without_keys(self.workspace, text)

    def _reread(self, agent: AgentId, since: int) -> Iterator[Record]:
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
        try:
            if worktrees is not None:
                await worktrees.let_all_go()
            await self.store.state.close()
        finally:
            await self.models.routed.aclose()
            self.store.lock.release()

    # --- agents

    @lazy
    def jobs(self) -> Jobs:
        return Jobs(JobTable(self.store.state.database), self.store.session, self.tell, self._ring)

    def _ring(self, agent: AgentId) -> None:
        self.supervisor.ring(agent)

    @lazy
    def supervisor(self) -> Supervisor:
        own = self.workspace.settings.own
        return Supervisor(
            self,
            self.jobs,
            self.store.state,
            self.log,
            self.trouble,
            job_wait=own.job_wait_seconds,
            summary_seconds=own.summary_seconds if own.agent_summaries else None,
        )

    @lazy
    def agents(self) -> AgentFactory:
        models, state = self.models, self.store.state
        return AgentFactory(
            services=self,
            session=self.store.session,
            files=self.store.files,
            bus=self.bus,
            letters=state,
            ledger=state,
            model=models.routed,
            gate=self.judge,
            around=self.points,
            slots=Slots(self._most_agents()),
            now=now_ms,
            log=self.log,
            debug=self.log if self.options.debug else None,
            flush=state.flush,
            facts=self._facts,
            trouble=self.trouble,
            windows=Windows(models.window, models.routed.window),
            letter_room=models.letter_room,
            fallback=models.fallback,
        )

    def _most_agents(self) -> int:
        said = self.workspace.env.get("TEAMWRIGHT_MAX_AGENTS", "")
        return int(said) if said.isdigit() and int(said) else self.workspace.settings.own.max_agents

    async def _facts(self, agent: AgentId) -> list[str]:
        """What an agent must still know after its conversation was shortened."""
        jobs = self.jobs.unfinished(agent)
        running = [f"Still at work for you: {j.description} ({j.kind} {j.id})" for j in jobs]
        return [*running, *await self.teams.recall(agent)]

    @lazy
    def spawner(self) -> "Spawner":
        from teamwright.runtime.agents.spawner import Spawner  # noqa: PLC0415

        return Spawner(self, self.spawn_deps)

    @lazy
    def spawn_deps(self) -> "SpawnDeps":
        from teamwright.runtime.agents.sub_agents import SpawnDeps  # noqa: PLC0415

        registry = self.registry
        return SpawnDeps(
            kinds=registry.startable,
            refusal=registry.refusal,
            absence=registry.absence,
            toolset=self._toolset,
            toolset_of=self._toolset_of,
            mode=self._mode_here,
            system=self._system,
            told=self.extensions.told,
            equip=self.extensions.equip,
            resolve_model=self.models.checked,
            features=registry.features,
            background_after=self.workspace.settings.own.background_after_seconds,
        )

    def _toolset(self, definition: AgentDefinition, depth: int, served: "Served") -> Toolset:
        return self.registry.toolset(definition, depth, self.extensions.served(served))

    def _toolset_of(self, specs: tuple[ToolSpec, ...], depth: int, served: "Served") -> Toolset:
        return self.registry.toolset_of(specs, depth, self.extensions.served(served))

    def _mode_here(self, own: Mode | None) -> Mode:
        return mode_here(self, own)

    def _system(self, definition: AgentDefinition, model: str, cwd: Path, mode: Mode) -> tuple[str, ...]:
        return system_of(self, model, cwd, role=definition.prompt, mode=mode)

    def kinds(self) -> Mapping[str, AgentDefinition]:
        return self.registry.kinds()

    def resolve_model(self, name: str) -> str:
        return self.models.resolve(name)

    @property
    def model_names(self) -> list[str]:
        return self.models.catalog.names()

    # --- permissions

    @property
    def mode(self) -> Mode:
        """The session's."""
        return self.supervisor.main.mode or "default"

    @property
    def answer(self) -> Answerer | None:
        """Code that answers in a person's place."""
        return self.options.answer

    @lazy
    def questions(self) -> Questions:
        return Questions(self.tell, self.workspace.settings.own.question_timeout_seconds, self.answer)

    @property
    def approver(self) -> Put | None:
        return self.questions.put if self.options.can_ask or self.answer else None

    @property
    def person(self) -> Put | None:
        return self.approver if self.options.interactive else None

    def mode_of(self, agent: AgentId) -> Mode:
        return self.standings.mode(agent)

    async def judge(self, agent: AgentId, call: ToolCall) -> Decision:
        return await self._gate(agent, call)

    @lazy
    def standings(self) -> "Standings":
        from teamwright.app.permissions import Standings  # noqa: PLC0415

        return Standings(self)

    @lazy
    def facts(self) -> "FactReader":
        from teamwright.runtime.permissions.call_facts import FactReader  # noqa: PLC0415

        return FactReader(self.registry.catalog, self.workspace.user)

    @lazy
    def _gate(self) -> "Ask":
        """A driving program may want files back as they were: then each is kept before it is changed."""
        from teamwright.app.permissions import open_gate  # noqa: PLC0415
        from teamwright.runtime.extensions import checkpoints  # noqa: PLC0415

        gate = open_gate(self)
        if self.workspace.env.get(checkpoints.SWITCH) not in ("1", "true"):
            return gate.ask
        return checkpoints.guarded(gate.ask, checkpoints.folder_of(self.store.files))

    # --- what people bring

    @lazy
    def points(self) -> HookPoints:
        return HookPoints(self, self.workspace.cwd)

    @lazy
    def extensions(self) -> SessionExtensions:
        return SessionExtensions(self, self.written)

    @property
    def skills(self) -> "SkillRunner":
        return self.extensions.runner

    @lazy
    def languages(self) -> "Languages":
        from teamwright.runtime.extensions.languages import Ground, Languages  # noqa: PLC0415

        ground = Ground(self.workspace.project, self.workspace.env, self.log)
        return Languages(self.workspace.settings.lsp, ground, self.supervisor.launch)

    @property
    def open_languages(self) -> "Languages | None":
        return self.__dict__.get("languages")

    async def search_web(self, agent: AgentId, query: "WebQuery") -> "WebFound":
        return await self.registry.searching.search(self, agent, query)

    # --- work beside an agent

    @lazy
    def worktrees(self) -> "Worktrees":
        from teamwright.runtime.extensions.hook_services import WorktreeHooks  # noqa: PLC0415
        from teamwright.runtime.worktrees import Worktrees  # noqa: PLC0415

        hooks, store = WorktreeHooks(self, self.main), self.store
        return Worktrees(
            self.workspace.settings.symlink_directories,
            session=store.session,
            notes=store.files.dir / "rooms",
            make_by_hook=hooks.make,
            removed_by_hook=hooks.removed,
        )

    @lazy
    def shell_jobs(self) -> "ShellJobs":
        from teamwright.runtime.jobs.shell_jobs import ShellJobs  # noqa: PLC0415
        from teamwright.tools.bounds import visible  # noqa: PLC0415

        silence = self.workspace.settings.own.silence_seconds
        return ShellJobs(self.supervisor, self.agents.output, self.log, clean=visible, silence=silence)

    @lazy
    def schedules(self) -> "Schedules":
        """Only where nobody waits for the program to end does it stay for them."""
        from teamwright.host.timezone import local_zone  # noqa: PLC0415
        from teamwright.runtime.jobs.schedule import Schedules, WallClock  # noqa: PLC0415
        from teamwright.store.tables.schedules import ScheduleTable  # noqa: PLC0415

        options, workspace = self.options, self.workspace
        schedules = Schedules(
            ScheduleTable(self.store.state.database),
            self.store.session,
            self.main,
            clock=WallClock(),
            zone=partial(local_zone, workspace.env),
            ring=self.supervisor.main.inbox.ring,
            log=self.log,
            stays=options.proactive or options.assistant or workspace.settings.own.assistant,
        )
        self.supervisor.launch(schedules.run)
        return schedules

    @lazy
    def side_questions(self) -> "SideQuestions":
        from teamwright.app.main_agent import open_side_questions  # noqa: PLC0415

        return open_side_questions(self)

    @lazy
    def places(self) -> "TeammatePlaces | None":
        """Processes of their own for teammates; None: they run in this one."""
        asked = self.options.teammate_mode or self.workspace.settings.own.teammate_mode
        if asked == "in-process" or (asked == "auto" and not self.options.can_ask):
            return None
        from teamwright.app.teammate_places import open_places  # noqa: PLC0415

        return open_places(asked, self.options, self.workspace, self.notes, self.since)

    def teammate_base(self) -> "Base":
        from teamwright.runtime.teams.deps import Base  # noqa: PLC0415

        main = self.supervisor.main
        return Base(main.desk, main.meter)

    @lazy
    def teams(self) -> "Teamwork":
        from teamwright.app.teams import open_teamwork  # noqa: PLC0415

        return open_teamwork(self)

    @property
    def board(self) -> "TaskBoard":
        return self.teams.board

    @property
    def open_teams(self) -> "Teamwork | None":
        return self.__dict__.get("teams")

    @property
    def open_schedules(self) -> "Schedules | None":
        return self.__dict__.get("schedules")

    @property
    def open_side_questions(self) -> "SideQuestions | None":
        return self.__dict__.get("side_questions")

    # --- what became of calls

    @lazy
    def outcomes(self) -> "Outcomes":
        from teamwright.runtime.agents.outcomes import Books, outcomes_of  # noqa: PLC0415
        from teamwright.store.tables.schedules import ScheduleTable  # noqa: PLC0415

        state, tables = self.store.state, self.teams.tables
        books = Books(
            session=self.store.session,
            mail=tables.mail,
            requests=tables.requests,
            teams=tables.teams,
            tasks=self.board.table,
            schedules=ScheduleTable(state.database),
        )
        return outcomes_of(self.jobs, state.has_letter, books, self.registry.catalog)

    def remember(self, rows: Sequence[JobRow], *, copied: bool = False) -> "Outcomes":
        """What an earlier process left; `copied`: in the session that this one is a copy of."""
        from teamwright.runtime.agents.outcomes import left_by  # noqa: PLC0415

        self.left = left_by(self.outcomes, rows, copied=copied)
        return self.left
