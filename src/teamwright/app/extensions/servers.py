"""MCP servers of a session, and the pool of their connections, which is made when there is one to connect."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any

from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from teamwright.app.options import Options
from teamwright.app.workspace import Workspace
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import Event, Warned
from teamwright.core.data.letter import SYSTEM, Letter, Prompt
from teamwright.core.data.message import Text
from teamwright.core.ids import AgentId, CallId, new_letter_id, new_question_id
from teamwright.core.permissions.consent import Allow, Decision, Question
from teamwright.core.ports import Tool
from teamwright.core.text import shown
from teamwright.runtime.agents.resources import Exchange
from teamwright.store.settings.load import SOURCES

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from teamwright.app.services import Services
    from teamwright.core.data.extensions.server import Elicited, ServerConfig, ServerPrompt, ServerState
    from teamwright.library.mcp_config import Servers
    from teamwright.runtime.extensions.mcp_connection import ToolChanges
    from teamwright.runtime.extensions.mcp_pool import ServerPool

Elicit = Callable[[str, str, dict[str, Any]], Awaitable["Elicited"]]  # (server, what it asks, schema of the answer)
PROMPTS_SECONDS = 5.0
MOST_REASON = 300  # characters of the reason why a server is not connected
TOKENS = "mcp-tokens"  # below our home: tokens agreed with servers


def configured(
    workspace: Workspace,
    flags: Sequence[str] = (),
    *,
    strict: bool = False,
    plugins: Sequence[tuple[str, Mapping[str, Any]]] = (),
    sources: Collection[str] = SOURCES,
) -> "Servers":
    """`flags` come from `--mcp-config`; `strict` is `--strict-mcp-config`."""
    from teamwright.library.claude.servers import read_claude_servers  # noqa: PLC0415
    from teamwright.library.mcp_config import SwitchedOff, Written, find_servers  # noqa: PLC0415

    kept = read_claude_servers(workspace.user, dict.fromkeys((workspace.project, workspace.cwd)), sources)
    settings = [Written("plugin", file, servers) for file, servers in plugins]
    settings += [Written("user", kept.file, kept.user), Written("local", kept.file, kept.local)]
    settings += [Written(x.source, x.file, x.values["mcp"]) for x in workspace.settings.layers if x.values.get("mcp")]
    shared = kept.off_shared | frozenset(workspace.settings.disabled_servers)
    found = find_servers(
        workspace.project,
        trusted=workspace.trusted,
        env=workspace.env,
        settings=settings,
        flags=flags,
        strict=strict,
        cwd=workspace.cwd,
        off=SwitchedOff(kept.off, shared),
    )
    return replace(found, problems=(kept.problem, *found.problems)) if kept.problem else found


def find_configured(
    options: Options, workspace: Workspace, plugins: Sequence[tuple[str, Mapping[str, Any]]]
) -> "Servers | None":
    """None if no place names a server. Checked before anything is imported."""
    named = options.mcp_config or plugins or any(layer.values.get("mcp") for layer in workspace.settings.layers)
    shared = workspace.trusted and (workspace.project / ".mcp.json").exists()
    if not named and not shared and not (workspace.user / ".claude.json").exists():
        return None
    return configured(
        workspace,
        options.mcp_config,
        strict=options.strict_mcp_config,
        plugins=plugins,
        sources=options.setting_sources,
    )


class ServedTools(Struct, eq=False):
    """The servers of one session. `changed` is called when the tools have changed."""

    _services: "Services"
    _workspace: Workspace
    configs: "Mapping[str, ServerConfig]"
    _changed_tools: Callable[[], None]
    pool: "ServerPool | None" = None
    prompts: "list[tuple[str, ServerPrompt]]" = []
    failures: list[str] = []  # already reported
    group: TaskGroup | None = None
    _exchange: Exchange | None = None
    _asking: set[str] = set()  # servers about whose new tools the person is being asked

    def _tell(self, event: Event) -> None:
        self._services.tell(self._services.main, event)

    def use_driver(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def use(self) -> "ServerPool":
        if self.pool is None:
            from teamwright.host.mcp.connect import McpContext  # noqa: PLC0415
            from teamwright.library.mcp_config import limits  # noqa: PLC0415
            from teamwright.runtime.extensions.mcp_pool import ServerPool  # noqa: PLC0415
            from teamwright.runtime.sandbox.use import brought_place  # noqa: PLC0415
            from teamwright.tools.mcp import McpTool  # noqa: PLC0415

            connect, call = limits(self._workspace.env)
            self.pool = ServerPool(
                self.configs,
                McpTool,
                McpContext(
                    env=self._workspace.env,
                    cwd=self._workspace.project,
                    connect_seconds=connect,
                    call_seconds=call,
                    exchange=self._relay,
                    tokens=self._workspace.home.root / TOKENS,
                    place=partial(brought_place, self._services, self._workspace.project, server=True),
                    more=self._sign_in_for_more if self._services.approver else None,
                ),
                log=self._services.log,
                tell_changed=self._changed,
                push=self._pushed,
                elicit=self._answerer(),
            )
            if self.group is not None:
                self.pool.start(self.group)
        return self.pool

    async def _relay(self, server: str, message: dict[str, Any]) -> dict[str, Any] | None:
        if self._exchange is None:
            from teamwright.core.data.extensions.server import ServerFault  # noqa: PLC0415

            raise ServerFault("it lives in a program that drives this one over pipes, and none does")
        return await self._exchange(server, message)

    def _changed(self, changes: "ToolChanges") -> None:
        names = ", ".join((*changes.added, *changes.changed))
        if names:
            self._tell(Warned(f"The MCP server {changes.server} has new or changed tools, which are off: {names}"))
        if names and self._services.person and self.group and changes.server not in self._asking:
            self._asking.add(changes.server)
            self.group.start_soon(self._ask_about, changes.server)

    async def _ask(self, server: str, tool: str, args: dict[str, Any], reason: str) -> Decision:
        """Ask the person, in the main agent's conversation."""
        put = self._services.person
        assert put is not None
        name = f"MCP server {shown(server, 60)}"
        return await put(Question(new_question_id(), self._services.main, name, CallId(""), tool, args, reason))

    async def _ask_about(self, server: str) -> None:
        """Ask about new tools. A yes covers them only as they are described now."""
        from teamwright.core.data.extensions.server import NEW_TOOLS  # noqa: PLC0415

        assert self.pool is not None
        try:
            news = self.pool.news(server)
            reason = f"The MCP server {server} has new or changed tools. They are off until you agree."
            decision = await self._ask(server, NEW_TOOLS, {"server": server, "tools": news}, reason)
            if isinstance(decision, Allow) and self.pool.news(server) == news:
                self.pool.approve(server)
                self._changed_tools()
        finally:
            self._asking.discard(server)

    def _answerer(self) -> Elicit | None:
        """Who fills in a server's form: the person; without one, its own defaults, if settings say so."""
        if self._services.person:
            return self._elicit
        return _fill_in if self._workspace.own.mcp_form_defaults else None

    async def _sign_in_for_more(self, server: str, address: str) -> None:
        """The call waits meanwhile. The address is shown as well: the browser may be the wrong one, or none."""
        from teamwright.host.process.browser import open_browser  # noqa: PLC0415

        await open_browser(address, self._workspace.env)
        name = shown(server, 60)
        self._tell(Warned(f"The MCP server {name} asks for more than you agreed to. To go on, agree at {address}"))

    async def _elicit(self, server: str, message: str, schema: dict[str, Any]) -> "Elicited":
        from teamwright.core.data.extensions.server import ELICITATION, Elicited  # noqa: PLC0415

        asked = {"server": server, "message": message, "schema": schema}
        decision = await self._ask(server, ELICITATION, asked, "A server asks you something.")
        if not isinstance(decision, Allow):
            return Elicited("decline")
        return Elicited("accept", (decision.args or {}).get("content") or {})

    def _pushed(self, server: str, text: str, meta: dict[str, Any]) -> None:
        """Pass words of a server's channel to the main agent."""
        from teamwright.core.data.letters.text import channel_message  # noqa: PLC0415
        from teamwright.tools.bounds import bounded, visible  # noqa: PLC0415

        prompt = Prompt((Text(channel_message(server, bounded(visible(text)), meta)),))
        letter = Letter(new_letter_id(), self._services.main, SYSTEM, prompt)
        self._services.supervisor.launch(partial(self._services.supervisor.post, letter))

    async def ready(self) -> None:
        """Wait for the servers, at most as long as `MCP_TIMEOUT` says."""
        if self.pool is not None:
            from teamwright.library.mcp_config import limits  # noqa: PLC0415

            await self.pool.ready(limits(self._workspace.env)[0])

    async def arrive(self) -> None:
        import anyio  # noqa: PLC0415

        from teamwright.core.errors import ToolError  # noqa: PLC0415

        pool = self.pool
        if pool is None:
            return
        await self.ready()
        self._tell_failures(pool.states())
        with anyio.move_on_after(PROMPTS_SECONDS):
            try:
                self.prompts = await pool.prompts()
            except ToolError as error:
                self._services.log(f"prompts of MCP servers: {error}")

    def _tell_failures(self, states: "Sequence[ServerState]") -> None:
        faulty = {name for name, config in self.configs.items() if config.fault}  # reported when they were read
        for state in states:
            if state.status in ("failed", "needs-auth", "pending") and state.name not in faulty:
                name, why = shown(state.name, 80), _reason(state)
                way = (
                    "Sign in with `teamwright mcp login"
                    if state.status == "needs-auth"
                    else "Try it with `teamwright mcp test"
                )
                words = f"MCP server {name} is not connected: {why}. {way} {quote(name)}`."
                self.failures.append(words)
                self._tell(Warned(words))

    async def lease(
        self, stack: "AsyncExitStack", definition: AgentDefinition | None, agent: AgentId, parent: AgentId | None
    ) -> Mapping[str, Tool] | None:
        """The tools of all servers that the agent can reach while it lives; None: there are no servers."""
        servers = () if definition is None else definition.mcp_servers
        inline: dict[str, ServerConfig] = {}
        if any(not isinstance(server, str) for server in servers):
            from teamwright.library.mcp_config import inline_servers  # noqa: PLC0415

            inline = inline_servers(servers, self._workspace.env)
        if self.pool is None and not inline:
            return None
        pool = self.use()
        await self.ready()
        if definition is not None:
            await pool.await_required(definition.required_mcp_servers)
        tools = await stack.enter_async_context(pool.lease(inline, agent, parent))
        for state in pool.own_states(agent):
            if state.name in inline and state.status != "connected":
                name = shown(state.name, 80)
                self._tell(Warned(f"MCP server {name} of an agent's definition is not connected: {_reason(state)}."))
        return tools


def _reason(state: "ServerState") -> str:
    """Why it is not connected, in words without a full stop."""
    unsaid = "it has not answered in time" if state.status == "pending" else state.status
    return shown(state.error, MOST_REASON).rstrip(".") or unsaid


async def _fill_in(_server: str, _message: str, schema: dict[str, Any]) -> "Elicited":
    """A form's defaults; declined if it requires more than they give."""
    from teamwright.core.data.extensions.server import Elicited  # noqa: PLC0415

    fields: dict[str, dict[str, Any]] = schema.get("properties") or {}
    found = {name: field["default"] for name, field in fields.items() if "default" in field}
    if not all(name in found for name in schema.get("required") or ()):
        return Elicited("decline")
    return Elicited("accept", found)
