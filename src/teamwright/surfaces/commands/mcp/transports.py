"""Transports of `teamwright mcp serve`: the pipes of the client that started it, or an address."""

import re
import secrets
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio
import msgspec
from mcp.server.lowlevel import Server

from teamwright.core.errors import UsageError
from teamwright.host.mcp.http_server import PATH, listen, serve_http
from teamwright.host.mcp.stdio_server import open_stdio
from teamwright.host.mcp.streams import LineReader, LineWriter

TOKEN = "TEAMWRIGHT_MCP_TOKEN"  # noqa: S105  # the name of a variable
Run = Callable[[Server[Any]], Awaitable[None]]


async def serve_pipes(server: Server[Any]) -> None:
    async with open_stdio() as wire:
        streams: tuple[Any, Any] = LineReader(wire, anyio.Event()), LineWriter(wire)
        await server.run(*streams, server.create_initialization_options())


def serve_at(port: int, env: MutableMapping[str, str], *, as_json: bool) -> Run:
    """Listens at once. The token is removed from `env`: agents' commands must not have it."""
    given = env.pop(TOKEN, "")
    if given and not re.fullmatch(r"[!-~]{20,512}", given):
        raise UsageError(f"{TOKEN} must have 20 to 512 characters of ASCII without spaces; without it one is made up")
    token = given or secrets.token_urlsafe(32)
    listening = listen(port)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}{PATH}"

    async def run(server: Server[Any]) -> None:
        told = {"url": url} if given else {"url": url, "token": token}
        words = msgspec.json.encode(told).decode() if as_json else "\n".join(f"{k}: {v}" for k, v in told.items())
        sys.stdout.write(f"{words}\n")
        sys.stdout.flush()
        await serve_http(server, listening, token)

    return run
