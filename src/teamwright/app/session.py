"""Opens a session: its setup, its store, its services, its main agent."""

from collections.abc import Mapping
from pathlib import Path

from teamwright.app.lean import choose_lean
from teamwright.app.main_agent import make_main
from teamwright.app.options import Options
from teamwright.app.prompts import news_of
from teamwright.app.services import Services
from teamwright.app.setup import Store, read_setup
from teamwright.core.crashpoint import arm
from teamwright.core.data.event import Reminded
from teamwright.core.data.message import user
from teamwright.core.ids import AgentId
from teamwright.core.text import shown
from teamwright.host.git import PLACE
from teamwright.host.git.now import read_now
from teamwright.host.process.rlimits import allow_many_files
from teamwright.models.prices import cost
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.resume import Opened, close_open_calls, open_history
from teamwright.runtime.services import SessionPlan
from teamwright.runtime.session import Session
from teamwright.store.files.paths import Home
from teamwright.store.tables.state import StateStore, now_ms

MOST_LEFT = 10  # worktrees of earlier processes that are named at a start


async def open_session(options: Options) -> Session:
    """Make everything that a session needs; it begins to live inside `async with`."""
    arm_crashpoint(options.env, "TEAMWRIGHT_CRASHPOINT")
    allow_many_files()
    setup = read_setup(options)
    opened = open_history(options.origin, setup.workspace.home, setup.workspace.cwd)
    try:
        if await choose_lean(setup, opened):
            setup.registry.use_lean()
        state = await _open_state(setup.workspace.home, opened)
        setup.notes.extend((*opened.notes, *state.notes))
        store = Store(opened.id, opened.files, state, opened.lock, opened.ended_at)
        git = None if options.driven else await read_now(setup.workspace.cwd)
        return await _open(Services(setup, store, git=git), opened)
    except BaseException:
        opened.transcript.close()
        opened.lock.release()
        raise


def arm_crashpoint(env: Mapping[str, str], variable: str) -> None:
    """NAME:PASS, for tests of what a kill leaves behind."""
    if point := env.get(variable):
        name, _, passes = point.partition(":")
        arm(name, int(passes or 1))


async def _open_state(home: Home, opened: Opened) -> StateStore:
    state = await StateStore.open(home.state)
    started = opened.history.started
    assert started is not None
    await state.register_session(opened.id, started.cwd, now_ms())
    await state.register_agent(AgentId(opened.id), opened.id, None, "main", "main", 0)
    if opened.history.messages:
        await state.settle_orphans(opened.id, cost)
    return state


async def _open(services: Services, opened: Opened) -> Session:
    options, own = services.options, services.workspace.settings.own
    services.extensions.add_hooks()
    main = make_main(services, opened)
    if not opened.new:
        await _take_over(services, opened)
        await _go_back(services, main, Path(opened.history.cwd))
    await _name_left_worktrees(services)
    definition = services.registry.main_definition
    if opened.new and definition is not None and definition.initial_prompt:
        main.emit(Reminded(user(definition.initial_prompt)))  # a resumed one has it already
    elif not opened.new and (words := news_of(services, main)):
        main.emit(Reminded(user(words)))
    _ = services.places  # which the person may have to be told about
    plan = SessionPlan(
        cwd=services.workspace.cwd,
        notes=tuple(services.notes),
        resumes=not opened.new,
        team=options.team,
        listens=own.prompt_suggestions or own.session_memory or own.consolidate_memory,
        tick_seconds=own.proactive_seconds if options.proactive else None,
        driven=options.driven,
        code_leads=options.code_leads,
        may_bypass=options.may_bypass or main.mode == "bypassPermissions",
    )
    return Session(services, main, plan)


async def _take_over(services: Services, opened: Opened) -> None:
    """What an earlier process left: agents that can be continued, jobs that ended with it, calls without a result."""
    from teamwright.runtime.agents.sub_agents import AgentRecord  # noqa: PLC0415
    from teamwright.store.tables.jobs import JobTable  # noqa: PLC0415

    rows = await services.jobs.settle_after_crash(opened.answered, services.agents.output, opened.left)
    for agent in await JobTable(services.store.state.database).agents(opened.id):
        runs = [row for row in rows if row.id == agent.id]
        description = runs[-1].description if runs else agent.kind
        services.spawner.known[agent.id] = AgentRecord(
            agent.id, agent.name, agent.kind, agent.parent, agent.depth, description, runs[-1].run if runs else 0
        )
    await close_open_calls(opened, services.remember(rows, copied=services.options.origin.fork))
    board = services.board
    for name in await board.table.lists(opened.id):
        services.notes += await board.rebuild(name)


async def _go_back(services: Services, main: Agent, cwd: Path) -> None:
    """Into the worktree that the main agent was in. If that cannot be, the model must know before it edits anything."""
    if words := await services.worktrees.resume(main.id, main.desk, cwd):
        services.notes.append(words)
        main.emit(Reminded(user(words)))


async def _name_left_worktrees(services: Services) -> None:
    project = services.workspace.project
    if not project.joinpath(*PLACE).is_dir():
        return
    from teamwright.host.git.record import left_behind  # noqa: PLC0415

    left = await left_behind(project)
    if not left:
        return
    from teamwright.store.tables.member_worktrees import housed  # noqa: PLC0415

    kept = {member.worktree for member in (await housed(services.teams.tables.teams)).values()}  # it comes back to it
    names = [shown(path.name, 80) for path in left if str(path) not in kept]
    more = f" and {len(names) - MOST_LEFT} more" if len(names) > MOST_LEFT else ""
    told = f"{', '.join(names[:MOST_LEFT])}{more}"
    words = f"worktrees left by a process that is gone: {told}; `teamwright worktrees` shows them"
    services.notes += [words] if names else []
