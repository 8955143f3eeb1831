"""What people bring to a session: plugins, hooks, skills, memory, MCP servers. Each is imported where it is there."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup

from teamwright.app.options import Options, OwnHook
from teamwright.app.servers import Serving
from teamwright.app.skillset import Skillset
from teamwright.app.workspace import Workspace, passed_names
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import Event, Warned
from teamwright.core.data.hook import EVENTS, HookBook, HookEvent
from teamwright.core.data.message import Text
from teamwright.core.errors import SettingsError, TeamwrightError, ToolError, UsageError
from teamwright.core.ids import AgentId, SessionId
from teamwright.core.permissions.rules import Rules
from teamwright.core.ports import Tool
from teamwright.core.text import shown
from teamwright.library.agents.tool_choice import ToolChoice
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.resources import AgentResources, Exchange
from teamwright.runtime.agents.spawner import Spawner
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.extensions.hook_points import HookPoints
from teamwright.runtime.permissions.grants import Grants
from teamwright.runtime.permissions.rulebook import Rulebook
from teamwright.tools.bounds import visible
from teamwright.tools.pool import needed_by

if TYPE_CHECKING:
    from teamwright.core.data.server import ServerPrompt
    from teamwright.library.plugins import Plugins
    from teamwright.library.skills.file import Skill
    from teamwright.runtime.extensions.hooks import Hooks
    from teamwright.runtime.extensions.languages import Languages
    from teamwright.runtime.extensions.mcp_pool import ServerPool
    from teamwright.runtime.extensions.skills import Expanded, Judge

END_SECONDS = 5.0  # for hooks at the end of a session
Served = Mapping[str, Tool] | None


class Extras:
    def __init__(self, options: Options, ground: Workspace, rules: Rulebook) -> None:
        self._options, self._ground, self._rules = options, ground, rules
        plugins = _plugins(options, ground)
        self.agent_places = plugins.agent_places if plugins else []
        sources = [(hooks.file, hooks.events) for hooks in ground.settings.hooks]
        self.book, problems = _read_book([*sources, *(plugins.hooks if plugins else ())])
        self._standing: dict[AgentId, Rules] = {}
        self._living: Callable[[AgentId], Agent | None] = _nobody
        self._grants = Grants(
            self._find,
            base=ground.project,
            home=ground.user,
            standing=lambda agent: self._standing.get(agent.id, Rules()),
        )
        self.skills = Skillset(options, ground, plugins.plugins if plugins else (), self._grants)
        self.serving = Serving(options, ground, plugins.servers if plugins else ())
        self._log: Callable[[str], None] = _ignore
        self.languages = _languages(ground, self._write_log)
        self.problems = (*(plugins.problems if plugins else ()), *problems, *self.serving.problems)
        self._points: HookPoints | None = None
        self._tell: Callable[[AgentId, Event], None] = _ignore
        self._main = AgentId("")
        self._gear: AgentResources | None = None  # the main agent's
        self._here = anyio.Event()
        self.define: Callable[[Mapping[str, Any]], None] = _ignore  # further kinds of agents
        self.rerender: Callable[[Served], None] = _ignore  # the main agent, once all tools are there
        self.main_definition: AgentDefinition | None = None
        self._judge: Judge | None = None
        self.resolve_model: Callable[[str], str] = str

    def introduce(
        self,
        main: AgentId,
        points: HookPoints,
        judge: "Judge",
        supervisor: Supervisor,
        spawner: Spawner,
        tell: Callable[[AgentId, Event], None],
        log: Callable[[str], None],
        say: Callable[[str, str], None],
    ) -> None:
        """Those who are there by now. `say` brings words of a server's channel to the main agent."""
        self._main, self._points, self._tell, self._living = main, points, tell, supervisor.agent
        self._judge, self._log = judge, log
        self.skills.introduce(lambda: judge, lambda: (supervisor, spawner))
        self.serving.introduce(lambda event: tell(main, event), log, say)
        self.serving.changed = self._other_tools
        if self.book is not None:
            points.use()
        for event, hooks in self._options.hooks.items():
            self._add_own(event, hooks)

    def _add_own(self, event: str, hooks: Sequence[OwnHook]) -> None:
        """Functions of whoever opened the session."""
        known: dict[str, HookEvent] = {one: one for one in EVENTS}
        if event not in known:
            raise UsageError(f"hooks: there is no event {event!r}; there are {', '.join(EVENTS)}")
        for hook in hooks:
            matcher, function = ("", hook) if callable(hook) else hook
            try:
                self.points.use().add_callable(known[event], matcher, function)
            except re.error as error:
                raise UsageError(f"hooks: the matcher {matcher!r} of {event} is no expression: {error}") from None

    def _write_log(self, words: str) -> None:
        self._log(words)

    def _find(self, agent: AgentId) -> Agent | None:
        return self._living(agent)

    # --- as others see it

    @property
    def points(self) -> HookPoints:
        assert self._points is not None
        return self._points

    @property
    def pool(self) -> "ServerPool | None":
        return self.serving.pool

    @property
    def prompts(self) -> "list[tuple[str, ServerPrompt]]":
        return self.serving.prompts

    @property
    def offered(self) -> "list[Skill]":
        return self.skills.offered

    @property
    def commands(self) -> "list[Skill]":
        return self.skills.commands

    def add_agents(self, agents: Mapping[str, Any]) -> None:
        self.define(agents)
        self.rerender(self._gear.tools if self._gear else None)

    def only_skills(self, names: Sequence[str]) -> None:
        self.skills.choose(names)
        self.rerender(self._gear.tools if self._gear else None)

    def use_driver(self, exchange: Exchange) -> None:
        self.serving.use_driver(exchange)

    def rules_of(self, agent: AgentId) -> Rules:
        """The session's, what skills allow the agent now, and its own memory."""
        return self._rules.of(agent) + self._grants.of(agent) + self.skills.rules

    def make_hooks(self, session: SessionId, transcript: Path, log: Callable[[str], None]) -> "Hooks":
        from teamwright.library.config_watch import ConfigWatch, settings_files  # noqa: PLC0415
        from teamwright.runtime.extensions.hooks import Hooks  # noqa: PLC0415

        ground = self._ground
        self.points.config = ConfigWatch(settings_files(ground.project, ground.user, ground.home.root)).news
        return Hooks(
            self.book or HookBook(),
            session=session,
            transcript=transcript,
            project=ground.project,
            env=ground.env,
            log=log,
            passed=passed_names(ground),
        )

    async def mentions(self, text: str) -> tuple[Text, ...]:
        main = self._living(self._main)
        if "@" not in text or main is None:
            return ()
        from teamwright.runtime.extensions.mentions import attached  # noqa: PLC0415

        return tuple(await attached(text, main, self._judge, visible, self.pool))

    async def expand(self, text: str) -> "Expanded | None":
        name, _, words = text.removeprefix("/").partition(" ")
        if text.startswith("/mcp__") and any(name == command for command, _ in self.prompts):
            return await self._prompt(name, words)
        desk = self.skills.desk() if text.startswith("/") else None
        found = None if desk is None else await desk.expand(text, self._main)
        if found is not None and found.model and (main := self._living(self._main)) is not None:
            self._borrow(main, found.model)
        return found

    def _borrow(self, main: Agent, model: str) -> None:
        """A skill's own model, for the turn that it begins; one that is under way keeps its own."""
        try:
            if not main.running and model != "inherit":
                main.borrow_model(self.resolve_model(model))
        except TeamwrightError as error:
            self._warn((f"the model {shown(model, 80)} that a skill asks for is not used: {error}",))

    async def _prompt(self, name: str, words: str) -> "Expanded":
        from teamwright.runtime.extensions.skills import Expanded  # noqa: PLC0415

        try:
            answer = await self.serving.use().prompt(name, words.split())
        except ToolError as error:
            return Expanded(error=str(error))
        return Expanded(tuple(part for part in answer.parts if isinstance(part, Text)))

    # --- the start and the end

    def open(self, group: TaskGroup) -> None:
        self.serving.open(group)
        if self.languages is not None:
            self.languages.open(group)

    async def arrive(self) -> None:
        try:
            await self.serving.arrive()
            self._gear = await self.equip(self.main_definition, self._main, None)
            if self._gear is not None and self._gear.tools is not None:
                self.rerender(self._gear.tools)
        except ToolError as error:  # a server that the main agent's own definition needs
            self._warn((str(error),))
        finally:
            self._here.set()

    async def arrived(self) -> None:
        await self._here.wait()

    async def leave(self, *, limit: float, ends: bool = True) -> None:
        if ends:
            with anyio.move_on_after(min(limit, END_SECONDS)):
                await self.points.fire("SessionEnd", self._main, subject="other", reason="other")
        if self.serving.pool is not None:
            with anyio.move_on_after(limit):
                await self.serving.pool.close()
        if self.languages is not None:
            await self.languages.close()
        if self._gear is not None:
            await self._gear.close()

    def _other_tools(self) -> None:
        """A person has agreed to tools of a server that was there already."""
        own = self._gear.tools if self._gear else None
        self.rerender({**(own or {}), **self.serving.tools()})

    # --- agents

    async def equip(
        self, definition: AgentDefinition | None, agent: AgentId, parent: AgentId | None
    ) -> AgentResources | None:
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
            tools = await self.serving.lease(stack, definition, agent, parent)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await stack.aclose()
            raise
        return AgentResources(tools, stack.aclose) if held or tools is not None else None

    def _warn(self, problems: tuple[str, ...]) -> None:
        for problem in problems:
            self._tell(self._main, Warned(problem))

    def _memory(self, definition: AgentDefinition) -> Path | None:
        if definition.memory is None:
            return None
        from teamwright.library.memory_dir import memory_directory  # noqa: PLC0415

        try:
            ground = self._ground
            return memory_directory(definition.name, definition.memory, state=ground.home.root, project=ground.project)
        except SettingsError as error:
            self._warn((str(error),))
            return None

    def told(self, definition: AgentDefinition) -> tuple[str, ...]:
        """For the system prompt of an agent of this kind: its skills, and its memory as it is now."""
        if not definition.skills and not definition.memory:
            return ()
        skills, problems = self.skills.preloaded(definition)
        self._warn(problems)
        folder, memory = self._memory(definition), ""
        if folder is not None:
            from teamwright.library.memory_dir import memory_text  # noqa: PLC0415

            memory = memory_text(folder, trusted=self._ground.trusted or definition.memory == "user")
        return tuple(filter(None, (skills, memory)))

    def with_memory(self, definition: AgentDefinition, choice: ToolChoice) -> ToolChoice:
        """An agent with a memory can read and write there, whatever tools its definition names."""
        folder = self._memory(definition)
        missing = [] if folder is None else [name for name in needed_by("memory") if not choice.sees(name)]
        given = [name for name in missing if name not in choice.denied]
        if folder is None or choice.names is None or not given:
            return choice
        from teamwright.library.memory_dir import memory_pattern  # noqa: PLC0415

        limits = dict.fromkeys(given, (memory_pattern(folder),))
        return ToolChoice(
            choice.names | set(given), choice.limits | limits, choice.may_start, choice.denied, choice.denied_patterns
        )


