"""Connects to servers by URL, over streamable HTTP or the older SSE; every answer is bounded."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from teamwright.core.data.extensions.server import Http, Sse
from teamwright.host.mcp.shrink import SMALL, UnreadableMessage, shrink
from teamwright.host.mcp.streams import WaitingCall, WatchedReader, WatchedWriter

MOST_BYTES = 16 << 20  # per answer
IDLE_SECONDS = 3600.0  # an event stream may be silent for as long
ERRORS: tuple[type[Exception], ...] = (
    MCPError,
    OAuthFlowError,
    httpx2.HTTPError,
    httpx2.InvalidURL,
    httpx2.StreamError,
    httpx2.SSEError,
)


@asynccontextmanager
async def open_http(
    reach: Http | Sse,
    connect_seconds: float,
    call_seconds: float,
    lost: anyio.Event,
    note: Callable[[int], None],
    login: httpx2.Auth | None = None,
) -> AsyncGenerator[tuple[Any, Any]]:
    """The package keeps redirects on the server's own origin. Proxies come from the environment."""

    async def look(response: httpx2.Response) -> None:
        if response.request.method != "GET":
            note(response.status_code)
        if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            raise httpx2.ReadError("it packs its answers, though it was asked not to")
        response.encoding = "utf-8"  # whatever it says: the protocol only allows UTF-8
        events = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = (_Events if events else _Whole)(response.stream)

    def client(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        plain = {**(headers or {}), "accept-encoding": "identity"}  # decompressed data would be unbounded
        return httpx2.AsyncClient(headers=plain, timeout=timeout, auth=auth, event_hooks={"response": [look]})

    waiting = WaitingCall()
    if isinstance(reach, Sse):
        async with sse_client(
            reach.url,
            headers=dict(reach.headers),
            timeout=connect_seconds,
            sse_read_timeout=IDLE_SECONDS,
            httpx_client_factory=client,
            auth=login,
        ) as (read, write):
            yield WatchedReader(read, lost, waiting), WatchedWriter(write, waiting)
        return
    limits = httpx2.Timeout(connect_seconds, read=max(call_seconds, connect_seconds))
    async with (
        client(dict(reach.headers), limits, login) as http,
        streamable_http_client(reach.url, http_client=http, max_sse_event_size=MOST_BYTES) as (read, write),
    ):
        yield WatchedReader(read, lost, waiting), WatchedWriter(write, waiting)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Whole(_Bounded):
    """A complete answer: large JSON is shrunk before the package sees it."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces, total = list[bytes](), 0
        async for piece in self._inner:
            pieces.append(piece)
            total += len(piece)
            if total > MOST_BYTES:
                raise httpx2.ReadError(f"it sent more than {MOST_BYTES >> 20} MiB")
        yield await _small(b"".join(pieces))


class _Events(_Bounded):
    """Streamed events; a long data line is shrunk in the same way."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest = bytearray()
        async for piece in self._inner:
            *whole, last = piece.split(b"\n")
            for part in whole:
                line = bytes(rest + part)
                rest.clear()
                yield (await _small(line[5:], b"data:") if line.startswith(b"data:") else line) + b"\n"
            rest += last
            if len(rest) > MOST_BYTES:
                raise httpx2.ReadError(f"it sent an event of more than {MOST_BYTES >> 20} MiB")
        if rest:
            yield bytes(rest)


async def _small(data: bytes, before: bytes = b"") -> bytes:
    if len(data) <= SMALL:
        return before + data
    try:
        return before + await anyio.to_thread.run_sync(shrink, data.strip())
    except UnreadableMessage:
        return before + b'{"unreadable": true}'  # the package reports it to the waiting caller in its own words
