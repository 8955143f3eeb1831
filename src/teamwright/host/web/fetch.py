"""Fetches one page from the public internet: every address is vetted and everything is bounded.

The name is resolved once, all its addresses are vetted, and the connection uses only those, so that the name cannot
resolve differently in between. Behind a proxy (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) the proxy resolves names; then only
literal addresses and names of local networks can be refused.
"""

import os
import socket
import ssl
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import anyio
import anyio.to_thread
from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.core.proxies import proxy_for
from teamwright.core.text import shown
from teamwright.host.web.addresses import Address, Allowed, is_local_name, is_public, literal
from teamwright.host.web.unpack import Unpacker

if TYPE_CHECKING:
    from aiohttp import ClientResponse
    from aiohttp.abc import ResolveResult
    from yarl import URL

MOST_BYTES = 5_000_000  # per page, after decompression
MOST_SECONDS = 30.0
MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_HEADERS = {
    "User-Agent": "teamwright (coding agent)",
    "Accept": "text/markdown, text/html;q=0.9, text/plain;q=0.9, application/json;q=0.8, */*;q=0.5",
    "Accept-Encoding": "gzip, deflate",  # only what we decompress ourselves, piece by piece
}


class WebPage(Struct, frozen=True):
    """The result. `moved_to` is set if a redirect to another host was not followed."""

    url: str
    status: int
    reason: str
    media_type: str
    charset: str | None
    body: bytes
    cut: bool  # the page is longer than what was read
    seconds: float
    moved_to: str | None = None


async def fetch(
    url: str,
    *,
    allowed: Allowed = is_public,
    seconds: float = MOST_SECONDS,
    env: Mapping[str, str] | None = None,
) -> WebPage:
    """Fetches the page. Raises ToolError that says what the model can do."""
    began = time.monotonic()
    try:
        with anyio.fail_after(seconds):
            return await _follow(url, allowed, os.environ if env is None else env, began)
    except TimeoutError:
        raise ToolError(f"{shown(url)} did not answer in full within {seconds:g} seconds.") from None


async def _follow(url: str, allowed: Allowed, env: Mapping[str, str], began: float) -> WebPage:
    from teamwright.host.web.address import parse_address  # noqa: PLC0415

    asked = parse_address(url)
    for _ in range(MOST_REDIRECTS + 1):
        page = await _get(asked, allowed, env, began)
        if page.moved_to is None:
            return page
        target = parse_address(page.moved_to)
        if not _same_site(asked, target):
            return page
        asked = target
    raise ToolError(f"{shown(url)} redirects more than {MOST_REDIRECTS} times; the last was to {shown(str(asked))}.")


def _same_site(one: "URL", other: "URL") -> bool:
    """The same host, with or without `www.`, and no way down from https to http."""
    if one.scheme == "https" and other.scheme == "http":
        return False
    ports = one.port == other.port or (one.is_default_port() and other.is_default_port())
    return ports and _bare(one) == _bare(other)


def _bare(url: "URL") -> str:
    from teamwright.host.web.address import host_of  # noqa: PLC0415

    return host_of(url).removeprefix("www.")


async def _get(url: "URL", allowed: Allowed, env: Mapping[str, str], began: float) -> WebPage:
    import aiohttp  # noqa: PLC0415

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=15, sock_read=20)
    try:
        proxy = proxy_for(url.scheme, url.host or "", url.port, env)
        resolver = None
        if proxy:
            _vet_name(url, allowed)
        else:
            resolver = _resolver(await _vetted(url, allowed))
        secure = url.scheme == "https" or (proxy or "").startswith("https:")
        context = await anyio.to_thread.run_sync(ssl.create_default_context) if secure else True
        connector = aiohttp.TCPConnector(resolver=resolver, force_close=True, ssl=context)
        async with (
            aiohttp.ClientSession(
                connector=connector, timeout=timeout, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
            ) as session,
            session.get(url, headers=_HEADERS, allow_redirects=False, proxy=proxy) as response,
        ):
            return await _read_page(url, response, began)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        words = shown(str(error) or type(error).__name__).removesuffix(".")
        raise ToolError(f"{shown(str(url))} could not be fetched: {words}.") from None


async def _read_page(url: "URL", response: "ClientResponse", began: float) -> WebPage:
    location = response.headers.get("Location")
    moved = urljoin(str(url), location) if response.status in _REDIRECTS and location else None
    body, cut = (b"", False) if moved else await _body(response)
    return WebPage(
        url=str(url),
        status=response.status,
        reason=shown(response.reason or "", 100),
        media_type=response.content_type if "Content-Type" in response.headers else "",
        charset=response.charset,
        body=body,
        cut=cut,
        seconds=time.monotonic() - began,
        moved_to=moved,
    )


async def _body(response: "ClientResponse") -> tuple[bytes, bool]:
    """The decompressed body, at most MOST_BYTES: a compression bomb never becomes large in memory."""
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise ValueError(f"its body is packed as {encoding!r}, which was not asked for")
    unpack = Unpacker(encoding) if encoding not in ("", "identity") else None
    pieces: list[bytes] = []
    room, taken = MOST_BYTES, 0
    while room > 0 and taken <= MOST_BYTES:
        data = await response.content.read(65_536)
        if not data:
            return b"".join(pieces), False
        taken += len(data)
        piece = unpack.feed(data, room) if unpack else data
        pieces.append(piece[:room])
        room -= len(piece)
    return b"".join(pieces), True


async def _vetted(url: "URL", allowed: Allowed) -> list[Address]:
    """All addresses of the host, each of them allowed."""
    host = url.host or ""
    direct = literal(host)
    found = await _look_up(url, host) if direct is None else [direct]
    if not found or not all(allowed(address) for address in found):
        raise ToolError(_refusal(host))
    return found


async def _look_up(url: "URL", host: str) -> list[Address]:
    ask = partial(socket.getaddrinfo, url.raw_host, url.port or 80, type=socket.SOCK_STREAM)
    try:
        rows = await anyio.to_thread.run_sync(ask, abandon_on_cancel=True)
    except (OSError, UnicodeError) as error:
        words = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ToolError(f"There is no address for the host {shown(host)}: {shown(words)}.") from None
    return [a for a in dict.fromkeys(literal(str(row[4][0])) for row in rows) if a is not None]


def _vet_name(url: "URL", allowed: Allowed) -> None:
    host = url.host or ""
    direct = literal(host)
    if (direct is not None and not allowed(direct)) or (direct is None and is_local_name(host)):
        raise ToolError(_refusal(host))


def _refusal(host: str) -> str:
    return (
        f"{shown(host)} is not on the public internet. WebFetch does not reach this machine, private networks or "
        "metadata services; a program on this machine can be reached with Bash and curl, if that is allowed."
    )


def _resolver(addresses: list[Address]) -> Any:
    """Knows only the vetted addresses of the one requested host."""
    from aiohttp.abc import AbstractResolver  # noqa: PLC0415

    class Vetted(AbstractResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> "list[ResolveResult]":
            return [
                {
                    "hostname": host,
                    "host": str(address),
                    "port": port,
                    "family": socket.AF_INET if address.version == 4 else socket.AF_INET6,
                    "proto": 0,
                    "flags": socket.AI_NUMERICHOST,
                }
                for address in addresses
            ]

        async def close(self) -> None:
            pass

    return Vetted()
