"""Puts a session together."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.app.asides import earlier_notes, open_asides
from teamwright.app.company import Company
from teamwright.app.ground import Ground, read_rules, survey
from teamwright.app.guard import Law, open_guard
from teamwright.app.naming import GIVEN, Names, open_models
from teamwright.app.options import Options
from teamwright.app.places import open_places
from teamwright.app.schedules import open_schedules
from teamwright.app.teamwork import Ground as TeamGround
from teamwright.app.teamwork import open_teamwork
from teamwright.core.budget import Limits
from teamwright.core.consent import Mode
from teamwright.core.crashpoint import arm
from teamwright.core.event import Event, LettersTaken, Record, Reminded
from teamwright.core.ids import AgentId, new_letter_id
from teamwright.core.letter import Letter, Said, Sender
from teamwright.core.message import user
from teamwright.core.ports import Desk, Tool
from teamwright.core.work import Actor, Task
from teamwright.host.handles import allow_many_files
from teamwright.host.near import is_near
from teamwright.host.worktree_record import left_behind
from teamwright.library import instructions
from teamwright.models.catalog import default_model
from teamwright.models.prices import cost
from teamwright.models.routed import RoutedModel
from teamwright.runtime.agent import Agent
from teamwright.runtime.bus import Bus
from teamwright.runtime.compactor import Windows
from teamwright.runtime.hook_services import TeamHooks, WorktreeHooks
from teamwright.runtime.jobs import Jobs
from teamwright.runtime.meter import AgentMeter
from teamwright.runtime.prompt import Place, system_prompt
from teamwright.runtime.questions import Questions
from teamwright.runtime.recruiter import Base
from teamwright.runtime.resident import note_work
from teamwright.runtime.resume import Left, Opened, close_open_calls, open_history
from teamwright.runtime.rooms import Rooms
from teamwright.runtime.rulebook import Rulebook
from teamwright.runtime.session import Session
from teamwright.runtime.slots import Slots
from teamwright.runtime.spawner import Known, Spawner, Ways
from teamwright.runtime.supervisor import Supervisor
from teamwright.runtime.teamwork import Teamwork
from teamwright.runtime.workshop import Shape, Workshop
from teamwright.store import prompts, transcripts
from teamwright.store.jobs import JobTable
from teamwright.store.logs import Log
from teamwright.store.paths import SessionFiles
from teamwright.store.settings_schema import Settings
from teamwright.store.state import State, now_ms


class Parts(Struct, kw_only=True):
    """What has been opened so far."""

    options: Options
    ground: Ground
    rules: Rulebook
    models: RoutedModel
    names: Names
    company: Company
    opened: Opened
    state: State
    notes: list[str]
    mode: Mode | None = None  # the session's, where the main agent does not live here
    since: int = field(default_factory=now_ms)  # when the lead's process began


async def open_session(options: Options) -> Session:
    """Make everything that a session needs; it begins to live inside `async with`."""
    if point := options.env.get("TEAMWRIGHT_CRASHPOINT"):  # NAME:PASS, for tests of what a kill leaves behind
        name, _, passes = point.partition(":")
        arm(name, int(passes or 1))
    allow_many_files()
    ground = survey(options)
    rules, problems = read_rules(options, ground)
    models, names = open_models(options, ground)
    company = Company(options, ground, rules)
    opened = open_history(options.origin, ground.home, ground.cwd)
    try:
        state = await _open_state(ground, opened)
        notes = [*ground.notes, *problems, *company.problems, *opened.notes, *state.notes]
        parts = Parts(
            options=options, ground=ground, rules=rules, models=models, names=names, company=company, opened=opened,
            state=state, notes=notes,
        )  # fmt: skip
        return await _compose(parts)
    except BaseException:
        opened.transcript.close()
        opened.lock.release()
        raise


async def _open_state(ground: Ground, opened: Opened) -> State:
    state = await State.open(ground.home.state)
    started = opened.history.started
    assert started is not None
    await state.register_session(opened.id, started.cwd, now_ms())
    await state.register_agent(AgentId(opened.id), opened.id, None, "main", "main", 0)
    if opened.history.messages:
        await state.settle_orphans(opened.id, cost)
    return state


class Core(Struct, kw_only=True):
    """What lives, while it is put together."""

    log: Log
    bus: Bus
    jobs: Jobs
    rooms: Rooms
    supervisor: Supervisor
    questions: Questions
    workshop: Workshop
    spawner: Spawner
    ways: Ways
    team_hooks: TeamHooks

    def tell(self, agent: AgentId, event: Event) -> None:
        self.bus.publish(Record(agent, 0, now_ms(), event))


async def _compose(parts: Parts) -> Session:
    options, ground, opened = parts.options, parts.ground, parts.opened
    own = ground.settings.own
    mains: list[Agent] = []
    core = build_core(parts, lambda: mains[0])
    teamwork = build_teamwork(parts, core)
    parts.company.teamwork = teamwork
    put = core.questions.put if options.can_ask or options.answer else None
    parts.company.introduce(core.spawner, core.supervisor, core.workshop, core.rooms, put)
    main = _main(parts, core.workshop)
    mains.append(main)
    parts.company.extras.rerender = lambda served: _rerender(parts, core.workshop, main, served)
    main.on_event = _reader(main, teamwork)
    schedules = parts.company.schedules = open_schedules(options, ground, parts.state, main, core.log.write)
    await _take_over(parts, core.jobs, core.spawner, core.workshop)
    teamwork.recruiter.answers = core.spawner.answers
    await _go_back(parts, core.rooms, main)
    return Session(
        opened.id, cwd=ground.cwd, main=main, bus=core.bus, meter=main.meter, questions=core.questions,
        supervisor=core.supervisor, resolve_model=parts.names.resolve, add_rules=parts.rules.add, pass_on=core.spawner.pass_on,
        kinds=parts.company.kinds, brought=parts.company.extras, model_names=parts.names.catalog.names(),
        may_bypass=options.may_bypass or main.mode == "bypassPermissions", notes=parts.notes,
        on_close=(lambda: _close(parts, core),),
        asides=open_asides(options, ground, main, core.supervisor, core.tell, core.log.write), teamwork=teamwork,
        resumes=not opened.new, team=options.team, schedules=schedules, driven=options.driven,
        tick_seconds=own.proactive_seconds if options.proactive else None,
    )  # fmt: skip


async def _close(parts: Parts, core: Core) -> None:
    await core.rooms.let_all_go()
    parts.opened.transcript.close()
    await parts.state.close()
    await parts.models.aclose()
    parts.opened.lock.release()


def build_core(parts: Parts, main: Callable[[], Agent | None]) -> Core:
    options, ground, opened, state = parts.options, parts.ground, parts.opened, parts.state
    own = ground.settings.own
    log = Log(ground.home.logs, opened.id)
    bus = Bus(lambda agent, since: _reread(opened, workshop.files_of(agent), agent, since))

    def tell(agent: AgentId, event: Event) -> None:
        bus.publish(Record(agent, 0, now_ms(), event))

    def ring(agent: AgentId) -> None:
        supervisor.ring(agent)

    async def facts(agent: AgentId) -> list[str]:
        running = [f"Still at work for you: {j.description} ({j.kind} {j.id})" for j in jobs.unfinished(agent)]
        return [*running, *await parts.company.get_teamwork().recall(agent)]

    def say(server: str, text: str) -> None:
        letter = Letter(new_letter_id(), AgentId(opened.id), Sender("system", f"mcp:{server}"), Said(text))
        supervisor.launch(lambda: supervisor.post(letter))

    async def make_room(name: str, cwd: Path) -> Path | None:
        return await trees.make(name, cwd)

    async def room_removed(path: Path) -> bool:
        return await trees.removed(path)

    def color(agent: AgentId) -> str:
        return parts.company.get_teamwork().teams.color_of(agent)

    jobs = Jobs(JobTable(state.database), opened.id, tell, ring)
    rooms = Rooms(
        ground.settings.symlink_directories, session=opened.id, notes=opened.files.dir / "rooms",
        make_by_hook=make_room, removed_by_hook=room_removed,
    )  # fmt: skip
    supervisor = Supervisor(jobs, state, rooms, main, tell, log.write, job_wait=own.job_wait_seconds)
    questions = Questions(tell, own.question_timeout_seconds, options.answer)
    extras = parts.company.extras
    law = Law(
        rules=extras.rules_of, mode=parts.mode, color=color,
        make_hooks=lambda: extras.make_hooks(opened.id, opened.files.transcript, log.write),
    )  # fmt: skip
    guard = open_guard(options, ground, opened, law, supervisor, questions, tell)
    trees = WorktreeHooks(guard.points, AgentId(opened.id))
    workshop = Workshop(
        session=opened.id, files=opened.files, bus=bus, letters=state, ledger=state, model=parts.models,
        gate=guard.gate.ask, points=guard.points, slots=Slots(_most_agents(ground)), now=now_ms, log=log.write,
        debug=log.write if options.debug else None, flush=state.flush, facts=facts,
        windows=Windows(parts.names.window, parts.models.window),
        letter_room=lambda model: parts.names.window(model) or 200_000, fallback=parts.names.fallback,
    )  # fmt: skip
    ways = _ways(parts)
    spawner = Spawner(workshop, supervisor, rooms, ways)
    extras.introduce(
        AgentId(opened.id), guard.points, guard.gate.ask, supervisor, spawner, tell, log.write, say
    )  # fmt: skip
    return Core(
        log=log, bus=bus, jobs=jobs, rooms=rooms, supervisor=supervisor, questions=questions, workshop=workshop,
        spawner=spawner, ways=ways, team_hooks=TeamHooks(guard.points),
    )  # fmt: skip


def build_teamwork(parts: Parts, core: Core, base: Callable[[], Base] | None = None) -> Teamwork:
    """`base` is what teammates start from: the main agent's, unless this process has none."""
    own, supervisor, hooks = parts.ground.settings.own, core.supervisor, core.team_hooks

    async def check(event: str, task: Task, by: Actor) -> str | None:
        return await hooks.check(event, task, by, parts.company.get_teamwork().teams.team_of(by.agent))

    ground = TeamGround(
        state=parts.state, home=parts.ground.home, env=parts.ground.env, user=parts.ground.user, tell=core.tell, log=core.log.write,
        patience=own.shutdown_timeout_seconds, lead_mode=lambda: supervisor.main.mode or "default",
        check=check if hooks.guards else None, before_idle=hooks.before_idle, told=parts.company.extras.told,
        kit=parts.company.team_kit, system=lambda model, cwd: _system(parts, model, cwd, own=None),
        base=base or (lambda: Base(supervisor.main.desk, supervisor.main.meter)),
        places=None if base else open_places(parts.options, parts.ground, parts.notes, parts.since), since=parts.since,
        rules=parts.rules.of,
        put=core.questions.put if parts.options.can_ask or parts.options.answer else None, publish=core.bus.publish,
    )  # fmt: skip
    return open_teamwork(ground, core.workshop, supervisor, core.spawner, core.rooms, core.ways)


