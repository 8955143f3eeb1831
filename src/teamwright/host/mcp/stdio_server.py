"""JSON lines over our own standard input and output, for a program that started us as its server."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectSendStream

from teamwright.core.errors import UsageError
from teamwright.host.mcp.shrink import id_in
from teamwright.host.mcp.stdio_client import LONGEST, ServerPipes

_READ = 1 << 16
_WRITE = 4096  # PIPE_BUF: a writable pipe takes this much without blocking


@asynccontextmanager
async def open_stdio(inward: int = 0, outward: int = 1) -> AsyncGenerator[ServerPipes]:
    """`lines` ends when the other side closes. The handles stay blocking, because they may be shared."""
    put, lines = anyio.create_memory_object_stream[bytes](0)
    one_at_a_time = anyio.Lock()

    async def send(line: bytes) -> None:
        async with one_at_a_time:
            rest = memoryview(line + b"\n")
            while rest:
                try:
                    await anyio.wait_writable(outward)
                    rest = rest[os.write(outward, rest[:_WRITE]) :]
                except PermissionError:  # a regular file, which is always writable
                    rest = rest[os.write(outward, rest) :]
                except OSError:
                    raise anyio.BrokenResourceError from None

    async with anyio.create_task_group() as group:
        group.start_soon(_listen, inward, put, send)
        try:
            yield ServerPipes(lines, send, str)
        finally:
            lines.close()
            group.cancel_scope.cancel()


async def _listen(handle: int, lines: MemoryObjectSendStream[bytes], send: Callable[[bytes], Awaitable[None]]) -> None:
    """A line that is too long gets an error as its answer, and is skipped."""
    rest, skipping = bytearray(), False
    with lines:
        while data := await _read(handle):
            *whole, last = data.split(b"\n")
            for piece in whole:
                if not skipping and (line := bytes(rest + piece).strip()):
                    await lines.send(line)
                rest.clear()
                skipping = False
            rest += last
            if len(rest) > LONGEST:
                if not skipping:
                    await send(_refusal(bytes(rest)))
                rest.clear()
                skipping = True


def _refusal(line: bytes) -> bytes:
    error = {"code": -32600, "message": f"a message is longer than {LONGEST >> 20} MiB and was left out"}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id_in(line), "error": error})


async def _read(handle: int) -> bytes:
    try:
        await anyio.wait_readable(handle)
        return os.read(handle, _READ)
    except PermissionError:
        raise UsageError("standard input must be a pipe: an MCP client starts this program by itself") from None
    except OSError:
        return b""
