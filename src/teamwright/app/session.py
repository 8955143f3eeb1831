"""Opens a session: its setup, its store, its services, its main agent."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.app.agents.lean import choose_lean
from teamwright.app.agents.main_agent import make_main
from teamwright.app.agents.prompts import news_of
from teamwright.app.options import Options
from teamwright.app.services import Services
from teamwright.app.setup import Setup, Store, read_setup
from teamwright.app.workspace import Workspace, names_engine
from teamwright.core.crashpoint import arm
from teamwright.core.data.claude_lines import CONFIG
from teamwright.core.data.event import Reminded
from teamwright.core.data.message import user
from teamwright.core.ids import AgentId
from teamwright.core.text import few, shown
from teamwright.host.git import PLACE
from teamwright.host.git.places import top_of
from teamwright.host.process.rlimits import allow_many_files
from teamwright.models.prices import cost
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.resume import Opened, close_open_calls, open_history
from teamwright.runtime.services import SessionPlan
from teamwright.runtime.session import Session
from teamwright.store.files.paths import STATE, Home, write_name
from teamwright.store.files.transcripts import Transcript
from teamwright.store.tables.state import NOTHING_LEFT, StateStore, now_ms

if TYPE_CHECKING:
    from teamwright.store.engine.space import Space
    from teamwright.store.tables.jobs import JobRow, NewAgent

MOST_LEFT = 10  # left worktrees that are named at a start


async def open_session(options: Options) -> Session:
    """Make everything that a session needs; it begins to live inside `async with`."""
    if point := options.env.get("TEAMWRIGHT_CRASHPOINT"):
        arm_crashpoint(point)
    allow_many_files()
    setup = read_setup(options)
    space = await open_engine(options, setup.workspace) if names_engine(options, setup.workspace) else None
    try:
        return await _open_on(setup, space)
    except BaseException:
        if space is not None:
            await space.close()
        raise


async def open_engine(options: Options, workspace: Workspace, *, member: bool = False) -> "Space | None":
    """Imports nothing if no engine is named. A teammate's process has no session to fetch."""
    if not names_engine(options, workspace):
        return None
    from teamwright.app.engine import open_member_space, open_session_space  # noqa: PLC0415

    return await (open_member_space if member else open_session_space)(options, workspace)


async def _open_on(setup: Setup, space: "Space | None") -> Session:
    options, workspace = setup.options, setup.workspace
    home, made = (workspace.home, Transcript) if space is None else (space.home, space.transcripts)
    if options.origin.resume and options.env.get(CONFIG):
        _bring(options, home)
    opened = open_history(options.origin, home, workspace.cwd, made)
    try:
        if await choose_lean(setup, opened):
            setup.registry.use_lean()
        state = await _open_state(home, opened, space)
        setup.notes.extend((*opened.notes, *state.database.notes))
        store = Store(opened.id, opened.files, state, opened.lock, opened.ended_at, opened.new, space, space and home)
        git = None
        if not options.driven and top_of(str(workspace.cwd)):
            from teamwright.host.git.now import read_now  # noqa: PLC0415

            git = await read_now(workspace.cwd)
        since = None if space is None else await space.now()
        return await _open(Services(setup, store, since, git), opened)
    except BaseException:
        opened.transcript.close()
        opened.lock.release()
        raise


def _bring(options: Options, home: Home) -> None:
    from teamwright.app.brought.mirroring import bring  # noqa: PLC0415

    bring(options.origin, home, options.env)


def arm_crashpoint(point: str) -> None:
    """Arm NAME:PASS, for tests of what a kill leaves behind."""
    name, _, passes = point.partition(":")
    arm(name, int(passes or 1))


async def _open_state(home: Home, opened: Opened, space: "Space | None") -> StateStore:
    state = await StateStore.open(home.root / STATE) if space is None else StateStore(space.database)
    started = opened.history.started
    assert started is not None
    await state.begin_session(opened.id, started.cwd, now_ms())
    if space is not None:
        from teamwright.app.engine import claim_main  # noqa: PLC0415

        await claim_main(space, opened.id)
    if opened.history.messages:
        await state.settle_orphans(opened.id, cost)
    return state


async def _open(services: Services, opened: Opened) -> Session:
    options, workspace, definition = services.options, services.workspace, services.registry.main_definition
    own, state, space = workspace.settings.own, services.store.state, services.store.space
    services.extensions.add_hooks()
    main = make_main(services, opened)
    if options.name:
        write_name(opened.files, options.name)
    if opened.new:
        words = definition.initial_prompt if definition is not None else ""
        if services.sandbox_setup is not None:
            _note_tier(services, resumed=False)
    else:
        words = await _resume(services, opened, main)
    if space is not None:
        await _settle_place(services, space, opened, main)
    if workspace.project.joinpath(*PLACE).is_dir():
        await _name_left_worktrees(services, workspace.project)
    if words:
        main.emit(Reminded(user(words)))
    _ = services.places  # this may add a note for the person
    if own.mirror_sessions or options.env.get(CONFIG):
        from teamwright.app.brought.mirroring import open_mirror  # noqa: PLC0415

        open_mirror(services, opened)
    before = None if opened.new else await state.spent(opened.id)
    plan = SessionPlan(
        cwd=workspace.cwd,
        notes=tuple(services.notes),
        left=NOTHING_LEFT if opened.new else await state.left_by(opened.id),
        spent=before.usd if before else 0.0,
        unpriced=before is not None and before.unknown_cost,
        team=options.team,
        listens=any((own.prompt_suggestions, own.session_memory, own.consolidate_memory)),
        tick_seconds=own.proactive_seconds if options.proactive else None,
        driven=options.driven,
        code_leads=options.code_leads,
        may_bypass=options.may_bypass or main.mode == "bypassPermissions",
        trace="" if services.telemetry_wanted is None else _watch(services, new=opened.new),
        home=services.store.home,
        engine=None if space is None else {"url": str(space.address), "space": space.address.space},
    )
    return Session(services, main, plan)