def _reader(main: Agent, teamwork: Teamwork) -> Callable[[Event], None]:
    def heard(event: Event) -> None:
        if isinstance(event, LettersTaken):
            teamwork.teams.read_by(main.id)
        else:
            note_work(teamwork.teams, main, event)

    return heard


def _most_agents(ground: Ground) -> int:
    said = ground.env.get("TEAMWRIGHT_MAX_AGENTS", "")
    return int(said) if said.isdigit() and int(said) else ground.settings.own.max_agents


def _ways(parts: Parts) -> Ways:
    company, ground = parts.company, parts.ground

    def resolve(name: str) -> str:
        full = parts.names.resolve(name)
        parts.models.open(full)  # a provider without a key is an error now, not in the child
        return full

    return Ways(
        kinds=company.startable,
        refusal=company.refusal,
        kit=company.kit,
        kit_of=company.kit_of,
        system=lambda definition, model, cwd: _system(parts, model, cwd, own=definition.prompt),
        told=company.extras.told,
        equip=company.extras.equip,
        resolve_model=resolve,
        features=company.features,
        background_after=ground.settings.own.background_after_seconds,
    )


def _main(parts: Parts, workshop: Workshop) -> Agent:
    options, ground, opened = parts.options, parts.ground, parts.opened
    definition = parts.company.main_definition
    kit = parts.company.main_kit()
    before = opened.history.rendered
    model = _model(parts)
    effort = options.effort or (definition and definition.effort)
    effort = effort or (before.effort if before else ground.settings.effort)
    mode = options.mode or (definition and definition.permission_mode) or ground.settings.permissions.default_mode
    limits = build_limits(options.limits, ground.settings)
    if definition is not None and limits.turns is None:
        limits = replace(limits, turns=definition.max_turns)
    shape = Shape(
        id=AgentId(opened.id), name="main", kind="main", model=model, effort=effort, kit=kit, desk=build_desk(parts),
        mode=mode or "default", meter=AgentMeter(limits, cost, time.monotonic),
    )  # fmt: skip
    main = workshop.make(shape, opened.history, opened.transcript)
    asked = options.system_prompt is not None or options.append_system_prompt or options.agent
    same = before and not asked and before.model == model and before.effort == effort
    served = bool(parts.company.extras.serving.configs)  # those tools are still to come
    if before and same and (served or prompts.get(opened.files.prompts, before.prompt)[1] == kit.specs):
        main.prompt = workshop.stored_prompt(before.prompt)
    else:
        prompt = workshop.prompt("main", lambda: _main_system(parts, model), kit.specs)
        main.render(prompt, model, "resume" if before else "start", effort)
    main.set_mode(mode or "default")
    return main


