"""Passes on the body of one request, by its length or its chunks, and not a byte beyond it."""

import errno
import re

from teamwright.host.ipc.stream import CHUNK
from teamwright.host.sandbox.connections.wire import Silence, Stream

_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;[^\x00-\x08\x0a-\x1f\x7f]*)?")
_MOST_LINE = 4_096
_MOST_TRAILERS = 64


class Buffered:
    """A connection from which some bytes were already read."""

    def __init__(self, wire: Stream, rest: bytes) -> None:
        self.wire, self.rest = wire, rest

    async def some(self, most: int) -> bytes:
        """Up to `most` bytes, at least one. Raises ConnectionError if the other side is gone."""
        if not self.rest:
            self.rest = await self.wire.receive(min(most, CHUNK))
            if not self.rest:
                raise ConnectionResetError(errno.ECONNRESET, "the request ended in its middle")
        piece, self.rest = self.rest[:most], self.rest[most:]
        return piece

    async def line(self) -> bytes:
        """Reads up to the next CR LF. Raises ValueError if the line is too long."""
        while b"\r\n" not in self.rest:
            if len(self.rest) > _MOST_LINE:
                raise ValueError("a line of a chunk is too long")
            more = await self.wire.receive()
            if not more:
                raise ConnectionResetError(errno.ECONNRESET, "the request ended in its middle")
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\r\n")
        return line


async def send_body(source: Buffered, sink: Stream, length: int | None, silence: Silence) -> None:
    """`length` None means chunks, which are written anew; trailers are dropped. Raises ValueError for invalid chunks.

    Raises BrokenPipeError if the sink accepts no more, ConnectionResetError if the source is gone.
    """
    if length is not None:
        await _send(source, sink, length, silence)
        return
    while size := await _chunk_size(source):
        await sink.send(b"%x\r\n" % size)
        await _send(source, sink, size, silence)
        if await source.line():
            raise ValueError("a chunk is longer than it says")
        await sink.send(b"\r\n")
    for _ in range(_MOST_TRAILERS):
        if not await source.line():
            await sink.send(b"0\r\n\r\n")
            return
    raise ValueError("too many trailers")


async def _chunk_size(source: Buffered) -> int:
    found = _SIZE.fullmatch(await source.line())
    if found is None:
        raise ValueError("the size of a chunk is not a number")
    return int(found[1], 16)


async def _send(source: Buffered, sink: Stream, size: int, silence: Silence) -> None:
    while size:
        piece = await source.some(size)
        await sink.send(piece)
        size -= len(piece)
        silence.broken()
