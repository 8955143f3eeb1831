"""Pool of a session's MCP servers: one shared connection each, and the servers of single agents."""

import hashlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from operator import methodcaller
from typing import Any

import anyio
from anyio.abc import TaskGroup

from teamwright.core.data.extensions.server import (
    Elicited,
    ServerAnswer,
    ServerConfig,
    ServerFault,
    ServerPrompt,
    ServerState,
    ServerTool,
)
from teamwright.core.errors import ToolError
from teamwright.core.ports import Tool
from teamwright.core.text import shown
from teamwright.host.mcp.callbacks import Ears
from teamwright.host.mcp.connect import McpContext
from teamwright.runtime.extensions.mcp_connection import McpConnection, ServedTool, ToolChanges

SESSION = "session"
CLOSE_SECONDS = 10.0
REQUIRED_SECONDS = 30.0
MOST_NAME = 64  # what every provider takes
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def server_part(name: str) -> str:
    """A server's name as part of its tools' names. Never with `__`, which would end it."""
    return re.sub(r"_{2,}", "_", _UNSAFE.sub("_", name)).strip("_") or "server"


def tool_name(server: str, tool: str) -> str:
    """`mcp__server__tool`, in a length and in characters that every provider takes."""
    full = f"mcp__{server_part(server)}__{_UNSAFE.sub('_', tool)}"
    if len(full) <= MOST_NAME:
        return full
    mark = hashlib.sha256(f"{server}\0{tool}".encode()).hexdigest()[:8]
    return f"{full[: MOST_NAME - 9]}_{mark}"