def _main_system(parts: Parts, model: str) -> tuple[str, ...]:
    definition = parts.company.main_definition
    if definition is None:
        return _system(parts, model, parts.ground.cwd, own=parts.options.system_prompt, main=True)
    told = parts.company.extras.told(definition)
    return (*_system(parts, model, parts.ground.cwd, own=definition.prompt, main=True), *told)


def _rerender(parts: Parts, workshop: Workshop, main: Agent, served: Mapping[str, Tool] | None) -> None:
    """Other tools are there now. What has been rendered with the very same tools stays."""
    kit = parts.company.main_kit(served)
    main.use_tools(kit.tools, kit.limits)
    if main.prompt.tools != kit.specs:
        prompt = workshop.prompt(object(), lambda: _main_system(parts, main.model), kit.specs)
        main.render(prompt, main.model, "tools", main.effort)


def _model(parts: Parts) -> str:
    """As asked for; else the session's own; else the default."""
    names, before, definition = parts.names, parts.opened.history.rendered, parts.company.main_definition
    if names.model:
        return names.model
    if definition and definition.model and definition.model != "inherit":
        return names.resolve(definition.model)
    if before and before.model != GIVEN:
        return before.model
    return names.default or names.resolve(default_model(parts.ground.env, parts.ground.settings.model))


