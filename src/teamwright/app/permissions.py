"""The gate of a session's agents, and the points at which hooks are heard, put together."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from teamwright.app.options import Options
from teamwright.app.workspace import Workspace, started_files
from teamwright.core.data.event import Event
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Mode
from teamwright.core.permissions.judge import mode_allowed
from teamwright.core.permissions.rules import Rules
from teamwright.library.documentation import documentation
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.resume import Opened
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.extensions.hook_points import HookPoints
from teamwright.runtime.permissions.call_facts import FactReader
from teamwright.runtime.permissions.gate import SessionGate
from teamwright.runtime.permissions.judgement import Standing
from teamwright.runtime.permissions.questions import Questions
from teamwright.runtime.permissions.tool_limits import LimitedGate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from teamwright.runtime.extensions.hooks import Hooks


class Guard(Struct, frozen=True):
    points: HookPoints
    gate: LimitedGate


class Law(Struct, frozen=True, kw_only=True):
    """What the gate goes by."""

    facts: FactReader
    rules: Callable[[AgentId], Rules]
    mode: Mode | None  # the session's, where the main agent does not live here
    make_hooks: "Callable[[], Hooks]"
    color: Callable[[AgentId], str]  # of a teammate, or of the one that an agent works for


def open_guard(
    options: Options,
    ground: Workspace,
    opened: Opened,
    law: Law,
    supervisor: Supervisor,
    questions: Questions,
    tell: Callable[[AgentId, Event], None],
) -> Guard:
    main_id = AgentId(opened.id)

    def agent(id: AgentId) -> Agent:
        found = supervisor.agent(id)
        assert found is not None
        return found

    def mode(id: AgentId) -> Mode:
        """A child is never wider than the session, than those between, nor than its own definition."""
        found, who = law.mode or supervisor.main.mode or "default", supervisor.agent(id)
        while who is not None and who.id != main_id:
            found = found if who.mode is None else mode_allowed(found, who.mode)
            who = supervisor.agent(who.parent) if who.parent else None
        return found

    points = HookPoints(
        agent=supervisor.agent,
        mode=mode,
        tell=tell,
        works=lambda who: bool(supervisor.jobs.unfinished(who)),
        transcript=opened.files.agent,
        launch=supervisor.launch,
        make=law.make_hooks,
        home=ground.cwd,
    )
    docs = documentation()
    readable = _resolved(opened.files.outputs, opened.files.jobs, *([docs] if docs else []))
    protected = _resolved(ground.home.root, *map(Path, started_files(ground)))

    def standing(id: AgentId) -> Standing:
        found = agent(id)
        return Standing(found.name, mode(id), law.rules(id), found.desk, law.color(id), readable, protected)

    put = questions.put if options.can_ask or options.answer else None
    gate = SessionGate(standing=standing, facts=law.facts, put=put, points=points)
    return Guard(points, LimitedGate(gate, agent, base=str(ground.project), home=str(ground.user.resolve())))


def _resolved(*paths: Path) -> tuple[str, ...]:
    return tuple(str(path.resolve()) for path in paths)
