"""Opens the teams of a session or of a teammate's process."""

from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.app.agents.prompts import mode_here, system_of
from teamwright.app.teams.board import mail_limits
from teamwright.core.data.definition import AgentDefinition, role_of
from teamwright.core.data.team import Member
from teamwright.runtime.agents.prompt import WORK, team_words
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

    def system(self, definition: AgentDefinition, model: str, cwd: Path, member: Member) -> tuple[str, ...]:
        services = self._services
        words = team_words(member.name, member.team, role_of(definition))
        mode = mode_here(services, member.mode)  # if it begins in plan mode, it is told so before its turn
        first, *rest = system_of(services, model, cwd, role=WORK, mode=mode)
        return (first, words, *rest, *services.extensions.told(definition))


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
