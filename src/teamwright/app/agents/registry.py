"""Agent types that a session may start, and the tools of each."""

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from teamwright.app.extensions.service import Configured, memory_folder
from teamwright.app.options import Options
from teamwright.app.workspace import Workspace, names_engine, passed_names
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.message import ToolCall, ToolSpec
from teamwright.core.errors import SettingsError, UsageError
from teamwright.core.permissions.consent import Decision, Deny
from teamwright.core.permissions.rules import AGENT, SKILL, detail_rule, hidden_tools
from teamwright.core.policies.spawn import Features, without_denied
from teamwright.core.ports import Tool
from teamwright.host.git.places import top_of
from teamwright.library.agents.book import AgentObjects, DefinitionBook
from teamwright.library.agents.places import find_places
from teamwright.library.agents.tool_choice import ToolChoice, tool_names
from teamwright.library.trust import decision as trust
from teamwright.runtime.agents.spec import Toolset
from teamwright.runtime.permissions.rulebook import Rulebook
from teamwright.runtime.tool_traits import find_traits, register
from teamwright.tools.agents.agent import AgentOffer, AgentTool, agent_spec
from teamwright.tools.agents.team import TeamCreate
from teamwright.tools.catalog import CATALOG
from teamwright.tools.deferred import DEFERRED, deferred_tools
from teamwright.tools.lean import LEAN, lean_spec
from teamwright.tools.pool import (
    ALONE,
    MADE,
    WITHOUT_JOBS,
    built_in_tools,
    can_read,
    chosen,
    needed_by,
    only_for,
    share_shell,
)

if TYPE_CHECKING:
    from teamwright.tools.shell.sandbox_words import SandboxWords


