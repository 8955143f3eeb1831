"""An MCP server on a local port, for clients that have its token."""

import socket
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from contextlib import contextmanager
from hmac import compare_digest
from typing import Any

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from teamwright.core.errors import UsageError
from teamwright.core.policies.own_address import OwnAddress
from teamwright.host.mcp.stdio_client import LONGEST

PATH = "/mcp"
MOST_SESSIONS = 64  # concurrent clients; one that is silent for half an hour is dropped
MOST_CONNECTIONS = 256
LAST_SECONDS = 1  # for open requests during shutdown
Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


def listen(port: int) -> socket.socket:
    """Listens on loopback only; 0 picks a free port."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"port {port} cannot be listened on ({why}): --port 0 takes a free one") from None


async def serve_http(server: Server[Any], listening: socket.socket, token: str) -> None:
    """Serves until cancelled."""
    manager = StreamableHTTPSessionManager(server, max_request_body_size=LONGEST, max_sessions=MOST_SESSIONS)
    door = _Door(manager.handle_request, OwnAddress(listening.getsockname()[1]), token)
    config = uvicorn.Config(
        door,
        lifespan="off",
        ws="none",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=LAST_SECONDS,
    )
    web = _WebServer(config)

    async def run() -> None:
        with anyio.CancelScope(shield=True):  # it ends by itself once told to
            await web.serve([listening])

    async with manager.run(), anyio.create_task_group() as group:
        group.start_soon(run)
        try:
            await anyio.sleep_forever()
        finally:
            web.should_exit = True


class _WebServer(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leaves signals to the program."""
        yield


class _Door:
    """Rejects requests from web pages, for other host names than ours, or without the token."""

    def __init__(self, inside: Callable[[Scope, Receive, Send], Awaitable[None]], own: OwnAddress, token: str) -> None:
        self._inside, self._own, self._token = inside, own, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1").title(): value.decode("latin-1") for name, value in scope["headers"]}
        if self._own.stranger(headers) is not None:
            await _refuse(send, 403, "requests of other sites, or to other names than this address, are refused")
        elif not self._knows(headers.get("Authorization", "")):
            await _refuse(send, 401, "the token is missing or wrong: send it as `Authorization: Bearer TOKEN`")
        elif scope["path"] != PATH:
            await _refuse(send, 404, f"there is nothing here; the server is at {PATH}")
        else:
            await self._inside(scope, receive, send)

    def _knows(self, said: str) -> bool:
        scheme, _, token = said.partition(" ")
        return scheme.lower() == "bearer" and compare_digest(token.strip().encode(), self._token)


async def _refuse(send: Send, status: int, words: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
    headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{words}\n".encode()})