class ServerPool:
    """The servers of a session. `make` turns an offer into a tool; callbacks get the server's name first.

    Nothing is started, and the protocol package is not imported, before `start` or `lease` meets a server.
    """

    def __init__(
        self,
        configs: Mapping[str, ServerConfig],
        make: Callable[[ServedTool], Tool],
        around: McpContext,
        *,
        log: Callable[[str], None],
        tell_changed: Callable[[ToolChanges], None] | None = None,
        push: Callable[[str, str, dict[str, Any]], None] | None = None,
        elicit: Callable[[str, str, dict[str, Any]], Awaitable[Elicited]] | None = None,
    ) -> None:
        self._around = around
        self._make, self._log, self._tell = make, log, tell_changed
        self._push, self._elicit = push, elicit
        self._group: TaskGroup | None = None
        self._shared = {name: self._server(config) for name, config in configs.items()}
        self._inline: dict[str, list[McpConnection]] = {}  # inline servers that an agent can reach, by its id

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._shared)

    def start(self, group: TaskGroup) -> None:
        """Connect to every server, in the background."""
        self._group = group
        for server in self._shared.values():
            server.holders.add(SESSION)
            group.start_soon(server.live)

    async def ready(self, limit: float) -> None:
        """Wait until every configured server is connected or failed, or the time is over."""
        with anyio.move_on_after(limit):
            for server in self._shared.values():
                await server.settled.wait()

    def states(self) -> list[ServerState]:
        return [_state(server) for server in self._shared.values()]

    def own_states(self, agent: str) -> list[ServerState]:
        """Those of the inline servers that the agent can reach."""
        return [_state(server) for server in self._inline.get(agent, ())]

    def tools(self) -> dict[str, Tool]:
        """Tools of the session's servers."""
        return _tools(self._shared.values())

    # --- what agents need

    async def await_required(self, required: Iterable[str], limit: float = REQUIRED_SECONDS) -> None:
        """Raises ToolError unless each pattern has a server that is connected and has tools."""
        for pattern in required:
            fitting = [s for name, s in self._shared.items() if pattern.lower() in name.lower()]
            with anyio.move_on_after(limit):
                while not any(map(_serves, fitting)) and (pending := [s for s in fitting if s.status == "pending"]):
                    await pending[0].settled.wait()
            if not any(map(_serves, fitting)):
                told = "; ".join(f"{s.name}: {s.error or s.status}" for s in fitting) or "there is none"
                raise ToolError(f"This agent needs an MCP server `{pattern}` with tools ({told}). Use another agent.")

    @asynccontextmanager
    async def lease(
        self, inline: Mapping[str, ServerConfig], owner: str, parent: str | None = None
    ) -> AsyncGenerator[dict[str, Tool]]:
        """The tools of an agent while it lives: from the session's, its parent's and its own inline servers.

        Its own inline servers are opened here, and closed when the last agent that can reach them has ended. Without
        one that cannot be reached the agent works all the same.
        """
        own = [self._server(config) for config in inline.values()]
        reach = [s for s in self._inline.get(parent or "", []) if s.name not in inline] + own
        self._inline[owner] = reach
        try:
            for server in reach:
                server.holders.add(owner)
            await self._open(own)
            yield self.reachable(owner)
        finally:
            del self._inline[owner]
            for server in reach:
                server.holders.discard(owner)
            await self._end([server for server in reach if not server.holders])

    def reachable(self, agent: str) -> dict[str, Tool]:
        """The tools that an agent can reach now."""
        own = self._inline.get(agent, [])
        shared = [s for s in self._shared.values() if s.name not in {one.name for one in own}]
        return _tools([*shared, *own])

    async def _open(self, servers: Sequence[McpConnection]) -> None:
        for server in servers:
            self._begin(server)
        with anyio.move_on_after(self._around.connect_seconds):
            for server in servers:
                await server.settled.wait()

    def _begin(self, server: McpConnection) -> None:
        assert self._group is not None, "start comes first"
        self._group.start_soon(server.live)

    # --- requests by people

    def approve(self, name: str) -> None:
        self._find(name).approve()

    def news(self, name: str) -> dict[str, dict[str, str]]:
        """Tools that are off until somebody approves them: how they were described, and how they are now."""
        server = self._find(name)
        before = server.approved or {}
        return {
            tool: {
                "before": before[tool].description if tool in before else "(new)",
                "now": server.current[tool].description,
            }
            for tool in server.waiting
        }

    async def reconnect(self, name: str) -> ServerState:
        server = self._find(name)
        if server.status == "disabled":
            return await self.toggle(name, enabled=True)
        server.reconnect()
        with anyio.move_on_after(self._around.connect_seconds):
            await server.settled.wait()
        return _state(server)

    async def toggle(self, name: str, *, enabled: bool) -> ServerState:
        """Switch one of the session's servers off or on again."""
        server = self._find(name)
        if enabled and server.status == "disabled":
            server.revive()
            self._begin(server)
            with anyio.move_on_after(self._around.connect_seconds):
                await server.settled.wait()
        elif not enabled and server.status != "disabled":
            await self._end([server])
            server.status, server.error = "disabled", ""
        return _state(server)

    async def prompts(self) -> list[tuple[str, ServerPrompt]]:
        """(command's name, prompt) of all connected servers: `mcp__server__prompt`."""
        found: list[tuple[str, ServerPrompt]] = []
        for server in [s for s in self._shared.values() if s.status == "connected"]:
            prompts = await self._ask(server, methodcaller("prompts"))
            found += [(tool_name(server.name, prompt.name), prompt) for prompt in prompts]
        return found

    async def prompt(self, command: str, words: list[str]) -> ServerAnswer:
        """What the prompt says with these arguments, given in the order in which it lists them."""
        server, prompt = await self._find_prompt(command)
        args = {a.name: word for a, word in zip(prompt.arguments, words, strict=False)}
        missing = [a.name for a in prompt.arguments if a.required and a.name not in args]
        if missing:
            raise ToolError(f"/{command} needs: {', '.join(missing)}")
        return await self._ask(server, methodcaller("prompt", prompt.name, args))

    async def _find_prompt(self, command: str) -> tuple[McpConnection, ServerPrompt]:
        for server in self._shared.values():
            if command.startswith(f"mcp__{server_part(server.name)}__"):
                for prompt in await self._ask(server, methodcaller("prompts")):
                    if tool_name(server.name, prompt.name) == command:
                        return server, prompt
        raise ToolError(f"There is no prompt {shown(command, 100)}.")

    async def resource(self, reference: str) -> ServerAnswer:
        """The resource that `@server:uri` names (without the `@`)."""
        name, _, uri = reference.partition(":")
        return await self._ask(self._find(name), methodcaller("read", uri))

    async def _ask(self, server: McpConnection, ask: Callable[[Any], Awaitable[Any]]) -> Any:
        link = await server.link()
        try:
            with anyio.fail_after(self._around.call_seconds):
                return await ask(link)
        except (ServerFault, TimeoutError) as error:
            raise ToolError(f"The MCP server {server.name} did not answer: {str(error) or 'too late'}") from None

    # --- the end

    async def close(self) -> None:
        """End every connection; afterwards no process of theirs is left."""
        servers = {id(s): s for s in [*self._shared.values(), *(s for own in self._inline.values() for s in own)]}
        await self._end(list(servers.values()))

    async def _end(self, servers: list[McpConnection]) -> None:
        for server in servers:
            server.close()
        if self._group is None:
            return
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(CLOSE_SECONDS):
                for server in servers:
                    await server.ended.wait()
            for server in servers:
                server.abandon()

    def _find(self, name: str) -> McpConnection:
        if name not in self._shared:
            raise ToolError(
                f"There is no MCP server {shown(name, 80)}; there are: {', '.join(self._shared) or 'none'}."
            )
        return self._shared[name]

    def _server(self, config: ServerConfig) -> McpConnection:
        name, push, elicit = config.name, self._push, self._elicit

        def offer(server: McpConnection, tool: ServerTool) -> Tool:
            async def call(args: Mapping[str, Any]) -> ServerAnswer:
                return await server.call(tool.name, args)

            return self._make(ServedTool(tool_name(name, tool.name), name, tool, call))

        def log(words: str) -> None:
            self._log(f"MCP server {shown(name, 80)}: {words}")

        ears = Ears(log=log)
        if push is not None:
            ears.push = partial(push, name)
        if elicit is not None:
            ears.elicit = partial(elicit, name)
        return McpConnection(config, self._around, ears, offer, self._tell or _ignore, self._log)


def _ignore(changes: ToolChanges) -> None:
    """Nobody listens; the tools are off anyway."""


def _serves(server: McpConnection) -> bool:
    return server.status == "connected" and bool(server.tools())


def _tools(servers: Iterable[McpConnection]) -> dict[str, Tool]:
    """Tools by name. If two have the same name, the first keeps it: the model could not tell them apart."""
    found: dict[str, Tool] = {}
    for server in servers:
        for tool in server.tools():
            found.setdefault(tool.spec.name, tool)
    return found


def _state(server: McpConnection) -> ServerState:
    names = tuple(tool.spec.name for tool in server.tools()) if server.status == "connected" else ()
    return ServerState(server.name, server.status, server.error, names, server.waiting)
