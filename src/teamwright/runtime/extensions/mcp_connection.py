"""Keeps one MCP server connected in the background: restarted after a crash, limited to approved tools."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import anyio
from msgspec import Struct

from teamwright.core.data.extensions.server import ServerAnswer, ServerConfig, ServerFault, ServerStatus, ServerTool
from teamwright.core.errors import ToolError
from teamwright.core.ports import Tool
from teamwright.core.text import shown
from teamwright.host.mcp.callbacks import Ears, Listing
from teamwright.host.mcp.connect import McpContext, connect

if TYPE_CHECKING:
    from teamwright.host.mcp.session import McpSession

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0  # seconds between two starts
MOST_STARTS = 5  # in a row, before a server that keeps ending is given up
STEADY_SECONDS = 60.0  # after this long without a crash the count starts over
RELIST_PAUSE = 0.5  # seconds between listings, even if a server says "changed" all the time


class ServedTool(Struct, frozen=True):
    """A server's tool, to make a `Tool` of: its full name, its server, and how to call it."""

    name: str
    server: str
    tool: ServerTool
    call: "Callable[[Mapping[str, Any]], Any]"


class ToolChanges(Struct, frozen=True):
    """What differs from what was approved; these tools are off."""

    server: str
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class McpConnection:
    """The connection to one server. `live` is its only task; all others look, call and wait."""

    def __init__(
        self,
        config: ServerConfig,
        around: McpContext,
        ears: Ears,
        offer: "Callable[[McpConnection, ServerTool], Tool]",
        tell: Callable[[ToolChanges], None],
        log: Callable[[str], None],
    ) -> None:
        self.config, self.name = config, config.name
        self.status: ServerStatus = "pending"
        self.error = ""
        self.instructions = ""
        self.holders: set[str] = set()
        self.settled = anyio.Event()  # connected or failed; replaced while the server restarts
        self.ended = anyio.Event()
        self.current: dict[str, ServerTool] = {}
        self.approved: dict[str, ServerTool] | None = None  # None: the first listing counts as approved
        self._around, self._offer, self._tell, self._log = around, offer, tell, log
        self._ears = Ears(changed=self._heard, push=ears.push, log=ears.log, elicit=ears.elicit)
        self._made: dict[str, tuple[ServerTool, Tool]] = {}
        self._link: McpSession | None = None
        self._news = anyio.Event()
        self._scope = anyio.CancelScope()
        self._relist = self._closing = self._again = self._was_up = False

    # --- its task

    async def live(self) -> None:
        pause, starts = FIRST_PAUSE, 0
        try:
            with self._scope:
                while not self._closing:
                    born = anyio.current_time()
                    await self._connection()
                    if self._again or anyio.current_time() - born > STEADY_SECONDS:
                        pause, starts = FIRST_PAUSE, 0
                    starts += 1
                    if self.status == "pending" and starts < MOST_STARTS:
                        with anyio.move_on_after(pause):
                            await self._woken()
                        pause = min(pause * 4, LONGEST_PAUSE)
                    else:
                        self._give_up()
                        await self._woken()
                        pause, starts = FIRST_PAUSE, 0
        finally:
            self.settled.set()
            self.ended.set()

    async def _connection(self) -> None:
        """Run one connection from start to end. Afterwards the status is `pending` if another try makes sense."""
        try:
            async with connect(self.config, self._around, self._ears) as link:
                self._opened(link, await self._list(link))
                await self._watch(link)
                if not (self._closing or self._again):
                    raise ServerFault("the connection ended", "lost")
        except ServerFault as fault:
            self._failed(fault)
        finally:
            self._link = None

    async def _list(self, link: "McpSession") -> list[ServerTool]:
        try:
            with anyio.fail_after(self._around.connect_seconds):
                return await link.tools()
        except TimeoutError:
            raise ServerFault(f"it did not list its tools within {self._around.connect_seconds:g} s") from None

    def _opened(self, link: "McpSession", tools: list[ServerTool]) -> None:
        self._link, self.instructions = link, link.instructions
        self.status, self.error, self._was_up = "connected", "", True
        self._listed(tools)
        self.settled.set()

    async def _watch(self, link: "McpSession") -> None:
        """Until the connection is lost or closed on request; list the tools again when they change."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._notice, link)
            while not (self._closing or self._again or link.lost.is_set()):
                await self._news.wait()
                self._news = anyio.Event()
                if self._relist and not link.lost.is_set():
                    self._relist = False
                    self._listed(await self._list(link))
                    with anyio.move_on_after(RELIST_PAUSE):
                        await link.lost.wait()
            group.cancel_scope.cancel()

    async def _notice(self, link: "McpSession") -> None:
        await link.lost.wait()
        self._news.set()

    def _failed(self, fault: ServerFault) -> None:
        """Retry a server that has worked before; one that never did would only fail again."""
        if self._closing or self._again:
            return
        self.error = str(fault)
        self._log(f"MCP server {shown(self.name, 80)}: {self.error}")
        if fault.kind == "needs-auth":
            self.status = "needs-auth"
        elif self._was_up:
            self._pend()
        else:
            self.status = "failed"

    def _give_up(self) -> None:
        """Stop trying until somebody asks for the server."""
        if self._again or self._closing:
            return
        if self.status == "pending":
            self.status = "failed"
        self.settled.set()

    def _pend(self) -> None:
        self.status = "pending"
        if self.settled.is_set():
            self.settled = anyio.Event()

    async def _woken(self) -> None:
        while not (self._closing or self._again):
            await self._news.wait()
            self._news = anyio.Event()
        self._again = False

    def _heard(self, listing: Listing) -> None:
        if listing == "tools":
            self._relist = True
            self._news.set()

    # --- what others ask of it

    def close(self) -> None:
        """Close in good order if connected; a server that is still starting gets no more time."""
        self._closing = True
        self._news.set()
        if self._link is None:
            self._scope.cancel()

    def abandon(self) -> None:
        """Cancel it: its time to close is over."""
        self._scope.cancel()

    def revive(self) -> None:
        """Make a closed connection ready for another `live`; approved tools stay approved."""
        self._closing = self._again = self._was_up = False
        self._scope, self.ended = anyio.CancelScope(), anyio.Event()
        self._pend()

    def reconnect(self) -> None:
        """Connect again, even after the server was given up."""
        self._again = True
        self._pend()
        self._news.set()

    def _listed(self, tools: list[ServerTool]) -> None:
        before, self.current = self.current, {tool.name: tool for tool in tools}
        if self.approved is None:
            self.approved = dict(self.current)
        elif before != self.current:
            changes = _compare(self.name, self.approved, self.current)
            if changes.added or changes.changed or changes.removed:
                self._tell(changes)

    def approve(self) -> None:
        """A person has approved the tools as they are now."""
        self.approved = (self.approved or {}) | self.current

    def is_on(self, tool: str) -> bool:
        found = self.current.get(tool)
        return found is not None and self.approved is not None and self.approved.get(tool) == found

    def tools(self) -> list[Tool]:
        """Tools that are approved and present; the same objects as long as they do not change."""
        if self.status not in ("connected", "pending"):
            return []
        for tool in self.current.values():
            if self.is_on(tool.name) and self._made.get(tool.name, (None,))[0] != tool:
                self._made[tool.name] = tool, self._offer(self, tool)
        return [self._made[name][1] for name in self.current if self.is_on(name)]

    @property
    def waiting(self) -> tuple[str, ...]:
        return tuple(name for name in self.current if not self.is_on(name))

    async def call(self, tool: str, args: Mapping[str, Any]) -> ServerAnswer:
        """Raises ToolError. Never retried, because nobody knows what the first try did."""
        link = await self.link()
        self._check(tool)
        seconds = self.config.call_seconds or self._around.call_seconds
        try:
            with anyio.fail_after(seconds):
                return await link.call(tool, args)
        except TimeoutError:
            raise ToolError(
                f"The MCP server {self.name} did not answer within {seconds:g} s. Whether the call had an effect is "
                "not known; check before you call it again."
            ) from None
        except ServerFault as fault:
            raise self._refusal(fault) from None

    def _check(self, tool: str) -> None:
        if tool not in self.current:
            raise ToolError(f"The MCP server {self.name} has no tool {shown(tool, 80)} any more. Do without it.")
        if not self.is_on(tool):
            raise ToolError(
                f"The MCP server {self.name} changed its tool {shown(tool, 80)} after it was approved, so it is off "
                "until the user approves the change. Do without it, or tell the user."
            )

    def _refusal(self, fault: ServerFault) -> ToolError:
        if fault.kind == "refused":
            return ToolError(f"The MCP server {self.name} refused the call: {fault}")
        return ToolError(
            f"The MCP server {self.name} ended during the call. Whether the call had an effect is not known. It is "
            "being started again; check before you call it again."
        )

    async def link(self) -> "McpSession":
        """The open connection; waits for it while it is being opened."""
        if self._link is not None and self._link.lost.is_set():  # its own task is about to notice
            self._link = None
            self._pend()
        if self.status == "pending":
            with anyio.move_on_after(self._around.connect_seconds):
                await self.settled.wait()
        if self._link is None:
            why = f": {self.error}" if self.error else ""
            raise ToolError(f"The MCP server {self.name} is not connected ({self.status}){why}. Do without it.")
        return self._link


def _compare(server: str, approved: Mapping[str, ServerTool], current: Mapping[str, ServerTool]) -> ToolChanges:
    added = tuple(name for name in current if name not in approved)
    changed = tuple(name for name, tool in current.items() if name in approved and approved[name] != tool)
    removed = tuple(name for name in approved if name not in current)
    return ToolChanges(server, added, changed, removed)
