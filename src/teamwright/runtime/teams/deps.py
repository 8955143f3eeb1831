"""What teams get from the composition root, and ports between their parts."""

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
from teamwright.runtime.agents.prompt import Seat
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
    """Reaches the teammates of this process, for parts that are made before them. `Teamwork` implements it."""

    async def resume_member(self, member: Member) -> None:
        """Resume a member that nobody runs, because something waits for it."""
        ...

    async def look(self) -> None:
        """Act on what another process has changed in the store."""
        ...

    async def apply_answers(self, member: Member) -> None:
        """Act on the answer to a request of this member."""
        ...

    def finished(self, agent: AgentId, task: Task) -> None:
        """An agent has completed a task."""
        ...


class Base(Struct, frozen=True):
    """What every teammate starts from."""

    desk: Desk
    meter: AgentMeter


class TeammateSetup(Protocol):
    """What a teammate is made with."""

    def base(self) -> Base: ...

    def toolset(self, definition: AgentDefinition, served: Served) -> Toolset: ...

    def system(self, definition: AgentDefinition, member: Member, seat: Seat) -> tuple[str, ...]: ...

    def find_cwd(self, named: str) -> Path | None:
        """The directory of that name on this machine; None if there is none."""
        ...


class TeammatePlaces(Struct, frozen=True):
    """How teammates get processes of their own."""

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
    ended_at: int = 0  # when the previous process ended, in milliseconds; 0: there was none
    since: int = 0  # when the lead's process began, in milliseconds: what is spent from then on counts
    places: TeammatePlaces | None = None  # None: teammates run in this process
    copies: Path | None = None  # where people's JSON copies are, if not in `home`: for a session in an engine
    hosting: Hosting | None = None  # on a worker