def _system(parts: Parts, model: str, cwd: Path, *, own: str | None, main: bool = False) -> tuple[str, ...]:
    ground, options = parts.ground, parts.options
    found = instructions.collect(
        cwd, ground.project, home=ground.user, state=ground.home.root, trusted=ground.trusted,
        sources=options.setting_sources,
    )  # fmt: skip
    place = Place(
        str(cwd), _platform(), time.strftime("%Y-%m-%d"), model,
        git=(ground.project / ".git").exists(), directories=tuple(map(str, _roots(parts)[1:])),
    )  # fmt: skip
    if main:
        parts.notes.extend(found.problems)
    append = options.append_system_prompt if main else ""
    noted = earlier_notes(ground, parts.notes) if main else ""
    told = "\n\n".join(filter(None, (instructions.render(found), noted)))
    return system_prompt(place, told, own=own, append=append, bare=main and options.system_prompt is not None)


def _platform() -> str:
    """Without the program that `platform.platform` starts for it."""
    system = os.uname()
    return f"{system.sysname} {system.release} {system.machine}"


def build_limits(limits: Limits, settings: Settings) -> Limits:
    """The command line's, else the settings'."""
    budget = settings.own.budget
    usd = budget.usd if limits.usd is None else limits.usd
    return Limits(limits.turns, usd, limits.tokens or budget.tokens, limits.seconds or budget.seconds)


