"""Reads prompts from standard input: one text, or JSON lines of a driving program."""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from functools import partial

import anyio

from teamwright.core.errors import UsageError

FIRST_BYTE = 3.0  # seconds that a prompt on the command line waits for a pipe that may never speak
_CHUNK = 65_536
LONGEST = 256 * 1024 * 1024  # bytes of one input line


async def _open() -> asyncio.StreamReader | bytes:
    """A reader for pipes, sockets and terminals; for a file or /dev/null its content."""
    try:
        kind = os.fstat(0).st_mode
        if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or os.isatty(0)):
            with os.fdopen(os.dup(0), "rb") as file:
                return file.read()
    except OSError:  # closed, or a directory
        return b""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(partial(asyncio.StreamReaderProtocol, reader), sys.stdin)
    return reader


async def read_text(*, beside: bool) -> str:
    """All of standard input. `beside` a prompt on the command line, a silent pipe is not waited for."""
    reader = await _open()
    if isinstance(reader, bytes):
        return reader.decode(errors="replace")
    if beside and os.isatty(0):
        return ""
    first = b""
    with anyio.move_on_after(FIRST_BYTE if beside else None) as waiting:
        first = await reader.read(_CHUNK)
    if waiting.cancelled_caught or not first:
        return ""
    return (first + await reader.read()).decode(errors="replace")


async def read_chunks() -> AsyncIterator[bytes]:
    """All of standard input as it comes. It holds no task, so it may be left at any time."""
    reader = await _open()
    if isinstance(reader, bytes):
        yield reader
        return
    while chunk := await reader.read(_CHUNK):
        yield chunk


async def read_lines() -> AsyncIterator[bytes]:
    """Lines of any length, without their ends. It may be left at any time, too."""
    waiting: list[bytes] = []
    size = 0
    async for chunk in read_chunks():
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            yield b"".join([*waiting, part])
            waiting, size = [], 0
        waiting.append(rest)
        size += len(rest)
        if size > LONGEST:
            raise UsageError("a line of standard input is longer than 256 MiB")
    if last := b"".join(waiting):
        yield last
