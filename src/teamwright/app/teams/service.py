"""Opens the teams of a session or of a teammate's process."""

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from teamwright.app.agents.prompts import mode_here, system_of
from teamwright.app.teams.board import mail_limits
from teamwright.core.data.definition import AgentDefinition, role_of
from teamwright.core.data.team import Member
from teamwright.runtime.agents.prompt import WORK, Seat, team_words, teammate_words
from teamwright.runtime.agents.spec import Toolset
from teamwright.runtime.agents.sub_agents import Served
from teamwright.runtime.teams.deps import Base, TeamDeps
from teamwright.runtime.teams.service import Teamwork

if TYPE_CHECKING:
    from teamwright.app.services import Services


class SessionTeammates:
    """What teammates are made with: the session's desk and limits, their kind's tools and words."""

    def __init__(self, services: "Services") -> None:
        self._services = services

    def base(self) -> Base:
        return self._services.teammate_base()

    def find_cwd(self, named: str) -> Path | None:
        return self._services.find_cwd(named)

    def toolset(self, definition: AgentDefinition, served: Served) -> Toolset:
        services = self._services
        return services.registry.team_toolset(definition, 1, services.extensions.served(served))

    def system(self, definition: AgentDefinition, member: Member, seat: Seat) -> tuple[str, ...]:
        services = self._services
        mode = mode_here(services, member.mode)  # if it begins in plan mode, it is told so before its turn
        here = "\n".join(filter(None, (teammate_words(member.name, member.team), seat.here)))
        seat = replace(seat, mode=mode, told=services.extensions.told(definition), here=here)
        return system_of(services, seat, WORK, work_for=team_words(role_of(definition)))


def open_teamwork(services: "Services") -> Teamwork:
    workspace, own = services.workspace, services.workspace.own
    deps = TeamDeps(
        services=services,
        state=services.store.state,
        home=services.store.home or workspace.home,
        env=workspace.env,
        facts=services.facts,
        spawning=services.spawn_deps,
        setup=SessionTeammates(services),
        patience=own.shutdown_timeout_seconds,
        limits=mail_limits(services),
        since=services.since,
        ended_at=services.store.ended_at,
        places=services.places,
        hosting=services.hosting,
        copies=services.copies,
    )
    return Teamwork(deps)