class AgentRegistry:
    """Definitions and tools. Each toolset is assembled from these and from servers' tools."""

    def __init__(
        self,
        options: Options,
        workspace: Workspace,
        rules: Rulebook,
        written: Configured,
        sandbox: "SandboxWords | None" = None,
    ) -> None:
        self._options, self._workspace, self._rules, self._written = options, workspace, rules, written
        self._sandbox = sandbox
        self.searching, self._search_tools = None, dict[str, Tool]()
        if workspace.own.web_search is not None:
            from teamwright.app.web_search import WebSearching  # noqa: PLC0415  # only where settings ask for it

            self.searching = WebSearching(workspace)
            self._search_tools = self.searching.tools
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
        found = self._book.current()
        self.problems, self.unread = found.problems, found.unread
        if self.searching is not None:
            self.problems += self.searching.problems
        self.features = _features(options, workspace)
        self.lean, wanted = False, options.tools
        self._own = frozenset(tool.spec.name for tool in options.own_tools)
        self._only = None if wanted is None or "default" in wanted else {*wanted, *self._own}
        self._passed = passed_names(workspace) if workspace.settings.env else ()
        self.main_definition = None if options.agent is None else self._find_main(options.agent)
        self._tools = self._make_tools()
        self.catalog = register(CATALOG, options.own_tools) if options.own_tools else CATALOG
        self._toolsets: dict[object, tuple[object, Toolset]] = {}

    def use_lean(self) -> None:
        """Call it before any toolset is given out. No background work: there is no tool that could stop it."""
        self.lean, self.features = True, replace(self.features, background=False)
        if self._options.tools is None:
            self._only = {*LEAN, *self._own}
        self._tools = self._make_tools()

    def define(self, agents: Mapping[str, Any]) -> None:
        """Add definitions of agents."""
        self._book.add(AgentObjects("flag", "initialize", agents))

    def kinds(self) -> Mapping[str, AgentDefinition]:
        return self._book.current().by_name

    def startable(self) -> Mapping[str, AgentDefinition]:
        """Definitions as they are now, without those that a rule denies or that need a missing server."""
        denied = self._rules.rules.deny
        return {
            n: d
            for n, d in self._book.current().by_name.items()
            if not (denied and detail_rule(denied, AGENT, n, wide=False))
            and not ((d.mcp_servers or d.required_mcp_servers) and self._written.missing(d))
        }

    def refusal(self, kind: str) -> str:
        """Why a known kind cannot be started now; empty if it can, or if there is no such kind."""
        definition = self._book.current().find(kind)
        missing = self._written.missing(definition) if definition else []
        if not definition or not missing:
            return ""
        names = ", ".join(missing)
        return f"The agent {definition.name} needs the MCP server {names}, which is not there. Use another agent."

    def with_kinds(self, call: ToolCall, decision: Decision) -> Decision:
        """Name the kinds that can be started, if one was refused."""
        if not isinstance(decision, Deny) or call.name != AGENT:
            return decision
        names = self.startable()
        if str(call.args.get("subagent_type") or "").lower() in {"", *(name.lower() for name in names)}:
            return decision  # not refused for its kind
        return replace(decision, reason=f"{decision.reason} There are: {', '.join(sorted(names)) or 'none'}.")

    def absence(self, kind: str) -> str:
        """Why an agent of a kind that was started before cannot continue here, and what brings the kind back."""
        definition = self._book.current().find(kind)
        if definition is None:
            place = self._workspace
            if not place.trusted and trust.what_would_run(place.project, place.own_files).agents:
                return f"its kind {kind} is this project's, which is not trusted; trust it (--trust) and resume"
            return f"there is no agent definition {kind} any more; put it back and resume"
        if missing := self._written.missing(definition):
            return f"its kind {kind} needs the MCP server {', '.join(missing)}; configure it and resume"
        return f"a deny rule forbids Agent({kind}); take the rule away and resume"

    def _find_main(self, name: str) -> AgentDefinition:
        found = self._book.current().find(name)
        if found is None:
            raise UsageError(f"--agent {name}: there is no such agent; there are {', '.join(self.kinds())}")
        return found

    def _make_tools(self) -> dict[str, Tool]:
        tools = built_in_tools(
            self._workspace.env, self._passed, background=self.features.background, sandbox=self._sandbox
        )
        tools |= self._search_tools
        if top_of(str(self._workspace.project)) and not self._options.hosted:  # a worker's clone has a queue of its own
            from teamwright.tools.agents.land import LandTool  # noqa: PLC0415

            tools |= {LandTool.spec.name: LandTool()}
        tools |= {tool.spec.name: tool for tool in self._options.own_tools}
        rules, only, names = self._rules.rules, self._only, (*tools, *MADE)
        hidden = hidden_tools(rules, names) if rules.deny else set[str]()
        if hidden or only is not None:
            tools = chosen(tools, names, only, hidden)
        if self._workspace.settings.lsp:
            from teamwright.tools.files.checked import checked_tools  # noqa: PLC0415

            tools = checked_tools(tools)
        made = set(MADE) - hidden
        self._made = made if only is None else made & only  # made anew for each toolset
        return tools

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
        if key not in self._toolsets:  # objects in the key are kept with the toolset, so that their ids stay unique
            names = (*self._tools, *MADE, *served)
            choice = self._with_memory(definition, tool_names(definition, names))
            self._toolsets[key] = (definition, skill, served), self._toolset(choice, depth, served)
        return self._toolsets[key][1]

    def team_toolset(self, definition: AgentDefinition, depth: int, served: Mapping[str, Tool]) -> Toolset:
        """A teammate's tools: its definition's, and always those that a team needs. It leads nobody."""
        toolset = self.toolset(definition, depth, served)
        key = ("team", id(toolset))
        if key not in self._toolsets:
            self._toolsets[key] = toolset, self._team_toolset(toolset)
        return self._toolsets[key][1]

    def _team_toolset(self, toolset: Toolset) -> Toolset:
        team, leading = needed_by("teammate"), only_for("lead")
        wanted = {name: tool for name, tool in self._tools.items() if name in team and name not in toolset.tools}
        tools = {name: tool for name, tool in ({**toolset.tools} | wanted).items() if name not in leading}
        if AGENT in tools and self.features.all_in_background:
            tools[AGENT] = self._agent_tool(toolset.may_start, toolset.denied, tools, teammate=True)
        shown = {*wanted, *(spec.name for spec in toolset.specs)}
        specs = self._ordered({name: tool for name, tool in tools.items() if name in shown})
        return replace(toolset, tools=tools, specs=specs)

    def toolset_of(self, specs: tuple[ToolSpec, ...], depth: int, served: Mapping[str, Tool]) -> Toolset:
        """The tools of an agent that was rendered before, as far as they still exist."""
        names = frozenset(name for spec in specs for name in (spec.name, *spec.behind))
        return self._toolset(ToolChoice(names=names), depth, served)

    def _toolset(self, choice: ToolChoice, depth: int, served: Mapping[str, Tool]) -> Toolset:
        unfit = only_for("main") if depth else ()
        tools = {name: tool for name, tool in self._tools.items() if choice.sees(name) and name not in unfit}
        made = [name for name in self._made if choice.sees(name)]
        if AGENT in made and depth < self.features.max_depth:
            tools = {AGENT: self._agent_tool(choice.may_start, choice.denied_uses, tools)} | tools
        if SKILL in made and SKILL not in tools:
            tools |= self._written.skills.tool(can_read=can_read(tools))
        hidden: Set[str] = frozenset()
        if served:
            brought, hidden = self._served(choice, served)
            tools |= brought
        tools, limits = share_shell(tools, choice.limits)
        specs = self._specs(tools, hidden, depth)
        return Toolset(tools, specs, limits, choice.may_start, choice.denied_uses)

    def _specs(self, tools: Mapping[str, Tool], hidden: Set[str], depth: int) -> tuple[ToolSpec, ...]:
        """The tools that the model is shown."""
        asks = self._options.interactive or self._options.open_door
        unseen = set(hidden) if asks and depth == 0 else hidden | ALONE
        unseen = unseen if self.features.background else unseen | WITHOUT_JOBS
        specs = self._ordered({name: tool for name, tool in tools.items() if name not in unseen})
        return tuple(map(lean_spec, specs)) if self.lean else specs

    def _ordered(self, tools: Mapping[str, Tool]) -> tuple[ToolSpec, ...]:
        """In one order for all agents, those of single roles last: a provider's cache serves equal beginnings."""
        known = {name: n for n, name in enumerate((*self._tools, *MADE))}
        apart = {name for name in tools if find_traits(self.catalog, name).audience != "all"}
        names = sorted(tools, key=lambda name: (name in apart, known.get(name, len(known))))
        return tuple(replace(tools[name].spec, of_role=name in apart) for name in names)

    def _agent_tool(
        self,
        may_start: Sequence[str] | None,
        denied: Sequence[str],
        tools: Mapping[str, Tool],
        *,
        teammate: bool = False,
    ) -> Tool:
        """The Agent tool, as offered to an agent with these other tools."""
        allowed = None if may_start is None else {name.lower() for name in may_start}
        left = without_denied(self.startable(), denied) if denied else self.startable()
        kinds = [d for n, d in left.items() if allowed is None or n.lower() in allowed]
        offer = AgentOffer(self.features, teams=TeamCreate.traits.name in self._tools, teammate=teammate)
        return AgentTool(agent_spec(kinds, offer), can_read=can_read(tools))

    def _served(self, choice: ToolChoice, served: Mapping[str, Tool]) -> tuple[dict[str, Tool], Set[str]]:
        """Servers' tools without those that a rule hides; and the names of those that are not shown.

        A server's tool never takes one of our names. If there are too many, search tools stand in for them, unless
        these are denied or their names are taken. Tools answer even if they are not shown: an agent may have been
        rendered when there were others.
        """
        hidden = hidden_tools(self._rules.rules, tuple(served))
        kept = {n: t for n, t in served.items() if n not in hidden and choice.sees(n)}
        brought = {name: tool for name, tool in kept.items() if name not in self._tools}
        taken = hidden_tools(self._rules.rules, DEFERRED) | choice.denied | self._tools.keys()
        if not brought or taken.intersection(DEFERRED):
            return brought, frozenset()
        search = deferred_tools(brought)
        many = len(brought) > self._workspace.own.max_mcp_tools
        return brought | search, brought.keys() if many else search.keys()

    def _with_memory(self, definition: AgentDefinition, choice: ToolChoice) -> ToolChoice:
        """Let an agent with a memory read and write there, whatever tools its definition names."""
        try:
            folder = memory_folder(self._workspace, definition)
        except SettingsError:  # reported when the agent is equipped
            return choice
        missing = [] if folder is None else [name for name in needed_by("memory") if not choice.sees(name)]
        given = [name for name in missing if name not in choice.denied]
        if folder is None or choice.names is None or not given:
            return choice
        from teamwright.library.memory_dir import memory_pattern  # noqa: PLC0415

        limits = dict.fromkeys(given, (memory_pattern(folder),))
        return ToolChoice(
            choice.names | set(given), choice.limits | limits, choice.may_start, choice.denied, choice.denied_uses
        )


def _features(options: Options, workspace: Workspace) -> Features:
    own, env = workspace.own, workspace.env
    remote = names_engine(options, workspace) and not options.hosted

    def on(*names: str) -> bool:
        return any(env.get(name, "").lower() in ("1", "true", "yes", "on") for name in names)

    coordinator = options.coordinator or own.coordinator or on("TEAMWRIGHT_COORDINATOR", "CLAUDE_CODE_COORDINATOR_MODE")
    fork = own.fork if options.fork is None else options.fork
    forking = on("TEAMWRIGHT_FORK", "CLAUDE_CODE_FORK_SUBAGENT", "FEATURE_FORK_SUBAGENT")
    return Features(
        fork=(fork or forking) and not coordinator,
        background=own.background and not on("TEAMWRIGHT_DISABLE_BACKGROUND", "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"),
        coordinator=coordinator,
        assistant=options.assistant or own.assistant,
        proactive=options.proactive,
        max_depth=own.max_depth,
        remote=remote,
        hosted=options.hosted,
        remote_teammates=remote and (options.teammate_mode or own.teammate_mode) == "remote",
    )
