"""A teammate's own process, put together: one agent of a session that somebody else leads."""

import time
from collections.abc import Mapping

from teamwright.app.agent_registry import AgentRegistry
from teamwright.app.main_agent import build_limits
from teamwright.app.models import open_models
from teamwright.app.options import Options
from teamwright.app.parts import Parts
from teamwright.app.services import build_services, left_by, look_up
from teamwright.app.teammate_places import Packed, unpack
from teamwright.app.teams import open_teamwork
from teamwright.app.workspace import open_workspace, read_rules, tell_git
from teamwright.core.crashpoint import arm
from teamwright.core.data.history import History
from teamwright.core.errors import SessionMissing
from teamwright.models.prices import cost
from teamwright.osfiles.locks import hold
from teamwright.runtime.agents.meter import AgentMeter
from teamwright.runtime.agents.resume import Opened
from teamwright.runtime.teams.remote.permission_relay import PermissionForwarder
from teamwright.runtime.teams.remote.process_main import TeammateProcess
from teamwright.store.files.paths import SessionFiles, find_transcript
from teamwright.store.files.transcripts import Transcript
from teamwright.store.tables.jobs import JobTable
from teamwright.store.tables.state import StateStore


async def open_member(env: Mapping[str, str]) -> TeammateProcess:
    """From what the lead handed on; it begins to live inside `async with`."""
    if point := env.get("TEAMWRIGHT_TEAMMATE_CRASHPOINT"):  # as TEAMWRIGHT_CRASHPOINT, for these processes alone
        name, _, passes = point.partition(":")
        arm(name, int(passes or 1))
    packed, options = unpack(env)
    forwarder = PermissionForwarder(packed.agent)
    options.answer = forwarder.put
    parts = await _open_parts(packed, options)
    ground, state = parts.ground, parts.state
    core = build_services(parts)
    meter = AgentMeter(build_limits(options.limits, ground.settings), cost, time.monotonic)
    teamwork = open_teamwork(parts, core, meter)
    parts.company.teamwork = teamwork
    parts.company.introduce(core.spawner, core.supervisor, core.workshop, core.rooms, core.questions.put)
    core.workshop.outcomes = look_up(parts, core.jobs)
    left = left_by(core.workshop.outcomes, await JobTable(state.database).all(packed.session))
    teamwork.factory.answers = left.after_crash
    forwarder.join(teamwork.tables.requests, teamwork.roster, teamwork.wakeups, core.supervisor)

    async def close() -> None:
        try:
            await core.rooms.let_all_go()
            await state.close()
        finally:
            await parts.models.aclose()
            parts.opened.lock.release()

    return TeammateProcess(
        packed.agent,
        core.supervisor,
        teamwork,
        core.bus,
        parts.company.extras,
        close,
        patience=ground.settings.own.adopt_seconds,
    )


async def _open_parts(packed: Packed, options: Options) -> Parts:
    """As for a session, but of its main transcript nothing is opened: that is the lead's."""
    ground = open_workspace(options)
    tell_git(ground)
    rules, problems = read_rules(options, ground)
    path = find_transcript(ground.home, packed.session)
    if path is None:
        raise SessionMissing(f"there is no session {packed.session}")
    lock = hold(ground.home.run / f"teammate-{packed.agent}.lock", 5.0)
    if lock is None:
        raise SessionMissing(f"the teammate {packed.agent} runs in another process already")
    state = await StateStore.open(ground.home.state)
    models, names = open_models(options, ground)
    history = History()
    history.cwd = str(ground.cwd)
    opened = Opened(packed.session, SessionFiles(path), Transcript(path, -1, 0, 0), history, lock, [])
    return Parts(
        options=options,
        ground=ground,
        rules=rules,
        models=models,
        names=names,
        company=AgentRegistry(options, ground, rules),
        opened=opened,
        state=state,
        notes=problems,
        mode=packed.mode,
        since=packed.since,
    )
