"""Rules and facts that judge each agent of a session, and the gate that asks before it acts."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.app.workspace import started_files
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Decision, Mode, Question, mode_allowed
from teamwright.core.permissions.protected import home_marks
from teamwright.core.permissions.rules import AGENT, Rules, parse_rules
from teamwright.core.ports import Desk
from teamwright.library.documentation import documentation
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.permissions.gate import SessionGate
from teamwright.runtime.permissions.judgement import Standing
from teamwright.runtime.permissions.tool_limits import LimitedGate

if TYPE_CHECKING:
    from teamwright.app.services import Services


class Standings:
    def __init__(self, services: "Services") -> None:
        self._services = services
        self._denied: dict[tuple[str, ...], Rules] = {}

    def agent(self, id: AgentId) -> Agent:
        found = self._services.supervisor.agent(id)
        assert found is not None
        return found

    def mode(self, id: AgentId) -> Mode:
        """An agent's mode is never wider than the session's, its own, or that of an agent in between."""
        services = self._services
        supervisor, found = services.supervisor, services.mode
        who = supervisor.agent(id)
        while who is not None and who.id != services.main:
            found = found if who.mode is None else mode_allowed(found, who.mode)
            who = supervisor.agent(who.parent) if who.parent else None
        return found

    def of(self, id: AgentId) -> Standing:
        found = self.agent(id)
        rules = self._services.extensions.rules_of(id) + self._own(found.denied)
        fence, mode, color = self._services.sandbox, self.mode(id), self._color(found)
        readable, fencing, project = self._readable, None, str(self._services.workspace.project)
        if (files := self._services.agents.lodgers.get(id)) is not None:
            readable = (*readable, *_resolved(files.outputs, files.jobs))
        if fence is not None:
            fencing = fence.fencing(id, found.desk, mode)
            readable = (*readable, fence.scratch_of(found.desk))
        protected = self.protected(found.desk)
        return Standing(found.name, mode, rules, found.desk, color, readable, protected, fencing, project)

    def _own(self, denied: tuple[str, ...]) -> Rules:
        """What an agent's definition takes away. Which agents it may start is said where it would start one."""
        if denied not in self._denied:
            workspace = self._services.workspace
            rules, _ = parse_rules(denied, "agent", str(workspace.project), str(workspace.user.resolve()))
            self._denied[denied] = Rules(deny=tuple(rule for rule in rules if rule.tool != AGENT))
        return self._denied[denied]

    def _color(self, agent: Agent) -> str:
        """Color of a teammate, or of the one that an agent works for; else that of its definition."""
        teams = self._services.open_teams
        if teams is not None and (color := teams.roster.color_of(agent.id)):
            return color
        kind = self._services.registry.kinds().get(agent.kind) if agent.parent else None
        return kind.color if kind else ""

    @cached_property
    def _readable(self) -> tuple[str, ...]:
        files, docs = self._services.store.files, documentation()
        return _resolved(files.outputs, files.jobs, *([docs] if docs else []))

    def protected(self, desk: Desk) -> tuple[str, ...]:
        """What an agent with this desk may not change unasked, besides what is protected by its name."""
        return (*self._ours, *home_marks(str(self._services.workspace.user.resolve()), map(str, desk.roots)))

    @cached_property
    def _ours(self) -> tuple[str, ...]:
        workspace = self._services.workspace
        return _resolved(workspace.home.root, *map(Path, started_files(workspace)))


def _resolved(*paths: Path) -> tuple[str, ...]:
    return tuple(str(path.resolve()) for path in paths)


def open_gate(services: "Services") -> LimitedGate:
    standings, workspace, put = services.standings, services.workspace, services.approver

    async def ask(question: Question) -> Decision:
        assert put is not None
        async with standings.agent(question.agent).slot.waiting():
            return await put(question)

    gate = SessionGate(standing=standings.of, facts=services.facts, put=put and ask, points=services.points)
    return LimitedGate(gate, standings.agent, base=str(workspace.project), home=str(workspace.user.resolve()))