def _plugins(options: Options, ground: Workspace) -> "Plugins | None":
    """Looked for only where somebody has installed one, or names one."""
    if not options.plugin_dirs and not (ground.home.root / "plugins" / "plugins.json").exists():
        return None
    from teamwright.library.plugins import find_plugins  # noqa: PLC0415

    said: dict[str, Any] = {}
    for layer in ground.settings.layers:
        said |= layer.values.get("enabledPlugins", {})
    flags = [ground.cwd / Path(folder).expanduser() for folder in options.plugin_dirs]
    return find_plugins(ground.home.root, settings=said, flags=flags)


def _languages(ground: Workspace, log: Callable[[str], None]) -> "Languages | None":
    if not ground.settings.lsp:
        return None
    from teamwright.runtime.extensions.languages import Ground, Languages  # noqa: PLC0415

    return Languages(ground.settings.lsp, Ground(ground.project, ground.env, log))


def _read_book(sources: list[tuple[str, Mapping[str, Any]]]) -> tuple[HookBook | None, tuple[str, ...]]:
    if not sources:
        return None, ()
    from teamwright.library.hooks import read_hooks  # noqa: PLC0415

    return read_hooks(sources)


def _nobody(_: AgentId) -> Agent | None:
    return None


def _ignore(*_: object) -> None:
    return
