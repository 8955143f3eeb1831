"""Dependencies of teams from the composition root, and ports between their parts."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.tasks import Task
from teamwright.core.data.team import Backend, Member
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Mode
from teamwright.core.ports import Desk
from teamwright.host.panes.base import Panes
from teamwright.runtime.agents.limits.meter import AgentMeter
from teamwright.runtime.agents.spec import Toolset
from teamwright.runtime.agents.sub_agents import Served, SpawnDeps
from teamwright.runtime.permissions.call_facts import FactReader
from teamwright.runtime.services import Services
from teamwright.runtime.teams.rooms import Hosting
from teamwright.store.files.paths import Home
from teamwright.store.tables.mail_insert import LIMITS, MailLimits
from teamwright.store.tables.state import StateStore

Command = Callable[[Member, Mode], tuple[Sequence[str], Mapping[str, str]]]  # argv and environment


class TeammateControl(Protocol):
    """Reaches the teammates of this process: for the parts that are made before them. `Teamwork` is it."""

    async def resume_member(self, member: Member) -> None:
        """Nobody runs it, and something waits for it."""
        ...

    async def look(self) -> None:
        """Another process has changed the store."""
        ...

    async def apply_answers(self, member: Member) -> None:
        """A request of this member is answered."""
        ...

    def finished(self, agent: AgentId, task: Task) -> None:
        """An agent has completed a task."""
        ...


class Base(Struct, frozen=True):
    """What every teammate starts from."""

    desk: Desk
    meter: AgentMeter


class TeammateSetup(Protocol):
    """What a teammate is given."""

    def base(self) -> Base: ...

    def toolset(self, definition: AgentDefinition, served: Served) -> Toolset: ...

    def system(self, definition: AgentDefinition, model: str, cwd: Path, member: Member) -> tuple[str, ...]: ...

    def find_cwd(self, named: str) -> Path | None:
        """The directory of that name, as it is here; None if there is none."""
        ...


class TeammatePlaces(Struct, frozen=True):
    """Processes of their own for teammates."""

    panes: Panes
    backend: Backend
    command: Command


class TeamDeps(Struct, frozen=True, kw_only=True):
    """What teams are built on."""

    services: Services
    state: StateStore
    home: Home
    env: Mapping[str, str]
    facts: FactReader
    spawning: SpawnDeps
    setup: TeammateSetup
    patience: float  # seconds for the answer to a shutdown request
    limits: MailLimits = LIMITS
    ended_at: int = 0  # when the process before this one ended, in milliseconds; 0: there was none
    since: int = 0  # when the lead's process began, in milliseconds: what is spent from then on counts
    places: TeammatePlaces | None = None  # None: in this process
    copies: Path | None = None  # where JSON copies are for people, if not in `home`: of a session in an engine
    hosting: Hosting | None = None  # on a worker
