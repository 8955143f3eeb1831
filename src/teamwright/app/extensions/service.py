"""Extensions of a session (plugins, hooks, skills, memory, MCP servers), each imported only if there is one."""

import re
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from teamwright.app.extensions.servers import ServedTools, find_configured
from teamwright.app.extensions.skillset import Skillset
from teamwright.app.options import Options, OwnHook
from teamwright.app.workspace import Workspace, passed_names
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import Warned
from teamwright.core.data.extensions.hook import EVENTS, HookBook, HookEvent
from teamwright.core.data.message import Text
from teamwright.core.errors import SettingsError, TeamwrightError, ToolError, UsageError
from teamwright.core.ids import AgentId
from teamwright.core.permissions.rules import Rules
from teamwright.core.ports import Tool
from teamwright.core.text import shown
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.resources import AgentResources, Exchange
from teamwright.runtime.extensions.hook_points import HookPoints
from teamwright.tools.bounds import visible

if TYPE_CHECKING:
    from teamwright.app.services import Services
    from teamwright.core.data.extensions.server import ServerConfig, ServerPrompt
    from teamwright.core.data.extensions.unread import Unread
    from teamwright.core.data.op import SetServer
    from teamwright.library.skills.file import Skill
    from teamwright.runtime.agents.spawner import Spawner
    from teamwright.runtime.extensions.hooks import Hooks
    from teamwright.runtime.extensions.mcp_pool import ServerPool
    from teamwright.runtime.extensions.skills import Expanded, SkillRunner
    from teamwright.runtime.permissions.grants import Grants

END_SECONDS = 5.0  # for hooks at the end of a session
Served = Mapping[str, Tool] | None  # tools of servers that an agent can reach; None: the session's


class Configured(Struct, frozen=True):
    """What people wrote for a session, read before anything of it is opened."""

    agent_places: Sequence[tuple[str, Path]]  # from plugins
    hooks: HookBook | None
    skills: Skillset
    servers: "Mapping[str, ServerConfig]"
    problems: tuple[str, ...]
    unread: "tuple[Unread, ...]" = ()
    plugins_of_project: tuple[Path, ...] = ()  # directories of plugins that only the project turns on

    def missing(self, definition: AgentDefinition) -> list[str]:
        """Servers that an agent of this kind needs and nobody has configured."""
        required = definition.required_mcp_servers
        names = [name for name in definition.mcp_servers if isinstance(name, str)]
        if not required and not names:
            return []
        lower = [name.lower() for name in self.servers]
        patterns = [p for p in required if not any(p.lower() in name for name in lower)]
        return [*patterns, *(name for name in names if name not in self.servers)]


def read_configured(options: Options, workspace: Workspace) -> Configured:
    """Read only if somebody has brought something: most have not."""
    skills, state = Skillset(options, workspace), workspace.home.root
    files = (state / "plugins" / "plugins.json", workspace.user / ".claude.json", workspace.project / ".mcp.json")
    named = options.plugin_dirs or options.mcp_config or workspace.settings.layers
    if named or any(file.exists() for file in files) or skills.book() is not None:
        return _read_brought(options, workspace)
    return Configured((), None, skills, {}, ())


def _read_brought(options: Options, workspace: Workspace) -> Configured:
    from teamwright.app.extensions.plugins import find_all_plugins  # noqa: PLC0415

    plugins = find_all_plugins(options, workspace)
    sources = [(hooks.file, hooks.events) for hooks in workspace.settings.hooks]
    hooks, wrong = _read_hooks([*sources, *(plugins.hooks if plugins else ())])
    skills = Skillset(options, workspace, plugins.plugins if plugins else ())
    servers = find_configured(options, workspace, plugins.servers if plugins else ())
    problems = (*(plugins.problems if plugins else ()), *wrong, *(servers.problems if servers else ()))
    return Configured(
        plugins.agent_places if plugins else (),
        hooks,
        skills,
        servers.configs if servers else {},
        (*problems, *skills.problems),
        (*(plugins.unread if plugins else ()), *skills.unread, *(hooks.unread if hooks else ())),
        plugins.of_project if plugins else (),
    )


