"""Who may be started in a session, and which tools each kind of agent has."""

from collections.abc import Mapping, Sequence

from teamwright.app.extensions import Extras, Served
from teamwright.app.options import Options
from teamwright.app.web_search import WebSearching
from teamwright.app.workspace import Workspace, passed_names
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.message import ToolSpec
from teamwright.core.errors import UsageError
from teamwright.core.permissions.rules import AGENT, SKILL, detail_rule, hidden_tools
from teamwright.core.policies.spawn import Features
from teamwright.core.ports import Tool
from teamwright.library.agents.book import DefinitionBook, Objects
from teamwright.library.agents.places import find_places
from teamwright.library.agents.tool_choice import ToolChoice, tool_names
from teamwright.library.trust import decision as trust
from teamwright.runtime.agents.factory import AgentFactory
from teamwright.runtime.agents.spawner import Spawner
from teamwright.runtime.agents.spec import Toolset
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.jobs.schedule import Schedules
from teamwright.runtime.jobs.shell_jobs import ShellJobs
from teamwright.runtime.permissions.call_facts import FactReader
from teamwright.runtime.permissions.rulebook import Rulebook
from teamwright.runtime.teams.service import Teamwork
from teamwright.runtime.teams.tasks import TaskBoard
from teamwright.runtime.tool_traits import register
from teamwright.runtime.worktrees import Worktrees
from teamwright.tools.agents.agent import AgentTool, Offer, agent_spec
from teamwright.tools.agents.ask import AskTool
from teamwright.tools.agents.plan import EnterPlanMode, ExitPlanMode, Put
from teamwright.tools.agents.team import TeamCreate
from teamwright.tools.bounds import visible
from teamwright.tools.catalog import CATALOG
from teamwright.tools.deferred import DEFERRED, deferred_tools
from teamwright.tools.files.checked import checked_tools
from teamwright.tools.pool import (
    MADE,
    built_in_tools,
    can_read,
    chosen,
    colleague_tools,
    cron_tools,
    needed_by,
    only_for,
    share_shell,
    task_tools,
    unoffered,
)


