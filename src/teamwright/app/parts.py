"""What a session is put together from, as far as it has been opened."""

from msgspec import Struct, field

from teamwright.app.agent_registry import AgentRegistry
from teamwright.app.models import Names
from teamwright.app.options import Options
from teamwright.app.workspace import Workspace
from teamwright.core.data.event import Event, Record
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Mode
from teamwright.host.git.now import GitNow
from teamwright.models.routed import RoutedModel
from teamwright.runtime.agents.factory import AgentFactory
from teamwright.runtime.agents.resume import Opened
from teamwright.runtime.agents.spawner import Spawner
from teamwright.runtime.agents.sub_agents import SpawnDeps
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.bus import Bus
from teamwright.runtime.extensions.hook_services import TeamHooks
from teamwright.runtime.jobs.jobs import Jobs
from teamwright.runtime.permissions.questions import Questions
from teamwright.runtime.permissions.rulebook import Rulebook
from teamwright.runtime.worktrees import Worktrees
from teamwright.store.files.logs import Log
from teamwright.store.tables.state import StateStore, now_ms


class Parts(Struct, kw_only=True):
    """What has been opened so far."""

    options: Options
    ground: Workspace
    rules: Rulebook
    models: RoutedModel
    names: Names
    company: AgentRegistry
    opened: Opened
    state: StateStore
    notes: list[str]
    mode: Mode | None = None  # the session's, where the main agent does not live here
    since: int = field(default_factory=now_ms)  # when the lead's process began
    git: GitNow | None = None  # the repository, as the session began


class Services(Struct, kw_only=True):
    """What lives, while it is put together."""

    log: Log
    bus: Bus
    jobs: Jobs
    rooms: Worktrees
    supervisor: Supervisor
    questions: Questions
    workshop: AgentFactory
    spawner: Spawner
    ways: SpawnDeps
    team_hooks: TeamHooks

    def tell(self, agent: AgentId, event: Event) -> None:
        self.bus.publish(Record(agent, 0, now_ms(), event))
