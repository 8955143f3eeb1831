"""Reads the setup of a process, in which all errors of a person show, and describes its store."""

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.app.agents.registry import AgentRegistry
from teamwright.app.extensions.service import Configured, read_configured
from teamwright.app.models import Models, open_models
from teamwright.app.options import Options
from teamwright.app.workspace import NUMBERS, Workspace, check_numbers, open_workspace, read_rules, tell_git
from teamwright.core.errors import StoreError, UsageError
from teamwright.core.ids import AgentId, SessionId
from teamwright.core.text import shown
from teamwright.osfiles.locks import Lock
from teamwright.runtime.permissions.rulebook import Rulebook
from teamwright.store.files.paths import Home, SessionFiles, is_unsaid, remove_files
from teamwright.store.tables.state import StateStore

if TYPE_CHECKING:
    from teamwright.app.sandbox import SandboxSetup
    from teamwright.store.engine.space import Space
    from teamwright.telemetry.settings import TelemetryOptions


_TELEMETRY = re.compile(r"OTEL_|.*_ENABLE_TELEMETRY$", re.DOTALL)
_HURRY = 10.0  # seconds


class Setup(Struct, frozen=True):
    """What a process needs before anything of its session is opened. Reading it finds all that a person can get
    wrong."""

    options: Options
    workspace: Workspace
    rules: Rulebook
    models: Models
    written: Configured
    registry: AgentRegistry
    notes: list[str]  # for the person
    sandbox: "SandboxSetup | None" = None  # None: off
    telemetry: "TelemetryOptions | None" = None  # None: off


def read_setup(options: Options) -> Setup:
    workspace = open_workspace(options)
    settings, fence = workspace.settings, workspace.settings.sandbox
    if not NUMBERS.keys().isdisjoint(workspace.env):
        check_numbers(workspace.env)
    if settings.permissions.bypass_off:
        _check_bypass(options, settings.permissions.bypass_off)
    tell_git(workspace)
    rules, problems = read_rules(options, workspace)
    models = open_models(options, workspace)
    written = read_configured(options, workspace)
    sandbox = _read_fence(options, workspace) if options.sandbox or fence.values.enabled else None
    registry = AgentRegistry(options, workspace, rules, written, sandbox.words if sandbox else None)
    notes = [*workspace.notes, *problems, *registry.problems, *written.problems]
    if sandbox is not None:
        from teamwright.app.sandbox import sandbox_notes  # noqa: PLC0415

        notes.extend(sandbox_notes(sandbox))
    if any((settings.layers, written.unread, registry.unread)):
        notes.extend(_news(workspace, written, registry))
    telemetry = None
    if any(map(_TELEMETRY.match, workspace.env)):
        telemetry = _read_telemetry(options, workspace, notes)
    return Setup(options, workspace, rules, models, written, registry, notes, sandbox, telemetry)


def _read_telemetry(options: Options, workspace: Workspace, notes: list[str]) -> "TelemetryOptions | None":
    """Imports nothing if nothing mentions telemetry."""
    from teamwright.app.telemetry import read_telemetry  # noqa: PLC0415

    wanted, told = read_telemetry(options, workspace)
    notes.extend(told)
    return wanted


def _read_fence(options: Options, workspace: Workspace) -> "SandboxSetup | None":
    from teamwright.app.sandbox import read_sandbox  # noqa: PLC0415  # nothing of it where it is off

    return read_sandbox(options, workspace)


def _news(workspace: Workspace, written: Configured, registry: AgentRegistry) -> list[str]:
    from teamwright.app.brought.unread import all_unread, news_of_unread  # noqa: PLC0415  # few bring such things

    line = news_of_unread(all_unread(workspace, written, registry), workspace)
    return [line] if line else []


def _check_bypass(options: Options, file: str) -> None:
    if options.may_bypass or options.mode == "bypassPermissions":
        raise UsageError(
            f"bypassPermissions is turned off by permissions.disableBypassPermissionsMode in {shown(file, 500)}"
        )


class Store(Struct, frozen=True):
    """Where a session is stored."""

    session: SessionId
    files: SessionFiles
    state: StateStore
    lock: Lock
    ended_at: int = 0  # when the previous process ended, in milliseconds; 0: there was none
    new: bool = False  # the session begins in this process
    space: "Space | None" = None  # the engine's space that holds all of it
    home: Home | None = None  # the space's home, which holds its files; None: the person's own

    @property
    def stays(self) -> Path:
        """Notes about agents that have entered a worktree by themselves."""
        return self.files.dir / "rooms"

    async def forget_unsaid(self) -> None:
        """Remove a session in which nothing was said. If that fails, it is not listed anyway."""
        if not self.new or not is_unsaid(self.files):
            return
        with suppress(StoreError):
            if await self.state.forget_unused(self.session):
                remove_files(self.files)
                if self.space is not None:
                    await self.space.forget(AgentId(self.session))

    def hurry(self) -> None:
        """The process is to end: wait no longer for an engine that is away."""
        if self.space is not None:
            self.space.hurry(_HURRY)

    async def close(self) -> None:
        await (self.state.close() if self.space is None else self.space.close())
