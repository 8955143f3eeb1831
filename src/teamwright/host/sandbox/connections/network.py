"""Connects boxes to the network of their root: the namespace, its proxy, and forwarded local ports."""

import socket
import sys
from collections.abc import Iterable

import anyio
from anyio.abc import TaskGroup, TaskStatus
from msgspec import Struct, field

from teamwright.core.errors import ToolError
from teamwright.host.sandbox.connections.accepting import forward
from teamwright.host.sandbox.connections.netns import Namespace, open_namespace
from teamwright.host.sandbox.connections.proxy import USER, Proxy, ProxyRules
from teamwright.host.sandbox.connections.wire import Stream

PROXY_VARIABLES = (  # of a person's environment; boxes must not have them
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "no_proxy"),
)
_NO_PROXY = "localhost,127.0.0.1,::1,[::1]"  # the box's own loopback
_LOST = (
    "The network of this working directory was made anew, because the program that held it had ended: servers that "
    "earlier commands started there can no longer be reached. Start them again if they are needed."
)


class Way(Struct, frozen=True):
    """How one box gets into the network. `argv` goes before bwrap's own, `bwrap` among its arguments.

    `fds` must be inherited by the program. `notice`, if not empty, goes into the command's result.
    """

    argv: tuple[str, ...]
    fds: tuple[int, ...]
    bwrap: tuple[str, ...]
    env: dict[str, str]
    token: str
    notice: str


class NetworkRules(Struct, frozen=True):
    """Without `nsenter`, boxes have an empty network. `http_proxy_port`: the person's own proxy, replacing ours."""

    bwrap: str
    nsenter: str | None
    proxy: ProxyRules
    http_proxy_port: int | None = None
    python: str = sys.executable


class RootNetwork:
    """One per root. Its parts run in `group`, and end with the thread of that group's event loop."""

    def __init__(self, group: TaskGroup, rules: NetworkRules) -> None:
        self._group, self._rules = group, rules
        self._proxy = Proxy(rules.proxy)
        self._opening = anyio.Lock()
        self._live: _Live | None = None
        self._all: list[anyio.CancelScope] = []

    async def prepare(self) -> None:
        """Sets it up before the first command. Raises ToolError if that fails."""
        if self._rules.nsenter is not None:
            await self._current(self._rules.nsenter)

    async def enter(self, call: str, ports: Iterable[int] = ()) -> Way:
        """Access for a box of this call; call `leave` when it has ended. `ports` of this machine are available in there
        too.

        Replaces a namespace whose holder has ended. Raises ToolError if that fails.
        """
        if self._rules.nsenter is None:
            return Way((), (), ("--unshare-net",), {}, "", "")
        live, lost = await self._current(self._rules.nsenter)
        faults = [fault for port in ports if (fault := await self._open_port(live, port))]
        token = self._proxy.admit(call)
        entry = live.namespace.entry()
        notice = " ".join([_LOST] * lost + faults)
        return Way(entry.argv, entry.fds, entry.bwrap, self._environment(live.port, token), token, notice)

    def leave(self, way: Way) -> None:
        """Call when this box and everything it started have ended."""
        self._proxy.dismiss(way.token)

    async def connect(self, port: int) -> Stream:
        """Connects to a server running in there. Raises OSError if nobody listens."""
        if self._live is None:
            raise ConnectionRefusedError("there is no network yet")
        return Stream(await self._live.namespace.connect(port))

    def close(self) -> None:
        """Ends the holder, the proxy and all connections; programs in boxes keep running."""
        for scope in self._all:
            scope.cancel()
        self._live = None

    async def _current(self, nsenter: str) -> "tuple[_Live, bool]":
        """The living namespace, and whether it replaced a lost one."""
        async with self._opening:
            lost = self._live is not None and not self._live.namespace.alive
            if self._live is None or lost:
                # Keep the old one's proxy: programs still running there have no other.
                self._live = await self._group.start(self._run, nsenter)
            assert self._live is not None
            return self._live, lost

    async def _run(self, nsenter: str, *, task_status: "TaskStatus[_Live]") -> None:
        rules = self._rules
        namespace = await open_namespace(rules.bwrap, nsenter, rules.python)
        try:
            listener = await _first_listener(namespace)
            async with anyio.create_task_group() as group:
                self._all.append(group.cancel_scope)
                if rules.http_proxy_port is None:
                    group.start_soon(self._proxy.serve, listener)
                else:
                    group.start_soon(self._forward, listener, rules.http_proxy_port)
                task_status.started(_Live(namespace, group, listener.getsockname()[1]))
        finally:
            with anyio.CancelScope(shield=True):
                await namespace.close()

    async def _open_port(self, live: "_Live", port: int) -> str:
        """Opens a port and returns what went wrong. A port already in use there belongs to a server in the box and
        stays."""
        async with self._opening:
            if port in live.forwarded:
                return ""
            try:
                listener = await live.namespace.listen(port)
            except OSError as error:
                return f"localhost:{port} of this machine is not to be had in the sandbox: {error}."
            live.forwarded.add(port)
            live.group.start_soon(self._forward, listener, port)
            return ""

    async def _forward(self, listener: socket.socket, port: int) -> None:
        limits = self._rules.proxy.limits
        await forward(listener, port, connections=limits.connections, most_silence=limits.silence_seconds)

    def _environment(self, port: int, token: str) -> dict[str, str]:
        named = f"{USER}:{token}@" if self._rules.http_proxy_port is None else ""
        address = f"http://{named}127.0.0.1:{port}"
        upper = {"HTTP_PROXY": address, "HTTPS_PROXY": address, "NO_PROXY": _NO_PROXY}
        return upper | {name.lower(): value for name, value in upper.items()}


class _Live(Struct):
    """A namespace, the tasks that serve it, its proxy port, and the local ports forwarded to it."""

    namespace: Namespace
    group: TaskGroup
    port: int
    forwarded: set[int] = field(default_factory=set[int])


async def _first_listener(namespace: Namespace) -> socket.socket:
    try:
        return await namespace.listen()
    except OSError as error:
        raise ToolError(f"The sandbox's network could not be made: {error}.") from None