class SessionExtensions:
    def __init__(self, services: "Services", written: Configured) -> None:
        self._services, self._options, self._workspace = services, services.options, services.workspace
        self._skills, self._book, self._main = written.skills, written.hooks, services.main
        self.servers = ServedTools(services, services.workspace, written.servers, self._other_tools)
        self._standing: dict[AgentId, Rules] = {}
        self._resources: AgentResources | None = None  # the main agent's
        self._here = anyio.Event()

    @cached_property
    def _grants(self) -> "Grants":
        from teamwright.runtime.permissions.grants import Grants  # noqa: PLC0415

        workspace, find = self._workspace, self._services.supervisor.agent
        return Grants(find, base=workspace.project, home=workspace.user, standing=self._rules_for_life)

    def _rules_for_life(self, agent: Agent) -> Rules:
        return self._standing.get(agent.id, Rules())

    def add_hooks(self) -> None:
        """Add hooks of the settings, and functions of the code that opened the session."""
        if self._book is not None:
            self.points.use()
        for event, hooks in self._options.hooks.items():
            self._add_own(event, hooks)

    def _add_own(self, event: str, hooks: Sequence[OwnHook]) -> None:
        """Add functions of the code that opened the session."""
        known: dict[str, HookEvent] = {one: one for one in EVENTS}
        if event not in known:
            raise UsageError(f"hooks: there is no event {event!r}; there are {', '.join(EVENTS)}")
        for hook in hooks:
            matcher, function = ("", hook) if callable(hook) else hook
            try:
                self.points.use().add_callable(known[event], matcher, function)
            except re.error as error:
                raise UsageError(f"hooks: the matcher {matcher!r} of {event} is no expression: {error}") from None

    # --- for others

    @property
    def points(self) -> HookPoints:
        return self._services.points

    @property
    def pool(self) -> "ServerPool | None":
        return self.servers.pool

    async def set_server(self, op: "SetServer") -> None:
        pool = self.pool
        if pool is None:
            raise UsageError("there are no MCP servers in this session")
        try:
            await (pool.reconnect(op.server) if op.to == "again" else pool.toggle(op.server, enabled=op.to == "on"))
        except ToolError as error:
            raise UsageError(str(error)) from None
        self._other_tools()

    @property
    def failures(self) -> Sequence[str]:
        return self.servers.failures

    @property
    def prompts(self) -> "list[tuple[str, ServerPrompt]]":
        return self.servers.prompts

    @property
    def offered(self) -> "list[Skill]":
        return self._skills.offered

    @property
    def commands(self) -> "list[Skill]":
        return self._skills.commands

    def served(self, tools: Served) -> Mapping[str, Tool]:
        pool = self.servers.pool
        if tools is None:
            tools = {} if pool is None else pool.tools()
        return tools

    def add_agents(self, agents: Mapping[str, Any]) -> None:
        self._services.registry.define(agents)
        self._render_again(self._resources.tools if self._resources else None)

    def only_skills(self, names: Sequence[str]) -> None:
        self._skills.choose(names)
        self._render_again(self._resources.tools if self._resources else None)

    def _render_again(self, served: Served) -> None:
        from teamwright.app.agents.main_agent import render_again  # noqa: PLC0415  # which knows the services, and they this

        render_again(self._services, self.served(served))

    def use_driver(self, exchange: Exchange) -> None:
        self.servers.use_driver(exchange)

    def rules_of(self, agent: AgentId) -> Rules:
        """The session's rules, what skills allow the agent now, and its own memory."""
        return self._services.rules.of(agent) + self._grants.of(agent) + self._skills.rules

    def make_hooks(self) -> "Hooks":
        from teamwright.app.extensions.judge import ask_judge  # noqa: PLC0415
        from teamwright.library.config_watch import ConfigWatch, settings_files  # noqa: PLC0415
        from teamwright.runtime.extensions.hooks import Hooks, HookSession  # noqa: PLC0415
        from teamwright.runtime.sandbox.use import brought_place  # noqa: PLC0415

        workspace, store = self._workspace, self._services.store
        watch = ConfigWatch(settings_files(workspace.project, workspace.user, workspace.home.root))
        hooks = Hooks(
            self._book or HookBook(),
            HookSession(store.session, store.files.transcript, workspace.project),
            env=workspace.env,
            log=self._services.log,
            passed=passed_names(workspace),
            config=watch.news,
            place=partial(brought_place, self._services, workspace.project, server=False),
        )
        hooks.ask_model, hooks.trace = partial(ask_judge, self._services), self._services.trace_env
        return hooks

    async def mentions(self, text: str) -> tuple[Text, ...]:
        main = self._services.supervisor.agent(self._main)
        if "@" not in text or main is None:
            return ()
        from teamwright.runtime.extensions.mentions import attached  # noqa: PLC0415

        return tuple(await attached(text, main, self._services.judge, visible, self.pool))

    async def expand(self, text: str) -> "Expanded | None":
        name, _, words = text.removeprefix("/").partition(" ")
        if text.startswith("/mcp__") and any(name == command for command, _ in self.prompts):
            return await self._prompt(name, words, text)
        if not text.startswith("/") or self._skills.book() is None:
            return None
        found = await self.runner.expand(text, self._main)
        if found is not None and found.model:
            self._borrow(self._services.supervisor.main, found.model)
        return found

    @cached_property
    def runner(self) -> "SkillRunner":
        from teamwright.runtime.extensions.skills import SkillContext, SkillRunner  # noqa: PLC0415

        book, services = self._skills.book(), self._services
        assert book is not None
        around = SkillContext(
            agent=services.supervisor.agent,
            ask=services.judge,
            clean=visible,
            env=self._workspace.env,
            spawner=self._spawner,
            passed=passed_names(self._workspace),
            services=services,
        )
        return SkillRunner(book, self._grants, around)

    def _spawner(self) -> "Spawner":
        return self._services.spawner

    def _borrow(self, main: Agent, model: str) -> None:
        """Use a skill's own model for the turn that it begins. A running turn keeps its model."""
        try:
            if not main.running and model != "inherit":
                main.borrow_model(self._services.models.checked(model))
        except TeamwrightError as error:
            self._warn((f"the model {shown(model, 80)} that a skill asks for is not used: {error}",))

    async def _prompt(self, name: str, words: str, typed: str) -> "Expanded":
        from teamwright.runtime.extensions.skills import Expanded  # noqa: PLC0415

        try:
            answer = await self.servers.use().prompt(name, words.split())
        except ToolError as error:
            return Expanded(error=str(error))
        texts = [part.text for part in answer.parts if isinstance(part, Text)]
        return Expanded(tuple(Text(text, "" if n else typed) for n, text in enumerate(texts)))

    # --- start and end

    def open(self, group: TaskGroup) -> None:
        if self._services.sandbox_setup is not None and (fence := self._services.sandbox) is not None:
            fence.open(group)
        self.servers.group = group
        if self.servers.configs:  # start connecting
            self.servers.use()

    async def arrive(self) -> None:
        try:
            await self.servers.arrive()
            self._resources = await self.equip(self._services.registry.main_definition, self._main, None)
            if self._resources is not None and self._resources.tools is not None:
                self._render_again(self._resources.tools)
        except ToolError as error:  # a server that the main agent's own definition needs is missing
            self._warn((str(error),))
        finally:
            self._here.set()

    async def arrived(self) -> None:
        await self._here.wait()

    async def leave(self, *, limit: float, ends: bool = True) -> None:
        if ends:
            with anyio.move_on_after(min(limit, END_SECONDS)):
                await self.points.fire("SessionEnd", self._main, subject="other", reason="other")
        if self.servers.pool is not None:
            with anyio.move_on_after(limit):
                await self.servers.pool.close()
        if (languages := self._services.open_languages) is not None:
            await languages.close()
        if self._resources is not None:
            await self._resources.close()

    def _other_tools(self) -> None:
        """Render again: a person has approved changed tools of a server, or switched one."""
        if self.pool is not None:
            self._render_again(self.pool.reachable(self._main))

    # --- agents

    async def equip(
        self, definition: AgentDefinition | None, agent: AgentId, parent: AgentId | None
    ) -> AgentResources | None:
        if definition is not None and self._services.options.hosted:  # a worker runs no hooks and servers of others
            definition = replace(definition, hooks={}, mcp_servers=(), memory=None)
        stack = AsyncExitStack()
        held = False
        try:
            if definition is not None and definition.hooks:
                from teamwright.library.hooks import read_hooks  # noqa: PLC0415

                book, problems = read_hooks([(definition.path or definition.name, definition.hooks)])
                self._warn(problems)
                stack.enter_context(self.points.use().scoped(agent, book))
                held = True
            if definition is not None and (folder := self._memory(definition)):
                from teamwright.library.memory_dir import memory_rules  # noqa: PLC0415

                self._standing[agent] = memory_rules(folder)
                stack.callback(self._standing.pop, agent, None)
                held = True
            tools = await self.servers.lease(stack, definition, agent, parent)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await stack.aclose()
            raise
        return AgentResources(tools, stack.aclose) if held or tools is not None else None

    def _warn(self, problems: tuple[str, ...]) -> None:
        for problem in problems:
            self._services.tell(self._main, Warned(problem))

    def _memory(self, definition: AgentDefinition) -> Path | None:
        try:
            return memory_folder(self._workspace, definition)
        except SettingsError as error:
            self._warn((str(error),))
            return None

    def told(self, definition: AgentDefinition) -> tuple[str, ...]:
        """For the system prompt of an agent of this kind: its skills, and its memory as it is now."""
        if not definition.skills and not definition.memory:
            return ()
        skills, problems = self._skills.preloaded(definition)
        self._warn(problems)
        folder, memory = self._memory(definition), ""
        if folder is not None:
            from teamwright.library.memory_dir import memory_text  # noqa: PLC0415

            memory = memory_text(folder, trusted=self._workspace.trusted or definition.memory == "user")
        return tuple(filter(None, (skills, memory)))


def memory_folder(workspace: Workspace, definition: AgentDefinition) -> Path | None:
    """The memory directory of agents of this kind, if they have one."""
    if definition.memory is None:
        return None
    from teamwright.library.memory_dir import memory_directory  # noqa: PLC0415

    state, project, home = workspace.home.root, workspace.project, workspace.user
    return memory_directory(definition.name, definition.memory, state=state, project=project, home=home)


def _read_hooks(sources: list[tuple[str, Mapping[str, Any]]]) -> tuple[HookBook | None, tuple[str, ...]]:
    if not sources:
        return None, ()
    from teamwright.library.hooks import read_hooks  # noqa: PLC0415

    return read_hooks(sources)
