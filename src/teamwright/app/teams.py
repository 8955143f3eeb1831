"""Teams, as a session or a teammate's process has them."""

from pathlib import Path

from teamwright.app.main_agent import build_desk
from teamwright.app.parts import Parts, Services
from teamwright.app.prompts import mode_here, system_of
from teamwright.app.teammate_places import open_places
from teamwright.core.data.definition import AgentDefinition, role_of
from teamwright.core.data.team import Member
from teamwright.runtime.agents.meter import AgentMeter
from teamwright.runtime.agents.prompt import WORK, team_words
from teamwright.runtime.agents.spec import Toolset
from teamwright.runtime.agents.sub_agents import Served
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.teams.deps import Base, TeamDeps
from teamwright.runtime.teams.service import Teamwork
from teamwright.store.tables.mail_insert import MailLimits


class SessionTeammates:
    """What teammates are given: the session's desk and limits, their kind's tools and words."""

    def __init__(self, parts: Parts, supervisor: Supervisor, meter: AgentMeter | None) -> None:
        self._parts, self._supervisor, self._meter = parts, supervisor, meter

    def base(self) -> Base:
        if self._meter is not None:
            return Base(build_desk(self._parts), self._meter)
        main = self._supervisor.main
        return Base(main.desk, main.meter)

    def toolset(self, definition: AgentDefinition, served: Served) -> Toolset:
        return self._parts.company.team_kit(definition, 1, served)

    def system(self, definition: AgentDefinition, model: str, cwd: Path, member: Member) -> tuple[str, ...]:
        parts = self._parts
        words = team_words(member.name, member.team, role_of(definition))
        mode = mode_here(parts, self._supervisor, member.mode)  # plan mode, if it begins in that, is told as it goes
        first, *rest = system_of(parts, model, cwd, role=WORK, mode=mode)
        return (first, words, *rest, *parts.company.extras.told(definition))


def open_teamwork(parts: Parts, core: Services, meter: AgentMeter | None = None) -> Teamwork:
    """`meter` is what a process counts on that has no main agent; its teammates start no processes."""
    ground, options = parts.ground, parts.options
    own = ground.settings.own
    mail = own.mail
    deps = TeamDeps(
        state=parts.state,
        home=ground.home,
        env=ground.env,
        facts=parts.company.facts,
        agents=core.workshop,
        supervisor=core.supervisor,
        spawner=core.spawner,
        spawning=core.ways,
        worktrees=core.rooms,
        hooks=core.team_hooks,
        rulebook=parts.rules,
        setup=SessionTeammates(parts, core.supervisor, meter),
        tell=core.tell,
        put=core.questions.put if options.can_ask or options.answer else None,
        patience=own.shutdown_timeout_seconds,
        limits=MailLimits(mail.unread, mail.kib * 1024, mail.per_minute, mail.answers),
        ended_at=parts.opened.ended_at,
        since=parts.since,
        places=None if meter else open_places(options, ground, parts.notes, parts.since),
    )
    teamwork = Teamwork(deps)
    core.spawner.teams = teamwork
    parts.state.on_set_aside = teamwork.set_aside
    return teamwork