def _roots(parts: Parts) -> tuple[Path, ...]:
    ground = parts.ground
    more = (*(ground.cwd / d for d in parts.options.add_dirs), *ground.settings.permissions.additional_directories)
    return tuple(dict.fromkeys((ground.cwd, *(d.resolve() for d in more if d.is_dir()))))


def build_desk(parts: Parts) -> Desk:
    opened, roots = parts.opened, _roots(parts)
    kept = Path(opened.history.cwd)
    cwd = kept if kept.is_dir() and any(kept.is_relative_to(root) for root in roots) else parts.ground.cwd
    env = {"TEAMWRIGHT_AGENT_ID": opened.id, "TEAMWRIGHT_AGENT_NAME": "main", "TEAMWRIGHT_PARENT_SESSION_ID": opened.id}
    near = all(is_near(root) for root in roots)
    return Desk(cwd, roots, dict(opened.history.seen), opened.files.outputs, parts.rules.hides, near=near, env=env)


async def _take_over(parts: Parts, jobs: Jobs, spawner: Spawner, workshop: Workshop) -> None:
    """What an earlier process left: agents that can be continued, jobs that ended with it, calls without a result."""
    opened, table = parts.opened, JobTable(parts.state.database)
    if opened.new:
        return
    rows = await jobs.settle_after_crash(opened.answered, workshop.output)
    for agent in await table.agents(opened.id):
        runs = [row for row in rows if row.id == agent.id]
        description = runs[-1].description if runs else agent.kind
        spawner.known[agent.id] = Known(
            agent.id, agent.name, agent.kind, agent.parent, agent.depth, description, runs[-1].run if runs else 0
        )
    # A copy of a session has calls that were made under the other one's id.
    tasks = None if parts.options.origin.fork else parts.company.get_board().table.applied
    made = parts.company.get_schedules().made_by
    left = Left({(row.owner, row.call): row for row in rows if row.call}, parts.state.has_letter, tasks, made)
    left = replace(left, teams=parts.company.get_teamwork().teams.tables.teams.made_by if tasks else None)
    spawner.answers = left.answers
    await close_open_calls(opened, left)
    board = parts.company.get_board()
    for name in await board.table.lists(opened.id):
        parts.notes += await board.rebuild(name)


async def _go_back(parts: Parts, rooms: Rooms, main: Agent) -> None:
    """Into the worktree that the main agent was in. If that cannot be, the model must know before it edits anything."""
    if words := await rooms.come_back(main.id, main.desk, Path(parts.opened.history.cwd)):
        parts.notes.append(words)
        main.emit(Reminded(user(words)))
    if left := await left_behind(parts.ground.project):
        names = ", ".join(left)
        parts.notes.append(f"worktrees left by a process that is gone: {names}; `teamwright worktrees` shows them")


def _reread(opened: Opened, files: SessionFiles, agent: AgentId, since: int) -> Iterator[Record]:
    path = opened.files.transcript if agent == opened.id else files.agent(agent)
    for n, line in transcripts.read(path, since):
        yield Record(agent, n, line.at, line.event)
