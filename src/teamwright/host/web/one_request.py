"""One HTTP request to an address written by a person: no redirects, no cookies, no kept connection.

Imported only when such a request is made, because aiohttp is heavy.
"""

import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Literal

import aiohttp
import anyio.to_thread
from yarl import URL

from teamwright.core.proxies import proxy_for
from teamwright.host.web.addresses import is_this_machine


@asynccontextmanager
async def one_request(
    method: Literal["GET", "POST"],
    url: URL,
    headers: Mapping[str, str],
    env: Mapping[str, str],
    data: bytes | None = None,
) -> AsyncGenerator[aiohttp.ClientResponse]:
    """Uses the proxy set in `env`, except for this machine. Has no time limit of its own."""
    proxy = None if is_this_machine(url.host or "") else proxy_for(url.scheme, url.host or "", url.port, env)
    secure = url.scheme == "https" or (proxy or "").startswith("https:")
    context = await anyio.to_thread.run_sync(ssl.create_default_context) if secure else True
    async with (
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True, ssl=context),
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        ) as session,
        session.request(method, url, data=data, headers=headers, allow_redirects=False, proxy=proxy) as response,
    ):
        yield response