class AgentRegistry:
    def __init__(self, options: Options, ground: Workspace, rules: Rulebook) -> None:
        self._options, self._ground, self._rules = options, ground, rules
        self.extras = Extras(options, ground, rules)
        self.searching = WebSearching(ground)
        places = find_places(
            cwd=ground.cwd,
            project=ground.project,
            home=ground.user,
            state=ground.home.root,
            trusted=ground.trusted,
            sources=options.setting_sources,
            plugins=self.extras.agent_places,
        )
        self._book = DefinitionBook(
            places, flag=options.agents, cwd=ground.cwd, given=options.definitions, cache=ground.home.root / "cache"
        )
        self.extras.define = lambda agents: self._book.add(Objects("flag", "initialize", agents))
        brought = (*self.extras.problems, *self.extras.skills.problems, *self.searching.problems)
        self.problems = (*self._book.current().problems, *brought)
        self.features = _features(options, ground)
        self.main_definition = self.extras.main_definition = self._find_main()
        self._spawner: Spawner | None = None
        self._supervisor: Supervisor | None = None
        self._rooms: Worktrees | None = None
        self.teamwork: Teamwork | None = None  # set with the others
        self.schedules: Schedules | None = None  # likewise
        self._put: Put | None = None
        self._commands: ShellJobs | None = None
        self._tools = self._make_tools()
        self.facts = FactReader(register(CATALOG, (*self._tools.values(), *options.own_tools)), ground.user)
        self._kits: dict[object, tuple[object, Toolset]] = {}

    def introduce(
        self, spawner: Spawner, supervisor: Supervisor, workshop: AgentFactory, rooms: Worktrees, put: Put | None
    ) -> None:
        """The tools are made before those whom they call. `put` asks a person, where there is one."""
        self._spawner, self._supervisor, self._rooms, self._put = spawner, supervisor, rooms, put
        silence = self._ground.settings.own.silence_seconds
        self._commands = ShellJobs(supervisor, workshop.output, workshop.log, clean=visible, silence=silence)

    def _get_spawner(self) -> Spawner:
        assert self._spawner is not None
        return self._spawner

    def _get_supervisor(self) -> Supervisor:
        assert self._supervisor is not None
        return self._supervisor

    def _get_rooms(self) -> Worktrees:
        assert self._rooms is not None
        return self._rooms

    def get_teamwork(self) -> Teamwork:
        assert self.teamwork is not None
        return self.teamwork

    def get_board(self) -> TaskBoard:
        return self.get_teamwork().board

    def get_schedules(self) -> Schedules:
        assert self.schedules is not None
        return self.schedules

    def _get_commands(self) -> ShellJobs:
        assert self._commands is not None
        return self._commands

    def kinds(self) -> Mapping[str, AgentDefinition]:
        return self._book.current().by_name

    def startable(self) -> Mapping[str, AgentDefinition]:
        """Definitions as they are now, without those that a rule denies."""
        denied = self._rules.rules.deny
        return {
            n: d
            for n, d in self.kinds().items()
            if detail_rule(denied, AGENT, n, wide=False) is None and not self.extras.serving.missing(d)
        }

    def refusal(self, kind: str) -> str:
        """Why a kind that there is cannot be started now; empty if it can, or if there is none."""
        definition = self._book.current().find(kind)
        missing = self.extras.serving.missing(definition) if definition else []
        if not definition or not missing:
            return ""
        names = ", ".join(missing)
        return f"The agent {definition.name} needs the MCP server {names}, which is not there. Use another agent."

    def absence(self, kind: str) -> str:
        """Why one of a kind that was started before cannot go on here, and what brings it back."""
        definition = self._book.current().find(kind)
        if definition is None:
            found = () if self._ground.trusted else trust.what_would_run(self._ground.project).agents
            if found:
                return f"its kind {kind} is this project's, which is not trusted; trust it (--trust) and resume"
            return f"there is no agent definition {kind} any more; put it back and resume"
        if missing := self.extras.serving.missing(definition):
            return f"its kind {kind} needs the MCP server {', '.join(missing)}; configure it and resume"
        return f"a deny rule forbids Agent({kind}); take the rule away and resume"

    def _find_main(self) -> AgentDefinition | None:
        if self._options.agent is None:
            return None
        found = self._book.current().find(self._options.agent)
        if found is None:
            raise UsageError(
                f"--agent {self._options.agent}: there is no such agent; there are {', '.join(self.kinds())}"
            )
        return found

    def _make_tools(self) -> dict[str, Tool]:
        passed = passed_names(self._ground)
        background = self.features.background
        tools = (
            built_in_tools(self._ground.env, passed, self._get_commands if background else None) | self.searching.tools
        )
        tools |= colleague_tools(self._get_spawner, self._get_supervisor, self._get_rooms, self.get_teamwork)
        tools |= task_tools(self.get_board) | cron_tools(self.get_schedules)
        plan = (
            EnterPlanMode(self._get_supervisor),
            ExitPlanMode(self._get_supervisor, lambda: self._put, self.get_teamwork),
            AskTool(lambda: self._put if self._options.interactive else None, self._get_supervisor),
        )
        tools |= {tool.spec.name: tool for tool in (*plan, *self._options.own_tools)}
        names = (*tools, *MADE)
        hidden = hidden_tools(self._rules.rules, names)
        wanted = self._options.tools
        if wanted is not None and "default" not in wanted:
            wanted = [*wanted, *(tool.spec.name for tool in self._options.own_tools)]
        kept = checked_tools(chosen(tools, names, wanted, hidden), self.extras.languages)
        shown = set(MADE) - set(hidden)
        self._made = shown if wanted is None or "default" in wanted else shown & set(wanted)  # for each kit anew
        return kept

    def main_kit(self, served: Served = None) -> Toolset:
        if self.main_definition is not None:
            return self.kit(self.main_definition, 0, served)
        if self.features.coordinator:
            return self._kit(ToolChoice(names=frozenset(needed_by("coordinator"))), 0, served)
        return self._kit(ToolChoice(), 0, served)

    def kit(self, definition: AgentDefinition, depth: int, served: Served = None) -> Toolset:
        """Assembled once for each definition and depth, so that agents of one kind share their specs.

        `served` are the tools of the servers that the agent can reach; None: the session's.
        """
        if served is None:
            served = self.extras.serving.tools()
        skill = self.extras.skills.spec() if SKILL in self._made else None
        key = (id(definition), depth, tuple(self.startable()), id(skill), tuple(map(id, served.values())))
        if key not in self._kits:  # what is named by its id is kept with it, so that the id stays its own
            names = (*self._tools, *MADE, *served)
            choice = self.extras.with_memory(definition, tool_names(definition, names))
            self._kits[key] = (definition, skill, served), self._kit(choice, depth, served)
        return self._kits[key][1]

    def team_kit(self, definition: AgentDefinition, depth: int, served: Served = None) -> Toolset:
        """Of a teammate: its definition's tools, and always those that a team needs. It leads nobody."""
        kit = self.kit(definition, depth, served)
        key = ("team", id(kit))
        if key not in self._kits:
            self._kits[key] = kit, self._team_kit(kit)
        return self._kits[key][1]

    def _team_kit(self, kit: Toolset) -> Toolset:
        team, leading = needed_by("teammate"), only_for("lead")
        wanted = {name: tool for name, tool in self._tools.items() if name in team and name not in kit.tools}
        tools = {name: tool for name, tool in ({**kit.tools} | wanted).items() if name not in leading}
        if AGENT in tools:
            tools[AGENT] = self._agent_tool(kit.may_start, tools, teammate=True)
        shown = [tools[spec.name].spec for spec in kit.specs if spec.name not in leading]
        return Toolset(tools, (*shown, *(tool.spec for tool in wanted.values())), kit.limits, kit.may_start)

    def kit_of(self, specs: tuple[ToolSpec, ...], depth: int, served: Served = None) -> Toolset:
        """Of an agent that was rendered before: the same tools, as far as they still are there."""
        names = frozenset(name for spec in specs for name in (spec.name, *spec.behind))
        return self._kit(ToolChoice(names=names), depth, served)

    def _kit(self, choice: ToolChoice, depth: int, served: Served = None) -> Toolset:
        unfit = only_for("main") if depth else ()
        tools = {name: tool for name, tool in self._tools.items() if choice.sees(name) and name not in unfit}
        if AGENT in self._made and choice.sees(AGENT) and depth < self.features.max_depth:
            tools = {AGENT: self._agent_tool(choice.may_start, tools)} | tools
        if SKILL in self._made and SKILL not in tools and choice.sees(SKILL):
            tools |= self._skill_tool(tools)
        brought = self._served(choice, self.extras.serving.tools() if served is None else served)
        search = self._search_tools(choice, brought)
        tools |= brought | search
        tools, limits = share_shell(tools, choice.limits)
        unseen = unoffered(person=self._options.interactive and depth == 0, background=self.features.background)
        many = search and len(brought) > self._ground.settings.own.max_mcp_tools
        unseen |= brought.keys() if many else search.keys()
        specs = tuple(tool.spec for name, tool in tools.items() if name not in unseen)
        return Toolset(tools, specs, limits, choice.may_start)

    def _search_tools(self, choice: ToolChoice, brought: Mapping[str, Tool]) -> dict[str, Tool]:
        """What stands for tools of servers if they are too many; none where it is denied, or its name is taken.

        They answer also where they are not shown: an agent may have been rendered when there were more tools.
        """
        taken = hidden_tools(self._rules.rules, DEFERRED) | choice.denied | self._tools.keys()
        return deferred_tools(brought) if brought and not taken.intersection(DEFERRED) else {}

    def _agent_tool(
        self, may_start: Sequence[str] | None, tools: Mapping[str, Tool], *, teammate: bool = False
    ) -> Tool:
        """As it is offered to an agent with these other tools."""
        allowed = None if may_start is None else {name.lower() for name in may_start}
        kinds = [d for n, d in self.startable().items() if allowed is None or n.lower() in allowed]
        offer = Offer(self.features, leads=TeamCreate.traits.name in tools, teammate=teammate)
        return AgentTool(self._get_spawner, agent_spec(kinds, offer), can_read=can_read(tools))

    def _skill_tool(self, tools: Mapping[str, Tool]) -> dict[str, Tool]:
        skills = self.extras.skills
        spec = skills.spec()
        return {} if spec is None else {SKILL: skills.tool(spec, can_read=can_read(tools))}

    def _served(self, choice: ToolChoice, served: Mapping[str, Tool]) -> dict[str, Tool]:
        """Tools of servers, without those that a rule hides. A name of our own is never theirs."""
        hidden = hidden_tools(self._rules.rules, tuple(served)) if served else ()
        kept = {n: t for n, t in served.items() if n not in hidden and choice.sees(n)}
        return {name: tool for name, tool in kept.items() if name not in self._tools}


def _features(options: Options, ground: Workspace) -> Features:
    own, env = ground.settings.own, ground.env
    coordinator = options.coordinator or own.coordinator or env.get("TEAMWRIGHT_COORDINATOR") == "1"
    return Features(
        fork=(options.fork or env.get("TEAMWRIGHT_FORK") == "1") and not coordinator,
        background=own.background and env.get("TEAMWRIGHT_DISABLE_BACKGROUND") != "1",
        coordinator=coordinator,
        assistant=options.assistant or own.assistant,
        proactive=options.proactive,
        max_depth=own.max_depth,
    )
