"""What a process stands on before its services: the setup, which a person can get wrong, and the store."""

from msgspec import Struct

from teamwright.app.agent_registry import AgentRegistry
from teamwright.app.extensions import Configured, read_configured
from teamwright.app.models import Models, open_models
from teamwright.app.options import Options
from teamwright.app.workspace import Workspace, open_workspace, read_rules, tell_git
from teamwright.core.ids import SessionId
from teamwright.osfiles.locks import Lock
from teamwright.runtime.permissions.rulebook import Rulebook
from teamwright.store.files.paths import SessionFiles
from teamwright.store.tables.state import StateStore


class Setup(Struct, frozen=True):
    """What a process stands on before anything of its session is opened; all that a person can get wrong is in it."""

    options: Options
    workspace: Workspace
    rules: Rulebook
    models: Models
    written: Configured
    registry: AgentRegistry
    notes: list[str]  # for the person


def read_setup(options: Options) -> Setup:
    workspace = open_workspace(options)
    tell_git(workspace)
    rules, problems = read_rules(options, workspace)
    models = open_models(options, workspace)
    written = read_configured(options, workspace)
    registry = AgentRegistry(options, workspace, rules, written)
    notes = [*workspace.notes, *problems, *registry.problems, *written.problems]
    return Setup(options, workspace, rules, models, written, registry, notes)


class Store(Struct, frozen=True):
    """Where a session is stored."""

    session: SessionId
    files: SessionFiles
    state: StateStore
    lock: Lock
    ended_at: int = 0  # when the process before this one ended, in milliseconds; 0: there was none