async def _settle_place(services: Services, space: "Space", opened: Opened, main: Agent) -> None:
    from teamwright.app.engine_place import settle_place  # noqa: PLC0415

    await settle_place(space, opened.id, services.workspace.cwd, main, resumes=not opened.new)


async def _resume(services: Services, opened: Opened, main: Agent) -> str:
    """Continue where an earlier process ended; returns what the main agent must be told of changes."""
    await _take_over(services, opened)
    services.bus.agents[main.id] = opened.transcript.lines  # including results of calls that a crash left open
    await _go_back(services, main, Path(opened.history.cwd))
    _note_tier(services, resumed=True)
    return news_of(services, main)


def _note_tier(services: Services, *, resumed: bool) -> None:
    from teamwright.app.sandbox import tier_change  # noqa: PLC0415  # most sessions have none

    files = services.store.files
    if words := tier_change(files.dir, services.sandbox_status, resumed=resumed):
        services.notes.append(words)


def _watch(services: Services, *, new: bool) -> str:
    """Start telemetry; returns the trace of the program that started this one, if any."""
    from teamwright.app.telemetry import begin, caller_trace  # noqa: PLC0415

    begin(services, new=new)
    return caller_trace(services.options)


async def _take_over(services: Services, opened: Opened) -> None:
    """Take over from an earlier process: agents that can continue, jobs that ended with it, calls without a result."""
    from teamwright.runtime.agents.remains import RemainsOnDisk  # noqa: PLC0415
    from teamwright.store.tables.jobs import JobTable  # noqa: PLC0415

    options, state = services.options, services.store.state
    table = JobTable(state.database)
    agents = await table.agents(opened.id)
    remains = RemainsOnDisk(services.agents, main=AgentId(opened.id), history=opened.history)
    held = await _run_elsewhere(services, agents) if agents else ()
    waited_for = await table.waited_for(opened.id) if agents else ()  # what is settled here ends only now
    rows = await services.jobs.settle_after_crash(remains, held=held)
    if agents:
        _know(services, agents, rows)
        services.unheard = (
            [id for id in waited_for if id in services.spawner.known and id not in held] if waited_for else ()
        )
    if any(row.kind == "remote" for row in rows) and not options.origin.fork:
        services.left_remote = rows
    if opened.history.open_calls:
        await close_open_calls(opened, services.left)
    if (await state.left_by(opened.id)).tasks:
        board = services.board
        for name in await board.table.lists(opened.id):
            services.notes += await board.rebuild(name)


async def _run_elsewhere(services: Services, agents: "Sequence[NewAgent]") -> set[AgentId]:
    """Agents that other processes run, with those that they have started: teammates may outlive their lead."""
    from teamwright.store.tables.processes import ProcessTable  # noqa: PLC0415

    store = services.store
    home, database = store.home or services.workspace.home, store.state.database
    found = set(await ProcessTable(database, home.run).held()) - {AgentId(store.session)}
    for agent in agents:  # in the order of their start
        if agent.parent in found:
            found.add(agent.id)
    return found


def _know(services: Services, agents: "Sequence[NewAgent]", rows: "Sequence[JobRow]") -> None:
    """Note agents that a message can resume. A teammate has no job: only its team resumes it, which may have another
    lead by now."""
    from teamwright.runtime.agents.sub_agents import AgentRecord  # noqa: PLC0415

    last: dict[str, JobRow] = {row.id: row for row in rows}
    for agent in agents:
        if (run := last.get(agent.id)) is not None:
            services.spawner.known[agent.id] = AgentRecord(
                agent.id, agent.name, agent.kind, agent.parent, agent.depth, run.description, run.run
            )


async def _go_back(services: Services, main: Agent, cwd: Path) -> None:
    """Return to the worktree that the main agent was in. If that fails, the model must know before it edits
    anything."""
    store = services.store
    if not store.stays.is_dir():
        return
    if words := await services.worktrees.resume(main.id, main.desk, cwd):
        services.notes.append(words)
        main.emit(Reminded(user(words)))


async def _name_left_worktrees(services: Services, project: Path) -> None:
    from teamwright.host.git.worktrees.record import left_behind  # noqa: PLC0415

    left = await left_behind(project)
    if not left:
        return
    from teamwright.store.tables.member_worktrees import housed  # noqa: PLC0415

    # their members come back to them
    kept = {member.worktree for member in (await housed(services.teams.tables.teams)).values()}
    names = [shown(path.name, 80) for path in left if str(path) not in kept]
    words = f"worktrees left by a process that is gone: {few(names, MOST_LEFT)}; `teamwright worktrees` shows them"
    services.notes += [words] if names else []
