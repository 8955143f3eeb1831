"""Builds parts of the services that are put together from many others."""

from functools import partial
from typing import TYPE_CHECKING

from teamwright.core.data.event import Warned
from teamwright.runtime.agents.outcomes import Books, Outcomes, outcomes_of
from teamwright.runtime.agents.sub_agents import SpawnDeps

if TYPE_CHECKING:
    from teamwright.app.services import Services
    from teamwright.runtime.jobs.schedule import Schedules
    from teamwright.runtime.jobs.shell_jobs import ShellJobs
    from teamwright.runtime.worktrees import Worktrees


def make_spawn_deps(services: "Services") -> SpawnDeps:
    registry, extensions, own = services.registry, services.extensions, services.workspace.own
    return SpawnDeps(
        kinds=registry.startable,
        refusal=registry.refusal,
        absence=registry.absence,
        toolset=services.make_toolset,
        toolset_of=services.restore_toolset,
        mode=services.narrow_mode,
        system=services.system,
        told=extensions.told,
        equip=extensions.equip,
        resolve_model=services.models.checked,
        features=registry.features,
        background_after=own.background_after_seconds,
    )


def open_schedules(services: "Services") -> "Schedules":
    from teamwright.host.timezone import local_zone  # noqa: PLC0415
    from teamwright.runtime.jobs.schedule import Schedules, WallClock  # noqa: PLC0415
    from teamwright.store.tables.schedules import ScheduleTable  # noqa: PLC0415

    options, workspace, supervisor = services.options, services.workspace, services.supervisor
    state, inbox = services.store.state, supervisor.main.inbox
    schedules = Schedules(
        ScheduleTable(state.database),
        services.store.session,
        services.main,
        clock=WallClock(),
        zone=partial(local_zone, workspace.env),
        ring=inbox.ring,
        log=services.log,
        stays=options.proactive or options.assistant or workspace.own.assistant,
    )
    supervisor.launch(schedules.run)
    return schedules


def make_outcomes(services: "Services") -> Outcomes:
    from teamwright.store.tables.schedules import ScheduleTable  # noqa: PLC0415

    state, tables = services.store.state, services.teams.tables
    books = Books(
        session=services.store.session,
        mail=tables.mail,
        requests=tables.requests,
        teams=tables.teams,
        tasks=services.board.table,
        schedules=ScheduleTable(state.database),
    )
    return outcomes_of(services.jobs, state.has_letter, books, services.registry.catalog)


def open_shell_jobs(services: "Services") -> "ShellJobs":
    from teamwright.runtime.jobs.shell_jobs import ShellJobs  # noqa: PLC0415
    from teamwright.tools.bounds import visible  # noqa: PLC0415

    output, silence = services.agents.output, services.workspace.own.silence_seconds
    return ShellJobs(services.supervisor, output, services.log, clean=visible, silence=silence)


def open_worktrees(services: "Services") -> "Worktrees":
    from teamwright.host.sandbox.guard.claims import MADE  # noqa: PLC0415
    from teamwright.runtime.extensions.hook_services import WorktreeHooks  # noqa: PLC0415
    from teamwright.runtime.worktrees import Worktrees  # noqa: PLC0415

    hooks, store, workspace = WorktreeHooks(services, services.main), services.store, services.workspace
    root = workspace.home.root
    return Worktrees(
        workspace.settings.symlink_directories,
        session=store.session,
        notes=store.stays,
        make_by_hook=hooks.make,
        removed_by_hook=hooks.removed,
        claims=root.joinpath(*MADE),
        warn=lambda words: services.tell(services.main, Warned(words)),
    )
