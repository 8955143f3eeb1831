"""Agent types that a session may start, and the tools of each."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from teamwright.app.extensions import Configured, memory_folder
from teamwright.app.options import Options
from teamwright.app.web_search import WebSearching
from teamwright.app.workspace import Workspace, passed_names
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.message import ToolSpec
from teamwright.core.errors import SettingsError, UsageError
from teamwright.core.permissions.rules import AGENT, SKILL, detail_rule, hidden_tools
from teamwright.core.policies.spawn import Features
from teamwright.core.ports import Tool
from teamwright.library.agents.book import DefinitionBook, Objects
from teamwright.library.agents.places import find_places
from teamwright.library.agents.tool_choice import ToolChoice, tool_names
from teamwright.library.trust import decision as trust
from teamwright.runtime.agents.spec import Toolset
from teamwright.runtime.permissions.rulebook import Rulebook
from teamwright.runtime.tool_traits import register
from teamwright.tools.agents.agent import AgentTool, Offer, agent_spec
from teamwright.tools.agents.team import TeamCreate
from teamwright.tools.catalog import CATALOG
from teamwright.tools.deferred import DEFERRED, deferred_tools
from teamwright.tools.lean import LEAN, lean_spec
from teamwright.tools.pool import (
    MADE,
    built_in_tools,
    can_read,
    chosen,
    needed_by,
    only_for,
    share_shell,
    unoffered,
)


class AgentRegistry:
    """Definitions and tools; each toolset is put together from them and from the tools of servers."""

    def __init__(self, options: Options, workspace: Workspace, rules: Rulebook, written: Configured) -> None:
        self._options, self._workspace, self._rules, self._written = options, workspace, rules, written
        self.searching = WebSearching(workspace)
        places = find_places(
            cwd=workspace.cwd,
            project=workspace.project,
            home=workspace.user,
            state=workspace.home.root,
            trusted=workspace.trusted,
            sources=options.setting_sources,
            plugins=written.agent_places,
        )
        cache = workspace.home.root / "cache"
        self._book = DefinitionBook(
            places, flag=options.agents, cwd=workspace.cwd, given=options.definitions, cache=cache
        )
        self.problems = (*self._book.current().problems, *self.searching.problems)
        self.features = _features(options, workspace)
        self.lean = False
        self.main_definition = self._find_main()
        self._tools = self._make_tools()
        self.catalog = register(CATALOG, (*self._tools.values(), *options.own_tools))
        self._toolsets: dict[object, tuple[object, Toolset]] = {}

    def use_lean(self) -> None:
        """Before anybody has got a toolset. Nothing goes on in the background where no tool could stop it."""
        self.lean, self.features = True, replace(self.features, background=False)
        self._tools = self._make_tools()

    def define(self, agents: Mapping[str, Any]) -> None:
        """Further kinds of agents."""
        self._book.add(Objects("flag", "initialize", agents))

    def kinds(self) -> Mapping[str, AgentDefinition]:
        return self._book.current().by_name

    def startable(self) -> Mapping[str, AgentDefinition]:
        """Definitions as they are now, without those that a rule denies."""
        denied = self._rules.rules.deny
        return {
            n: d
            for n, d in self.kinds().items()
            if detail_rule(denied, AGENT, n, wide=False) is None and not self._written.missing(d)
        }

    def refusal(self, kind: str) -> str:
        """Why a kind that there is cannot be started now; empty if it can, or if there is none."""
        definition = self._book.current().find(kind)
        missing = self._written.missing(definition) if definition else []
        if not definition or not missing:
            return ""
        names = ", ".join(missing)
        return f"The agent {definition.name} needs the MCP server {names}, which is not there. Use another agent."

    def absence(self, kind: str) -> str:
        """Why one of a kind that was started before cannot go on here, and what brings it back."""
        definition = self._book.current().find(kind)
        if definition is None:
            found = () if self._workspace.trusted else trust.what_would_run(self._workspace.project).agents
            if found:
                return f"its kind {kind} is this project's, which is not trusted; trust it (--trust) and resume"
            return f"there is no agent definition {kind} any more; put it back and resume"
        if missing := self._written.missing(definition):
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
        own = self._options.own_tools
        passed = passed_names(self._workspace)
        tools = built_in_tools(self._workspace.env, passed, background=self.features.background)
        tools |= self.searching.tools | {tool.spec.name: tool for tool in own}
        names = (*tools, *MADE)
        hidden = hidden_tools(self._rules.rules, names)
        wanted = LEAN if self.lean and self._options.tools is None else self._options.tools
        if wanted is not None and "default" not in wanted:
            wanted = [*wanted, *(tool.spec.name for tool in own)]
        kept = chosen(tools, names, wanted, hidden)
        if self._workspace.settings.lsp:
            from teamwright.tools.files.checked import checked_tools  # noqa: PLC0415

            kept = checked_tools(kept)
        shown = set(MADE) - set(hidden)
        self._made = shown if wanted is None or "default" in wanted else shown & set(wanted)  # for each toolset anew
        return kept

    def main_toolset(self, served: Mapping[str, Tool]) -> Toolset:
        if self.main_definition is not None:
            return self.toolset(self.main_definition, 0, served)
        if self.features.coordinator:
            return self._toolset(ToolChoice(names=frozenset(needed_by("coordinator"))), 0, served)
        return self._toolset(ToolChoice(), 0, served)

    def toolset(self, definition: AgentDefinition, depth: int, served: Mapping[str, Tool]) -> Toolset:
        """Assembled once for each definition and depth, so that agents of one kind share their specs.

        `served` are the tools of the servers that the agent can reach.
        """
        skill = self._written.skills.spec() if SKILL in self._made else None
        key = (id(definition), depth, tuple(self.startable()), id(skill), tuple(map(id, served.values())))
        if key not in self._toolsets:  # what is named by its id is kept with it, so that the id stays its own
            names = (*self._tools, *MADE, *served)
            choice = self._with_memory(definition, tool_names(definition, names))
            self._toolsets[key] = (definition, skill, served), self._toolset(choice, depth, served)
        return self._toolsets[key][1]

    def team_toolset(self, definition: AgentDefinition, depth: int, served: Mapping[str, Tool]) -> Toolset:
        """Of a teammate: its definition's tools, and always those that a team needs. It leads nobody."""
        toolset = self.toolset(definition, depth, served)
        key = ("team", id(toolset))
        if key not in self._toolsets:
            self._toolsets[key] = toolset, self._team_toolset(toolset)
        return self._toolsets[key][1]

    def _team_toolset(self, toolset: Toolset) -> Toolset:
        team, leading = needed_by("teammate"), only_for("lead")
        wanted = {name: tool for name, tool in self._tools.items() if name in team and name not in toolset.tools}
        tools = {name: tool for name, tool in ({**toolset.tools} | wanted).items() if name not in leading}
        if AGENT in tools:
            tools[AGENT] = self._agent_tool(toolset.may_start, tools, teammate=True)
        shown = [tools[spec.name].spec for spec in toolset.specs if spec.name not in leading]
        return Toolset(tools, (*shown, *(tool.spec for tool in wanted.values())), toolset.limits, toolset.may_start)

    def toolset_of(self, specs: tuple[ToolSpec, ...], depth: int, served: Mapping[str, Tool]) -> Toolset:
        """Of an agent that was rendered before: the same tools, as far as they still are there."""
        names = frozenset(name for spec in specs for name in (spec.name, *spec.behind))
        return self._toolset(ToolChoice(names=names), depth, served)

    def _toolset(self, choice: ToolChoice, depth: int, served: Mapping[str, Tool]) -> Toolset:
        unfit = only_for("main") if depth else ()
        tools = {name: tool for name, tool in self._tools.items() if choice.sees(name) and name not in unfit}
        made = [name for name in self._made if choice.sees(name)]
        if AGENT in made and depth < self.features.max_depth:
            tools = {AGENT: self._agent_tool(choice.may_start, tools)} | tools
        if SKILL in made and SKILL not in tools:
            tools |= self._written.skills.tool(can_read=can_read(tools))
        brought = self._served(choice, served) if served else {}
        search = self._search_tools(choice, brought)
        tools |= brought | search
        tools, limits = share_shell(tools, choice.limits)
        unseen = unoffered(person=self._options.interactive and depth == 0, background=self.features.background)
        many = search and len(brought) > self._workspace.settings.own.max_mcp_tools
        unseen |= brought.keys() if many else search.keys()
        specs = tuple(tool.spec for name, tool in tools.items() if name not in unseen)
        specs = tuple(map(lean_spec, specs)) if self.lean else specs
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
        return AgentTool(agent_spec(kinds, offer), can_read=can_read(tools))

    def _served(self, choice: ToolChoice, served: Mapping[str, Tool]) -> dict[str, Tool]:
        """Tools of servers, without those that a rule hides. A name of our own is never theirs."""
        hidden = hidden_tools(self._rules.rules, tuple(served))
        kept = {n: t for n, t in served.items() if n not in hidden and choice.sees(n)}
        return {name: tool for name, tool in kept.items() if name not in self._tools}

    def _with_memory(self, definition: AgentDefinition, choice: ToolChoice) -> ToolChoice:
        """An agent with a memory can read and write there, whatever tools its definition names."""
        try:
            folder = memory_folder(self._workspace, definition)
        except SettingsError:  # which is told where the agent is equipped
            return choice
        missing = [] if folder is None else [name for name in needed_by("memory") if not choice.sees(name)]
        given = [name for name in missing if name not in choice.denied]
        if folder is None or choice.names is None or not given:
            return choice
        from teamwright.library.memory_dir import memory_pattern  # noqa: PLC0415

        limits = dict.fromkeys(given, (memory_pattern(folder),))
        return ToolChoice(
            choice.names | set(given), choice.limits | limits, choice.may_start, choice.denied, choice.denied_patterns
        )


def _features(options: Options, workspace: Workspace) -> Features:
    own, env = workspace.settings.own, workspace.env
    coordinator = options.coordinator or own.coordinator or env.get("TEAMWRIGHT_COORDINATOR") == "1"
    return Features(
        fork=(options.fork or env.get("TEAMWRIGHT_FORK") == "1") and not coordinator,
        background=own.background and env.get("TEAMWRIGHT_DISABLE_BACKGROUND") != "1",
        coordinator=coordinator,
        assistant=options.assistant or own.assistant,
        proactive=options.proactive,
        max_depth=own.max_depth,
    )
