"""Puts a session together."""

from functools import partial
from pathlib import Path

from msgspec.structs import replace

from teamwright.app.agent_registry import AgentRegistry
from teamwright.app.asides import open_asides
from teamwright.app.main_agent import make_main, rerender
from teamwright.app.models import open_models
from teamwright.app.options import Options
from teamwright.app.parts import Parts, Services
from teamwright.app.prompts import news_of
from teamwright.app.schedules import open_schedules
from teamwright.app.services import build_services, left_by, look_up
from teamwright.app.teams import open_teamwork
from teamwright.app.workspace import Workspace, open_workspace, read_rules, tell_git
from teamwright.core.crashpoint import arm
from teamwright.core.data.event import Reminded
from teamwright.core.data.message import user
from teamwright.core.ids import AgentId
from teamwright.core.text import shown
from teamwright.host.git.now import read_now
from teamwright.host.git.record import left_behind
from teamwright.host.process.rlimits import allow_many_files
from teamwright.models.prices import cost
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.resume import Opened, close_open_calls, open_history
from teamwright.runtime.agents.sub_agents import AgentRecord
from teamwright.runtime.session import Session
from teamwright.runtime.teams.effort import Effort
from teamwright.runtime.worktrees import Worktrees
from teamwright.store.tables.jobs import JobTable
from teamwright.store.tables.member_worktrees import housed
from teamwright.store.tables.state import StateStore, now_ms

MOST_LEFT = 10  # worktrees of earlier processes that are named at a start


async def open_session(options: Options) -> Session:
    """Make everything that a session needs; it begins to live inside `async with`."""
    if point := options.env.get("TEAMWRIGHT_CRASHPOINT"):  # NAME:PASS, for tests of what a kill leaves behind
        name, _, passes = point.partition(":")
        arm(name, int(passes or 1))
    allow_many_files()
    ground = open_workspace(options)
    tell_git(ground)
    rules, problems = read_rules(options, ground)
    models, names = open_models(options, ground)
    company = AgentRegistry(options, ground, rules)
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


async def _open_state(ground: Workspace, opened: Opened) -> StateStore:
    state = await StateStore.open(ground.home.state)
    started = opened.history.started
    assert started is not None
    await state.register_session(opened.id, started.cwd, now_ms())
    await state.register_agent(AgentId(opened.id), opened.id, None, "main", "main", 0)
    if opened.history.messages:
        await state.settle_orphans(opened.id, cost)
    return state


async def _compose(parts: Parts) -> Session:
    options, ground, opened = parts.options, parts.ground, parts.opened
    own = ground.settings.own
    core = build_services(parts)
    teamwork = open_teamwork(parts, core)
    parts.company.teamwork = teamwork
    put = core.questions.put if options.can_ask or options.answer else None
    parts.git = None if options.driven else await read_now(ground.cwd)
    parts.company.introduce(core.spawner, core.supervisor, core.workshop, core.rooms, put)
    main = make_main(parts, core.workshop)
    core.supervisor.own(main)
    parts.company.extras.resolve_model = core.ways.resolve_model
    parts.company.extras.rerender = lambda served: rerender(parts, core.workshop, main, served)
    main.on_event = Effort(teamwork.mail, main).note
    main.inbox.on_read = partial(teamwork.mirrors.read_by, main.id)
    main.inbox.is_outdated = teamwork.roster.is_outdated
    schedules = parts.company.schedules = open_schedules(options, ground, parts.state, main, core.log.write)
    core.workshop.outcomes = look_up(parts, core.jobs, schedules)
    await _take_over(parts, core)
    teamwork.factory.answers = core.spawner.making.answers
    await _go_back(parts, core.rooms, main)
    _open_with(parts, main)
    return Session(
        opened.id, cwd=ground.cwd, main=main, bus=core.bus, meter=main.meter, questions=core.questions,
        supervisor=core.supervisor, resolve_model=parts.names.resolve, add_rules=parts.rules.add,
        remove_rules=parts.rules.remove, window=lambda: core.workshop.windows.of(main.model),
        pass_on=core.spawner.pass_on,
        kinds=parts.company.kinds, brought=parts.company.extras, model_names=parts.names.catalog.names(),
        may_bypass=options.may_bypass or main.mode == "bypassPermissions", notes=parts.notes,
        on_close=(lambda: _close(parts, core),),
        asides=open_asides(options, ground, main, core.supervisor, core.tell, core.log.write), teamwork=teamwork,
        resumes=not opened.new, team=options.team, schedules=schedules, driven=options.driven,
        tick_seconds=own.proactive_seconds if options.proactive else None,
    )  # fmt: skip


async def _close(parts: Parts, core: Services) -> None:
    try:
        await core.rooms.let_all_go()
        parts.opened.transcript.close()
        await parts.state.close()
    finally:
        await parts.models.aclose()
        parts.opened.lock.release()


async def _take_over(parts: Parts, core: Services) -> None:
    """What an earlier process left: agents that can be continued, jobs that ended with it, calls without a result."""
    opened, table, outcomes = parts.opened, JobTable(parts.state.database), core.workshop.outcomes
    if opened.new or outcomes is None:
        return
    jobs, spawner, workshop = core.jobs, core.spawner, core.workshop
    rows = await jobs.settle_after_crash(opened.answered, workshop.output, opened.left)
    for agent in await table.agents(opened.id):
        runs = [row for row in rows if row.id == agent.id]
        description = runs[-1].description if runs else agent.kind
        spawner.known[agent.id] = AgentRecord(
            agent.id, agent.name, agent.kind, agent.parent, agent.depth, description, runs[-1].run if runs else 0
        )
    # A copy of a session has calls that were made under the other one's id.
    left = left_by(outcomes, rows)
    if parts.options.origin.fork:
        left = replace(left, books=None)
    spawner.making.answers = left.after_crash
    await close_open_calls(opened, left)
    board = parts.company.get_board()
    for name in await board.table.lists(opened.id):
        parts.notes += await board.rebuild(name)


def _open_with(parts: Parts, main: Agent) -> None:
    """What the kind of agent that the session runs as puts before its first prompt; a resumed one has it already, and
    hears what is different now."""
    definition = parts.company.main_definition
    if parts.opened.new and definition is not None and definition.initial_prompt:
        main.emit(Reminded(user(definition.initial_prompt)))
    elif not parts.opened.new and (words := news_of(parts, main)):
        main.emit(Reminded(user(words)))


async def _go_back(parts: Parts, rooms: Worktrees, main: Agent) -> None:
    """Into the worktree that the main agent was in. If that cannot be, the model must know before it edits anything."""
    if words := await rooms.resume(main.id, main.desk, Path(parts.opened.history.cwd)):
        parts.notes.append(words)
        main.emit(Reminded(user(words)))
    if left := await left_behind(parts.ground.project):
        tables = parts.company.get_teamwork().tables
        kept = {member.worktree for member in (await housed(tables.teams)).values()}  # a teammate comes back to it
        names = [shown(path.name, 80) for path in left if str(path) not in kept]
        more = f" and {len(names) - MOST_LEFT} more" if len(names) > MOST_LEFT else ""
        told = f"{', '.join(names[:MOST_LEFT])}{more}"
        words = f"worktrees left by a process that is gone: {told}; `teamwright worktrees` shows them"
        parts.notes += [words] if names else []
