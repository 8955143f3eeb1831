"""The landing queue of a session, or of a command without one."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct
from msgspec.structs import replace

from teamwright.app.landing.check import choices_of
from teamwright.app.options import Options
from teamwright.app.workspace import Workspace, open_workspace, passed_names, read_rules, tell_git
from teamwright.core.errors import UsageError
from teamwright.core.ids import AgentId
from teamwright.host.process.environment import tool_environment
from teamwright.runtime.landing.service import LandDeps, Landing
from teamwright.store.files.paths import Home
from teamwright.store.tables.landing import LandTable
from teamwright.store.tables.state import StateStore
from teamwright.tools.bounds import bounded, visible

if TYPE_CHECKING:
    from teamwright.app.services import Services
    from teamwright.core.sandbox.rules import SandboxRules
    from teamwright.runtime.sandbox.fence import SessionFence
    from teamwright.store.acts.landing import SentBack

MOST_OUTPUT = 12_000  # characters of a check's output in a letter
_NOBODY = AgentId("landing")  # owner of checks that a command runs, with the rights that settings give


def _clean(text: str) -> str:
    return bounded(visible(text), most=MOST_OUTPUT)


def _environment(workspace: Workspace) -> dict[str, str]:
    return tool_environment(workspace.env, {}, passed_names(workspace))


def _claims(workspace: Workspace) -> str:
    from teamwright.host.sandbox.guard.claims import MADE  # noqa: PLC0415

    return str(workspace.home.root.joinpath(*MADE))


# --- in a session


def open_landing(services: "Services") -> Landing:
    workspace = services.workspace

    async def ring(sent: "SentBack") -> None:
        teams = services.teams
        if sent.member is not None:
            await teams.wakeups.ring(sent.member)
        elif sent.told is not None:
            services.supervisor.ring(sent.told)
        draft = sent.entry.draft
        if draft.list:
            await services.board.rebuild(draft.list)

    def fence() -> "SessionFence | None":
        return services.sandbox

    table = LandTable(services.store.state.database)
    deps = LandDeps(table, _environment(workspace), services.main, _clean, ring, fence, _claims(workspace))
    return Landing(deps, choices_of(workspace), workspace.cwd)


# --- for a command


class LandingPlace(Struct, frozen=True):
    """The queue without a session, and the store that it is in."""

    landing: Landing
    workspace: Workspace
    state: StateStore


@asynccontextmanager
async def landing_here(options: Options) -> AsyncGenerator[LandingPlace]:
    """Raises UsageError if the sandbox is on and nothing holds it."""
    from teamwright.app.session import arm_crashpoint  # noqa: PLC0415

    if point := options.env.get("TEAMWRIGHT_CRASHPOINT"):
        arm_crashpoint(point)
    workspace = open_workspace(options)
    tell_git(workspace)
    state = await StateStore.open(workspace.home.state)
    try:
        async with anyio.create_task_group() as group:
            fence = _open_fence(options, workspace)
            if fence is not None:
                fence.open(group)

            async def ring(sent: "SentBack") -> None:
                await _ring_all(workspace.home, state, sent)

            table = LandTable(state.database)
            deps = LandDeps(table, _environment(workspace), _NOBODY, _clean, ring, lambda: fence, _claims(workspace))
            try:
                yield LandingPlace(Landing(deps, choices_of(workspace), workspace.cwd), workspace, state)
            finally:
                if fence is not None:
                    fence.close()
                group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await state.close()


def with_choices(landing: Landing, *, check: str | None = None, target: str = "") -> None:
    """What the person says now outranks the settings."""
    now = landing.choices
    landing.choices = replace(now, check=now.check if check is None else check, target=target or now.target)


def _open_fence(options: Options, workspace: Workspace) -> "SessionFence | None":
    from teamwright.app.sandbox import FencePlace, plan_of, read_sandbox, sandbox_rules  # noqa: PLC0415

    setup = read_sandbox(options, workspace)
    if setup is None:
        return None
    if not setup.holds:
        raise UsageError(
            f"the sandbox is on, but nothing here can hold it ({setup.found.why}), and a check is not run without it; "
            "`teamwright doctor` says what is missing, --no-sandbox turns it off"
        )
    from teamwright.runtime.sandbox.fence import SessionFence  # noqa: PLC0415

    book, _ = read_rules(options, workspace)
    place = workspace.home.root / "landing"

    def rules(agent: AgentId) -> "SandboxRules":
        return sandbox_rules(setup, book.of(agent))

    def put() -> None:
        return None

    def log(_: str) -> None:
        return None

    plan = plan_of(setup, workspace, rules, FencePlace(place / "quarantine", (place / "outputs",)))
    return SessionFence(plan, _NOBODY, put, log)


async def _ring_all(home: Home, state: StateStore, sent: "SentBack") -> None:
    """Ring all processes, one of which may have the reader, and rewrite the files of the task list."""
    from teamwright.host.ipc.wakeup import ring  # noqa: PLC0415
    from teamwright.store.mirrors.task import TaskMirror  # noqa: PLC0415
    from teamwright.store.tables.processes import ProcessTable  # noqa: PLC0415
    from teamwright.store.tables.tasks import TaskTable  # noqa: PLC0415

    for process in await ProcessTable(state.database, home.run).living():
        ring(process.bell)
    draft = sent.entry.draft
    if draft.list:
        await TaskMirror(home.root, TaskTable(state.database)).rebuild(draft.list)
