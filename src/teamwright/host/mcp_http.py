"""Servers behind a URL: streamable HTTP and the older server-sent events, with every answer bounded."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from teamwright.core.server import Http, Sse
from teamwright.host.mcp_streams import WatchedReader

MOST_BYTES = 16 << 20  # of one answer
IDLE_SECONDS = 3600.0  # an event stream may be silent for as long
ERRORS: tuple[type[Exception], ...] = (
    MCPError, OAuthFlowError, httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, httpx2.SSEError,
)  # fmt: skip


@asynccontextmanager
async def open_http(
    reach: Http | Sse,
    connect_seconds: float,
    call_seconds: float,
    lost: anyio.Event,
    note: Callable[[int], None],
    login: httpx2.Auth | None = None,
) -> AsyncGenerator[tuple[Any, Any]]:
    """Redirects stay on the server's own origin: the package sees to that. Proxies are the environment's."""

    async def look(response: httpx2.Response) -> None:
        if response.request.method != "GET":
            note(response.status_code)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _Bounded(response.stream)

    def client(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, event_hooks={"response": [look]})

    if isinstance(reach, Sse):
        async with sse_client(
            reach.url, headers=dict(reach.headers), timeout=connect_seconds, sse_read_timeout=IDLE_SECONDS,
            httpx_client_factory=client, auth=login,
        ) as (read, write):  # fmt: skip
            yield WatchedReader(read, lost), write
        return
    limits = httpx2.Timeout(connect_seconds, read=max(call_seconds, connect_seconds))
    async with (
        client(dict(reach.headers), limits, login) as http,
        streamable_http_client(reach.url, http_client=http, max_sse_event_size=MOST_BYTES) as (read, write),
    ):
        yield WatchedReader(read, lost), write


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for piece in self._inner:
            total += len(piece)
            if total > MOST_BYTES:
                raise httpx2.ReadError(f"it sent more than {MOST_BYTES >> 20} MiB")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
