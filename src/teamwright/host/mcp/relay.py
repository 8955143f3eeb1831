"""Relays messages to servers inside the program that drives us, as a question and its answer."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectSendStream

from teamwright.core.errors import TeamwrightError
from teamwright.host.mcp.stdio_client import ServerPipes


@asynccontextmanager
async def open_relay(
    server: str, exchange: Callable[[str, dict[str, Any]], Awaitable[dict[str, Any] | None]]
) -> AsyncGenerator[ServerPipes]:
    """`exchange` returns the answer to a message, or None if it has none; its errors become the server's."""
    send_lines, lines = anyio.create_memory_object_stream[bytes](0)

    async def ask(message: dict[str, Any], answers: MemoryObjectSendStream[bytes]) -> None:
        try:
            answer = await exchange(server, message)
        except TeamwrightError as error:
            answer = {"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": -32603, "message": str(error)}}
        if answer is not None and "id" in message:
            try:
                await answers.send(msgspec.json.encode(answer | {"id": message["id"]}))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    async with anyio.create_task_group() as group, send_lines, lines:

        async def send(line: bytes) -> None:
            message: dict[str, Any] = msgspec.json.decode(line)
            group.start_soon(ask, message, send_lines)

        yield ServerPipes(lines, send, str)
        group.cancel_scope.cancel()
